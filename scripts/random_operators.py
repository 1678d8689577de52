#!/usr/bin/env python3
"""Hold compiled convolutions against NumPy: random sizes, tiles, virtual threads and configurations.

Each case is lowered, emitted and run on the functional device in program order and in random legal interleavings of the units, and on the
cycle device; every --rtl-th case runs on the RTL too, whose cycles must be the simulator's. Exit status 1 on any difference.
"""

import random
import sys
from dataclasses import dataclass

import click
import numpy as np

from vdla.compiler.codegen.schedules import Tiles, ranked_tiles, schedule_conv2d
from vdla.compiler.codegen.stream import compile_stream
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.te.operators import Convolution, Operator, blocks, conv2d
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY
from vdla.runtime.builder import Stream
from vdla.runtime.device import Device
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.devices.launch import place

INTERLEAVINGS = 3
DRAM_BYTES = 1 << 24
CONFIGS = (
    TINY, SMALL, DEFAULT, TINY.with_changes(name="tiny2", batch=2, block_in=8, acc_buffer_bytes=16384),
    TINY.with_changes(name="shallow", load_queue_depth=2, compute_queue_depth=3, store_queue_depth=2, token_depth=1),
    TINY.with_changes(name="plain", extensions=(), token_depth=2, bus_bits=128),
)


@dataclass(frozen=True)
class Case:
    """One convolution and how it is to be carried out."""

    config: AcceleratorConfig
    size: Convolution
    shift: int
    rectifies: bool
    threads: int
    tiles: Tiles
    seed: int


def random_case(seed: int) -> Case:
    """Return a case that fits its configuration, the same for the same seed."""
    rng = random.Random(seed)
    while True:
        config, kernel = rng.choice(CONFIGS), (rng.choice((1, 2, 3)), rng.choice((1, 1, 3)))
        try:
            size = Convolution(
                rng.randint(1, 40), rng.randint(1, 12), rng.randint(1, 12), rng.randint(1, 40), kernel, (rng.choice((1, 1, 2)), rng.choice((1, 2))),
                (rng.choice((0, 1, 2)), rng.choice((0, 1))), (rng.choice((1, 1, 2)), 1), rng.choice((1, 1, 2)))
            threads = rng.choice((1, 2, 2, 3))
            tiles = rng.choice(ranked_tiles(size, config, threads))
        except IrError:
            continue
        return Case(config, size, rng.randint(0, 10), rng.random() < 0.5, threads, tiles, seed)


def reference(inp: np.ndarray, wgt: np.ndarray, case: Case) -> np.ndarray:
    """Return int8[n, o, oh, ow] of int8[n, c, h, w] and int8[o, c, kh, kw]."""
    size = case.size
    (top, left), (sy, sx), (ey, ex), (height, width) = size.padding, size.stride, size.dilation, size.out_size
    padded = np.pad(inp, ((0, 0), (0, 0), (top, top), (left, left))).astype(np.int64)
    total = np.zeros((size.batch, size.outputs, height, width), np.int64)
    for dy in range(size.kernel[0]):
        for dx in range(size.kernel[1]):
            window = padded[:, :, dy * ey:dy * ey + (height - 1) * sy + 1:sy, dx * ex:dx * ex + (width - 1) * sx + 1:sx]
            total += np.einsum("oc,nchw->nohw", wgt[:, :, dy, dx].astype(np.int64), window)
    return np.clip((total + (1 << case.shift >> 1)) >> case.shift, 0 if case.rectifies else -128, 127).astype(np.int8)


def compile_case(case: Case) -> tuple[Operator, Stream]:
    """Return the operator of a case and its stream."""
    operator = conv2d(case.size, case.config, shift=case.shift, rectifies=case.rectifies)
    schedule = schedule_conv2d(operator, case.size, case.config, shift=case.shift, rectifies=case.rectifies, threads=case.threads, tiles=case.tiles)
    return operator, compile_stream(schedule.lower(), case.config)


