#!/usr/bin/env python3
"""Measure the cycle simulator on the double-buffered int8 GEMM, beside the functional device and the RTL.

All run on one core, in one run of this script. The time of a run includes decoding the stream, finding the
time, ordering and executing. Growth is measured on a stream of LOAD, GEMM, ALU and STORE instructions chained
by tokens, timing alone. Peak memory is measured in a process that does nothing else. Exit status 1 if a
figure falls short.
"""

import os

for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"  # read when NumPy is imported

import json  # noqa: E402
import re  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from pathlib import Path  # noqa: E402

import click  # noqa: E402
import numpy as np  # noqa: E402
from bench_functional import pin_to_one_core  # noqa: E402

from vdla.hw.spec import codec, isa  # noqa: E402
from vdla.hw.spec.presets import DEFAULT  # noqa: E402
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType  # noqa: E402
from vdla.runtime.device import Device  # noqa: E402
from vdla.runtime.devices.cycle import CycleDevice  # noqa: E402
from vdla.runtime.devices.functional import FunctionalDevice  # noqa: E402
from vdla.runtime.workloads import GemmRun, place_gemm, plan_gemm, random_operands  # noqa: E402

GMACS_REQUIRED, CYCLES_REQUIRED, MIB_REQUIRED = 40.0, 200e6, 300
LENGTHS = (10**3, 10**4, 10**5, 10**6)
CHAIN_ELEMENTS = 16  # of a LOAD or STORE of the stream that shows growth
GROWTH_ALLOWED = 1.5  # time per instruction, the longest stream's against the least


def placed(device: Device, size: int) -> GemmRun:
    """Return the GEMM of `size` in the device's DRAM."""
    plan = plan_gemm(DEFAULT, size, size, size)
    return place_gemm(device, plan, *random_operands(plan))


def seconds_of(run: GemmRun, runs: int) -> list[float]:
    """Return the wall time of each of `runs` runs, after a run that does not count."""
    return [run.run().seconds for _ in range(runs + 1)][1:]


def bench_devices(size: int, runs: int, with_rtl: bool) -> list[dict]:
    """Return a row per device; the devices that have time must agree on it."""
    devices = {
        "functional": FunctionalDevice(DEFAULT),
        "cycle": CycleDevice(DEFAULT),
        "cycle, timing alone": CycleDevice(DEFAULT, arithmetic=False),
    }
    if with_rtl:
        from vdla.runtime.devices.rtl.device import RtlDevice

        devices["rtl"] = RtlDevice(DEFAULT)
    return [
        _device_row(name, placed(device, size), 1 if name == "rtl" else runs)
        for name, device in devices.items()
    ]


def _device_row(name: str, run: GemmRun, runs: int) -> dict:
    seconds = statistics.median(seconds_of(run, runs))
    cycles = run.run().cycles
    arithmetic = getattr(run.device, "arithmetic", True)
    return {
        "device": name,
        "seconds": seconds,
        "cycles": cycles,
        "gmac_per_second": run.plan.macs / seconds / 1e9 if arithmetic else None,
        "cycles_per_second": cycles / seconds if cycles else None,
        "correct": bool(np.array_equal(run.output(), run.expected())) if arithmetic else None,
    }


def chain(length: int, source: int, target: int) -> bytes:
    """Return a stream of `length` instructions: LOAD, GEMM, ALU and STORE in turn, each waiting for the
    instruction before.

    Every LOAD reads `CHAIN_ELEMENTS` elements at byte address `source`, every STORE writes as many at
    `target`.
    """
    element = {"y_size": 1, "x_size": CHAIN_ELEMENTS, "x_stride": CHAIN_ELEMENTS}
    read = element | {
        "memory_type": MemoryType.INP,
        "dram_base": source // DEFAULT.element_bytes(MemoryType.INP),
    }
    written = element | {
        "memory_type": MemoryType.OUT,
        "dram_base": target // DEFAULT.element_bytes(MemoryType.OUT),
    }
    loop = {"uop_end": 1, "iter_out": 4, "iter_in": 8}
    group = [
        isa.Load(push_next=1, pop_next=1, **read),
        isa.Gemm(pop_prev=1, push_prev=1, dst_factor_in=1, src_factor_in=1, **loop),
        isa.Alu(pop_next=1, push_next=1, alu_opcode=AluOpcode.SHR, use_imm=1, imm=1, dst_factor_in=1, **loop),
        isa.Store(pop_prev=1, push_prev=1, **written),
    ]
    first = [
        isa.Load(push_next=1, **read),
        group[1],
        isa.Alu(push_next=1, alu_opcode=AluOpcode.SHR, use_imm=1, imm=1, dst_factor_in=1, **loop),
        group[3],
    ]
    groups = length // len(group) - 1
    return (
        codec.to_bytes(first, DEFAULT)
        + groups * codec.to_bytes(group, DEFAULT)
        + codec.to_bytes([isa.Finish(pop_next=1)], DEFAULT)
    )


