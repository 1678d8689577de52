"""Measure the functional device on the double-buffered int8 GEMM, on one core.

The time of a run includes decoding the stream, ordering it and executing it. The baseline is NumPy's float32
matrix product of the same size, measured between the runs of the device.
"""

import os

for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"  # read when NumPy is imported

import json  # noqa: E402
import statistics  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402

import click  # noqa: E402
import numpy as np  # noqa: E402

from vdla.hw.spec.presets import PRESETS, preset  # noqa: E402
from vdla.runtime.devices.functional import FunctionalDevice  # noqa: E402
from vdla.runtime.workloads import GemmRun, place_gemm, plan_gemm, random_operands  # noqa: E402


def pin_to_one_core() -> None:
    """Keep this process on one core, where the system allows it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def measure(work: Callable[[], object], macs: int) -> float:
    """Return GMAC/s of one call of `work`."""
    started = time.perf_counter()
    work()
    return macs / (time.perf_counter() - started) / 1e9


def summary(rates: list[float]) -> dict[str, float]:
    """Return the least, median and greatest of `rates`, in GMAC/s."""
    figures = {"min": min(rates), "median": statistics.median(rates), "max": max(rates)}
    return {name: round(value, 2) for name, value in figures.items()}


def bench(gemm: GemmRun, runs: int) -> dict[str, object]:
    """Run the device and the baseline in turn, after one run of each that does not count."""
    left, right = gemm.inp.astype(np.float32), np.ascontiguousarray(gemm.wgt.T.astype(np.float32))
    macs = gemm.plan.macs
    pairs = [(measure(gemm.run, macs), measure(lambda: left @ right, macs)) for _ in range(runs + 1)][1:]
    device, baseline = (list(rates) for rates in zip(*pairs, strict=True))
    return {
        "size": gemm.plan.m,
        "config": gemm.plan.config.name,
        "runs": runs,
        "instructions": gemm.count,
        "correct": bool(np.array_equal(gemm.output(), gemm.expected())),
        "functional_gmac_per_second": summary(device),
        "float32_matmul_gmac_per_second": summary(baseline),
        "ratio_of_medians": round(statistics.median(device) / statistics.median(baseline), 3),
    }


@click.command()
@click.option("--size", default=1024, show_default=True, help="M, N and K of the product.")
@click.option("--runs", default=9, show_default=True, type=click.IntRange(1), help="Runs that count.")
@click.option("--config", "name", default="default", show_default=True, type=click.Choice(tuple(PRESETS)))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(size: int, runs: int, name: str, as_json: bool) -> None:
    """Measure the functional device on an int8 GEMM, on one core."""
    pin_to_one_core()
    config = preset(name)
    plan = plan_gemm(config, size, size, size)
    result = bench(place_gemm(FunctionalDevice(config), plan, *random_operands(plan)), runs)
    if as_json:
        click.echo(json.dumps(result, indent=2))
    else:
        for key, value in result.items():
            click.echo(f"{key:32} {value}")
    if not result["correct"]:
        raise click.ClickException("the device's output differs from NumPy's")


if __name__ == "__main__":
    main()