def operands(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return random inputs and weights, int8[n, c, h, w] and int8[o, c, kh, kw]."""
    rng, size = np.random.default_rng(case.seed), case.size
    return (rng.integers(-128, 128, (size.batch, size.channels, size.height, size.width), np.int8),
            rng.integers(-128, 128, (size.outputs, size.channels, *size.kernel), np.int8))


def blocked(values: np.ndarray, block: int, batch: int) -> np.ndarray:
    """Return [n, c, h, w] as [n / batch, c / block, h, w, batch, block], filled up with zeros."""
    n, c = values.shape[:2]
    whole = np.pad(values, ((0, -n % batch), (0, -c % block), (0, 0), (0, 0)))
    return whole.reshape(blocks(n, batch), batch, blocks(c, block), block, *values.shape[2:]).transpose(0, 2, 4, 5, 1, 3)


def run(device: Device, operator: Operator, stream: Stream, inp: np.ndarray, wgt: np.ndarray, case: Case) -> tuple[int | None, np.ndarray]:
    """Return the cycles of a case on a device, and its result, int8[n, o, oh, ow]."""
    config, tensors = case.config, (operator.inp, operator.wgt, operator.out)
    launch = place(device, stream, {tensor.name: tensor.buffer.size for tensor in tensors})
    launch.write("X", blocked(inp, config.block_in, config.batch))
    launch.write("W", blocked(wgt.swapaxes(0, 1), config.block_out, config.block_in).transpose(1, 0, 2, 3, 5, 4))
    cycles = launch.run().cycles
    out = launch.read("Z", operator.out.shape, np.int8).transpose(0, 4, 1, 5, 2, 3)
    n, b, o, j, height, width = out.shape
    return cycles, out.reshape(n * b, o * j, height, width)[:case.size.batch, :case.size.outputs]


def failures(case: Case, on_rtl: bool) -> list[str]:
    """Return what is wrong with a case: nothing, one hopes."""
    operator, stream = compile_case(case)
    inp, wgt = operands(case)
    expected = reference(inp, wgt, case)
    devices = {f"functional[seed {order}]": FunctionalDevice(case.config, DRAM_BYTES, order) for order in (None, *range(INTERLEAVINGS))}
    devices["cycle"] = CycleDevice(case.config, DRAM_BYTES)
    if on_rtl:
        from vdla.runtime.devices.rtl.build import Optimise
        from vdla.runtime.devices.rtl.device import RtlDevice
        devices["rtl"] = RtlDevice(case.config, DRAM_BYTES, optimise=Optimise.BUILD)
    found, cycles = [], {}
    for name, device in devices.items():
        try:
            cycles[name], out = run(device, operator, stream, inp, wgt, case)
        except VdlaError as error:
            found.append(f"{name}: {type(error).__name__}: {error}")
            continue
        if not np.array_equal(out, expected):
            found.append(f"{name}: {np.count_nonzero(out != expected)} of {out.size} values differ")
    if on_rtl and cycles.get("rtl") != cycles.get("cycle"):
        found.append(f"cycles: {cycles}")
    return found


@click.command(help=__doc__)
@click.option("--cases", default=300, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--rtl", default=10, show_default=True, help="Run every so many-th case on the RTL; 0: none.")
def main(cases: int, seed: int, rtl: int) -> None:
    wrong = on_rtl = 0
    with click.progressbar(range(seed, seed + cases), file=sys.stderr, hidden=not sys.stderr.isatty()) as seeds:
        for number in seeds:
            case, use_rtl = random_case(number), bool(rtl) and number % rtl == 0
            on_rtl += use_rtl
            found = failures(case, use_rtl)
            wrong += bool(found)
            for line in found:
                click.echo(f"seed {number}: {line}\n  {case}")
    click.echo(f"{cases} convolutions on {len(CONFIGS)} configurations, {on_rtl} on the RTL too: {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
