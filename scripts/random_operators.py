#!/usr/bin/env python3
"""Compile random operators with random schedules and configurations, and compare them with NumPy.

Each runs on the functional device in program order and in random interleavings of the units, and on the cycle
simulator. A share of them also runs on the RTL, which must take as many cycles as the simulator. Exit status
1 if anything differs.
"""

import sys
from collections import Counter

import click
import numpy as np
from generators.making import Case
from generators.operators import random_case
from on_devices import devices_of, differences

from vdla.compiler.codegen.stream import compile_stream
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.device import Device
from vdla.runtime.session.launch import place
from vdla.runtime.stream.builder import Stream

DRAM_BYTES = 1 << 24
CONFIGS = (
    TINY,
    SMALL,
    DEFAULT,
    TINY.with_changes(
        name="tiny2",
        batch=2,
        block_in=8,
        acc_buffer_bytes=16384,
        extensions=(*TINY.extensions, Extension.PAD_VALUE),
    ),
    TINY.with_changes(
        name="shallow", load_queue_depth=2, compute_queue_depth=3, store_queue_depth=2, token_depth=1
    ),
    TINY.with_changes(name="plain", extensions=(), token_depth=2, bus_bits=128),
    TINY.with_changes(name="sliding", batch=2, block_in=8, block_out=8, extensions=tuple(Extension)),
    TINY.with_changes(
        name="sliding sums", block_in=8, block_out=8, extensions=(Extension.REQUANTISE, Extension.DEPTHWISE)
    ),
    TINY.with_changes(name="feeding", extensions=(*TINY.extensions, Extension.FEEDBACK)),
    TINY.with_changes(name="wide", block_out=8, acc_bits=16, wgt_buffer_bytes=8192, gemm_stages=5),
)


def run(device: Device, case: Case, stream: Stream) -> tuple[int | None, np.ndarray]:
    """Return the cycles of a case on a device, and its result, int8[n, c, h, w]."""
    out = next(buffer for buffer in case.func.params if buffer.name == "Z")
    launch = place(
        device, stream, {name: values.nbytes for name, values in case.given.items()} | {out.name: out.size}
    )
    for name, values in case.given.items():
        launch.write(name, values)
    cycles = launch.run().cycles
    return cycles, case.result(launch.read(out.name, out.shape, np.int8))


def failures(case: Case, on_rtl: bool) -> list[str]:
    """Return what is wrong with a case; an empty list if it is right."""
    stream = compile_stream(case.func, case.config)
    devices = devices_of(case.config, DRAM_BYTES, on_rtl=on_rtl)
    return differences(devices, lambda device: run(device, case, stream), case.expected)[0]


@click.command(help=__doc__)
@click.option("--cases", default=300, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--rtl", default=10, show_default=True, help="Run one case in this many on the RTL; 0: none.")
def main(cases: int, seed: int, rtl: int) -> None:
    wrong, on_rtl, kinds = 0, 0, Counter()
    with click.progressbar(
        range(seed, seed + cases), file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as seeds:
        for number in seeds:
            case, use_rtl = random_case(number, CONFIGS), bool(rtl) and number % rtl == 0
            on_rtl += use_rtl
            kinds[case.text.split("(")[0].split(" ")[0].strip(",")] += 1
            case_failures = failures(case, use_rtl)
            wrong += bool(case_failures)
            for line in case_failures:
                click.echo(f"seed {number}: {line}\n  {case.text} on {case.config.name}")
    click.echo(
        f"{cases} operators ({', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}) on "
        f"{len(CONFIGS)} configurations, "
        f"{on_rtl} on the RTL too: {wrong} wrong"
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
