#!/usr/bin/env python3
"""Micro-benchmarks of the RTL against the promises of the design.

They run the default configuration with the reference memory. Rates come from the difference of two runs, so
that start, fetch and drain cancel out. For a single GEMM instruction these are a run of the instruction and a
run of FINISH alone, and the counters of the unit are read. For the others these are a run of N instructions
and a run of 2N. The large GEMM counts every cycle from start to done. Exit status 1 if a figure falls short.
"""

import json
import sys

import click
import numpy as np

from vdla.hw.spec import codec, isa
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType
from vdla.runtime.device import Device
from vdla.runtime.devices.rtl.device import RtlDevice
from vdla.runtime.workloads import place_gemm, plan_gemm, random_operands

SIZE = 1024
LOOP = 64
INP_BYTES, WGT_BYTES = (DEFAULT.element_bytes(memory) for memory in (MemoryType.INP, MemoryType.WGT))


def cycles(device: Device, instructions: list[isa.Instruction]) -> int:
    """Return the cycles of a run."""
    return device.execute([*instructions, isa.Finish()]).cycles


def gemms(count: int, steps: int, same: bool = False) -> list[isa.Instruction]:
    """Return `count` GEMM instructions of `steps` steps each; step (i, j) works on input i + j, accumulator j
    or, if `same`, 0."""
    loop = isa.Gemm(
        uop_end=1,
        iter_out=steps // LOOP,
        iter_in=LOOP,
        dst_factor_in=0 if same else 1,
        src_factor_out=1,
        src_factor_in=1,
    )
    return [loop] * count


def rate(device: Device, build, count: int, units: int) -> float:
    """Return `units` per cycle of the second half of `build(2 * count)`."""
    return units / (cycles(device, build(2 * count)) - cycles(device, build(count)))


def one_long_gemm(device: Device) -> float:
    """Steps per cycle of one instruction of 4,096 steps: the lesser of two measures.

    All cycles that it adds to a run of FINISH alone, and the cycles in which the compute unit counts itself
    busy in that run (the cycles of FINISH too).
    """
    run = device.execute([*gemms(1, 4096), isa.Finish()])
    return min(
        4096 / (run.cycles - cycles(device, [])), run.counters["GEMM_STEPS"] / run.counters["COMPUTE_BUSY"]
    )


def many_short_gemms(device: Device) -> float:
    """Steps per cycle of 64 instructions of 64 steps."""
    return rate(device, lambda count: gemms(count, 64), 64, 64 * 64)


