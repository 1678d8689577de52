#!/usr/bin/env python3
"""Export modules as C, compile them with sanitizers, and compare their runs with the kit's.

The accelerator of the C program is a device of the kit. A line for each module says how long its C takes to
compile, the cycles of a run, and the differences of each output. Exit status 1 where integers differ, or
floats by more than --ulp units in the last place of the greatest element. A module is not judged if it has an
operator whose integers may differ by one (docs/export.md).
"""

import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np
from exported.board import SANITIZERS, Program, build

from vdla.cli._options import reports_errors
from vdla.export.c_text import ExportError
from vdla.runtime.devices.registry import device_of
from vdla.runtime.module.file import load
from vdla.runtime.module.plan import Plan, random_inputs
from vdla.runtime.session.session import Session


def distance(result: np.ndarray, expected: np.ndarray) -> float:
    """Return the greatest difference; of floats, in units in the last place of the greatest element."""
    difference = np.abs(result.astype(np.float64) - expected.astype(np.float64)).max(initial=0.0)
    unit = np.spacing(np.abs(expected).max(initial=0)) if expected.dtype.kind == "f" else 1
    return float(difference / unit)


def compared(plan: Plan, folder: Path, device: str, runs: int, flags: str) -> tuple[str, dict[str, float]]:
    """Return a line about a module, and the greatest difference of each output."""
    began = time.perf_counter()
    binary = build(plan, folder, flags)
    seconds = time.perf_counter() - began
    session = Session(device_of(device, plan.target, plan.dram_bytes), plan)
    worst = dict.fromkeys(plan.outputs, 0.0)
    with Program(plan, binary, device) as program:
        codes, cycles = {program.init().code}, set()
        for seed in range(runs):
            inputs = random_inputs(plan.inputs, seed)
            expected, answer = session.run(inputs), program.run(inputs)
            codes.add(answer.code)
            cycles.add((answer.cycles, expected.cycles or 0))
            for name, output in answer.outputs.items():
                worst[name] = max(worst[name], distance(output, expected.outputs[name]))
        errors = program.close()
    text = ", ".join(f"{ours:,} cycles (kit {kit:,})" for ours, kit in sorted(cycles))
    return f"compiled in {seconds:.1f} s, {'/'.join(sorted(codes))}, {text}{errors}", worst


@click.command(help=__doc__)
@click.argument("modules", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--device", default="functional", show_default=True)
@click.option("--runs", default=2, show_default=True)
@click.option("--flags", default=SANITIZERS, show_default=True)
@click.option("--ulp", default=64.0, show_default=True)
@reports_errors
def main(modules: tuple[Path, ...], device: str, runs: int, flags: str, ulp: float) -> None:
    """Compare each module."""
    failed = False
    for path in modules:
        plan = load(path)
        with tempfile.TemporaryDirectory() as folder:
            try:
                line, worst = compared(plan, Path(folder), device, runs, flags)
            except ExportError as error:
                click.echo(f"{path.stem}: refused: {error}")
                continue
        allowed = {name: ulp if plan.outputs[name].dtype.startswith("float") else 0.0 for name in worst}
        failed |= any(worst[name] > allowed[name] for name in worst)
        differences = ", ".join(f"{name} {value:g}" for name, value in worst.items())
        click.echo(f"{path.stem}: {line}; greatest differences: {differences}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