def bench_growth(runs: int) -> Iterator[dict]:
    """Yield a row per length of stream: timing alone."""
    for length in LENGTHS:
        device = CycleDevice(DEFAULT, 1 << 26, arithmetic=False)
        source, target = (
            device.allocate(CHAIN_ELEMENTS * DEFAULT.element_bytes(memory))
            for memory in (MemoryType.INP, MemoryType.OUT)
        )
        stream = chain(length, source, target)
        count = len(stream) // DEFAULT.instruction_bytes
        address = device.allocate(len(stream))
        device.copy_in(address, stream)
        results = [device.run(address, count) for _ in range(runs + 1)][1:]
        seconds = min(result.seconds for result in results)
        yield {
            "instructions": count,
            "cycles": results[0].cycles,
            "seconds": seconds,
            "nanoseconds_per_instruction": seconds / count * 1e9,
            "cycles_per_second": results[0].cycles / seconds,
        }


def peak_bytes(size: int) -> int:
    """Return the peak memory of a process that runs the GEMM once on the cycle device, less what it touches
    of the DRAM image."""
    child = subprocess.run(
        [sys.executable, __file__, "--memory-of", str(size)], check=True, capture_output=True, text=True
    )
    return int(child.stdout)


def _print_memory(size: int) -> None:
    run = placed(CycleDevice(DEFAULT), size)
    run.run()
    status = Path(
        "/proc/self/status"
    ).read_text()  # getrusage counts what the parent had before this process became another
    peak = int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[1]) * 1024
    touched = np.count_nonzero(run.device.dram.reshape(-1, 4096).any(axis=1)) * 4096
    click.echo(peak - touched)


def judge(devices: list[dict], growth: list[dict], peak: int) -> dict[str, bool]:
    """Return whether each requirement is met."""
    by_name = {row["device"]: row for row in devices}
    per_instruction = [row["nanoseconds_per_instruction"] for row in growth]
    return {
        f"with arithmetic at least {GMACS_REQUIRED:g} GMAC/s": by_name["cycle"]["gmac_per_second"]
        >= GMACS_REQUIRED,
        f"timing alone at least {CYCLES_REQUIRED / 1e6:g} M cycles/s": by_name["cycle, timing alone"][
            "cycles_per_second"
        ]
        >= CYCLES_REQUIRED,
        "results correct": all(row["correct"] is not False for row in devices),
        "cycles equal on all devices": len({row["cycles"] for row in devices if row["cycles"]}) == 1,
        f"growth linear: time per instruction within {GROWTH_ALLOWED:g} of the least": per_instruction[-1]
        <= GROWTH_ALLOWED * min(per_instruction),
        f"peak memory at most {MIB_REQUIRED} MiB above the DRAM image": peak <= MIB_REQUIRED << 20,
    }


def table(devices: list[dict], growth: list[dict], peak: int) -> Iterator[str]:
    """Yield the lines of the report."""
    yield f"{'device':22} {'seconds':>10} {'cycles':>12} {'GMAC/s':>8} {'M cycles/s':>11}"
    for row in devices:
        rates = [
            f"{row['gmac_per_second']:8.1f}" if row["gmac_per_second"] else f"{'-':>8}",
            f"{row['cycles_per_second'] / 1e6:11.2f}" if row["cycles_per_second"] else f"{'-':>11}",
        ]
        yield f"{row['device']:22} {row['seconds']:10.4f} {row['cycles'] or '-':>12} {' '.join(rates)}"
    yield f"\n{'instructions':>12} {'cycles':>12} {'seconds':>10} {'ns/instruction':>15} {'M cycles/s':>11}"
    for row in growth:
        yield (
            f"{row['instructions']:12,} {row['cycles']:12,} {row['seconds']:10.4f} "
            f"{row['nanoseconds_per_instruction']:15.0f} "
            f"{row['cycles_per_second'] / 1e6:11.1f}"
        )
    yield f"\npeak memory above the DRAM image: {peak / (1 << 20):.0f} MiB"


@click.command(help=__doc__)
@click.option("--size", default=1024, show_default=True, help="M, N and K of the product.")
@click.option("--runs", default=9, show_default=True, type=click.IntRange(1), help="Runs that count.")
@click.option("--rtl/--no-rtl", default=True, show_default=True, help="Measure the RTL device too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--memory-of", type=int, hidden=True)
def main(size: int, runs: int, rtl: bool, as_json: bool, memory_of: int | None) -> None:
    if memory_of is not None:
        _print_memory(memory_of)
        return
    pin_to_one_core()
    devices, growth, peak = bench_devices(size, runs, rtl), list(bench_growth(min(runs, 3))), peak_bytes(size)
    verdict = judge(devices, growth, peak)
    if as_json:
        click.echo(
            json.dumps({"devices": devices, "growth": growth, "peak_bytes": peak, "met": verdict}, indent=1)
        )
    else:
        click.echo(
            "\n".join(
                [
                    *table(devices, growth, peak),
                    "",
                    *(f"{'ok   ' if met else 'SHORT'} {text}" for text, met in verdict.items()),
                ]
            )
        )
    sys.exit(0 if all(verdict.values()) else 1)


if __name__ == "__main__":
    main()