def same_accumulator(device: Device) -> float:
    """Steps per cycle of updates of one accumulator; 0 if the sum, modulo 256, is wrong."""
    rng = np.random.default_rng(0)
    inp = rng.integers(-128, 128, (2 * LOOP - 1, DEFAULT.block_in), dtype=np.int8)
    wgt = rng.integers(-128, 128, (DEFAULT.block_out, DEFAULT.block_in), dtype=np.int8)
    place = [device.allocate(size) for size in (inp.nbytes, wgt.nbytes, INP_BYTES)]
    device.copy_in(place[0], inp)
    device.copy_in(place[1], wgt)
    element = {"y_size": 1, "x_size": 1, "x_stride": 1}
    device.execute(
        [
            isa.Load(
                memory_type=MemoryType.INP,
                dram_base=place[0] // INP_BYTES,
                **(element | {"x_size": len(inp)}),
            ),
            isa.Load(memory_type=MemoryType.WGT, dram_base=place[1] // WGT_BYTES, push_next=1, **element),
            isa.Gemm(pop_prev=1, uop_end=1, iter_out=1, iter_in=1, reset=1),
            *gemms(1, LOOP * LOOP, same=True),
            isa.Gemm(push_next=1),
            isa.Store(
                memory_type=MemoryType.OUT,
                dram_base=place[2] // INP_BYTES,
                pop_prev=1,
                push_prev=1,
                **element,
            ),
            isa.Finish(pop_next=1),
        ]
    )
    times = np.convolve(np.ones(LOOP, np.int64), np.ones(LOOP, np.int64))  # that input i + j is used
    expected = (times @ inp.astype(np.int64) @ wgt.T.astype(np.int64)).astype(
        np.int8
    )  # the low bits are stored
    if not np.array_equal(device.copy_out(place[2], INP_BYTES).view(np.int8), expected):
        return 0.0
    return rate(device, lambda count: gemms(count, 4096, same=True), 1, 4096)


def two_operands(device: Device) -> float:
    """Steps per cycle of ALU instructions of 4,096 steps, which each add another accumulator."""
    add = isa.Alu(
        uop_end=1,
        iter_out=LOOP,
        iter_in=LOOP,
        dst_factor_in=1,
        src_factor_out=1,
        src_factor_in=1,
        alu_opcode=AluOpcode.ADD,
    )
    return rate(device, lambda count: [add] * count, 1, 4096)


def beside_loads(device: Device) -> float:
    """Steps per cycle of GEMMs of 64 products for each of 64 accumulators, while the accumulators of the next
    tile are loaded into the other half of ACC."""
    half, deep = DEFAULT.depth(MemoryType.ACC) // 2, 64
    uops = codec.uops_to_bytes([isa.MicroOp(), isa.MicroOp(dst=half)], DEFAULT)
    address = device.allocate(len(uops))
    device.copy_in(address, np.frombuffer(uops, np.uint8))
    row = {"y_size": 1, "x_stride": LOOP}
    base = address // DEFAULT.element_bytes(MemoryType.UOP)
    prepared = isa.Load(memory_type=MemoryType.UOP, dram_base=base, x_size=2, **row)

    def tiles(count: int) -> list[isa.Instruction]:
        loops = {
            "iter_out": deep,
            "iter_in": LOOP,
            "dst_factor_in": 1,
            "src_factor_out": 1,
            "src_factor_in": 1,
        }
        pairs = [
            (
                isa.Gemm(uop_begin=tile % 2, uop_end=tile % 2 + 1, **loops),
                isa.Load(
                    memory_type=MemoryType.ACC,
                    sram_base=half * ((tile + 1) % 2),
                    dram_base=4096,
                    x_size=LOOP,
                    beside=1,
                    **row,
                ),
            )
            for tile in range(count)
        ]
        return [prepared, *(item for pair in pairs for item in pair)]

    return rate(device, tiles, 8, 8 * deep * LOOP)


def windows(device: Device) -> float:
    """Sums per cycle of DEPTHWISE instructions of 64 rows of 64 sums, which take 66 slots each."""
    rows = isa.Depthwise(
        uop_end=1, iter_out=LOOP, iter_in=LOOP, dst_factor_in=1, src_factor_out=1, src_factor_in=1
    )
    return rate(device, lambda count: [rows] * count, 1, LOOP * LOOP)


def contiguous_load(device: Device) -> float:
    """Fraction of the bus that a LOAD of 16 KiB fills behind the first latency: two LOADs against one."""
    load = isa.Load(
        memory_type=MemoryType.INP, y_size=1, x_size=16384 // INP_BYTES, x_stride=1024, dram_base=4096
    )
    return rate(device, lambda count: [load] * count, 1, 16384) / DEFAULT.bus_bytes


def gathered_rows(device: Device) -> float:
    """Return the elements per cycle of a GATHER of the rows of a first layer, or the beats per cycle if these
    are fewer. A row has 230 pixels of 3 channels, and an element begins at every second pixel."""
    row, rows, columns, step = 690, 16, 113, 6
    gather = isa.Gather(
        memory_type=MemoryType.INP,
        dram_base=4096 * DEFAULT.bus_bytes,
        y_size=rows,
        x_size=columns,
        x_stride=row,
        step=step,
    )
    ends = [gather.dram_base + y * row + (columns - 1) * step + INP_BYTES - 1 for y in range(rows)]
    beats = sum(
        end // DEFAULT.bus_bytes - (gather.dram_base + y * row) // DEFAULT.bus_bytes + 1
        for y, end in enumerate(ends)
    )
    return rate(device, lambda count: [gather] * count, 1, max(beats, rows * columns))


def store_with_table_and_residual(device: Device) -> float:
    """Fraction of the bus that STOREs of 8 KiB fill which requantise, look up and add: two STOREs against one
    STORE."""
    elements = DEFAULT.depth(MemoryType.RES)
    size = elements * DEFAULT.element_bytes(MemoryType.OUT)
    store = isa.Store(
        memory_type=MemoryType.OUT,
        dram_base=device.allocate(size) // DEFAULT.element_bytes(MemoryType.OUT),
        y_size=1,
        x_size=elements,
        x_stride=elements,
        parameters=1,
        table=1,
        residual=1,
    )
    return rate(device, lambda count: [store] * count, 1, size) / DEFAULT.bus_bytes


def large_gemm(device: Device) -> tuple[float, float]:
    """Fraction of peak of the double-buffered GEMM (0 if its result is wrong), and simulated cycles per
    second."""
    plan = plan_gemm(DEFAULT, SIZE, SIZE, SIZE)
    run = place_gemm(device, plan, *random_operands(plan))
    result = run.run()
    right = np.array_equal(run.output(), run.expected())
    return right * plan.gemm_cycles / result.cycles, result.cycles / result.seconds


def measure() -> list[dict]:
    """Return a row per benchmark."""
    device = RtlDevice(DEFAULT)
    gemm, speed = large_gemm(device)
    rows = [
        ("one GEMM instruction of 4,096 steps, of peak", 0.98, one_long_gemm(device)),
        ("64 GEMM instructions of 64 steps back to back, of peak", 0.95, many_short_gemms(device)),
        ("one accumulator updated every cycle (result checked), of peak", 0.95, same_accumulator(device)),
        ("two-operand ALU, 4,096 steps at full lanes, steps per cycle", 0.98, two_operands(device)),
        ("GEMM beside loads of the next tile's accumulators, of peak", 0.98, beside_loads(device)),
        ("DEPTHWISE, 64 rows of 64 sums of three taps, sums per cycle", 0.96, windows(device)),
        ("LOAD of 16 KiB contiguous, of the bus", 0.95, contiguous_load(device)),
        ("gather of a first layer, elements (or beats) per cycle", 0.97, gathered_rows(device)),
        ("STORE of 8 KiB with residual and table, of the bus", 0.98, store_with_table_and_residual(device)),
        (f"double-buffered {SIZE}^3 GEMM (result checked), of peak", 0.90, gemm),
        ("simulated cycles per second on that GEMM", 300_000, speed),
    ]
    return [
        {"benchmark": name, "required": required, "reached": reached, "ok": bool(reached >= required)}
        for name, required, reached in rows
    ]


@click.command(help=__doc__)
@click.option("--json", "as_json", is_flag=True)
def main(as_json: bool) -> None:
    rows = measure()
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    else:
        for row in rows:
            click.echo(
                f"{row['benchmark']:64} {row['required']:>10,g} {row['reached']:>12,.6g}  "
                f"{'ok' if row['ok'] else 'SHORT'}"
            )
    sys.exit(0 if all(row["ok"] for row in rows) else 1)


if __name__ == "__main__":
    main()
