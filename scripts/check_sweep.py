#!/usr/bin/env python3
"""Run points of a sweep again, drawn at random, on the cycle device and on the RTL, and compare the cycles.

FOLDER holds the sweep that SPEC.toml describes. Every drawn row is compiled and tuned as that says, and runs
on both devices with the same random inputs. Outputs must be equal, and cycles as in the table. The Verilog
of each design is compiled first, which takes a minute or two. Exit status 1 if anything differs.
"""

import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from vdla.api import Module
from vdla.compiler.codegen.choice_cache import cached
from vdla.compiler.network.stages import plan_of
from vdla.explore.sweep.measure import run_best
from vdla.explore.sweep.parameters import with_values
from vdla.explore.sweep.results import Results
from vdla.explore.sweep.run import Plan, planned
from vdla.explore.sweep.specification import read
from vdla.explore.sweep.tables import OK
from vdla.hw.spec.errors import VdlaError
from vdla.runtime.module.plan import random_inputs

DEVICES = ("cycle", "rtl")


def drawn(folder: Path, points: int, seed: int) -> list[Mapping[str, Any]]:
    """Return rows that have cycles, drawn at random, each of another point."""
    rows = [row for row in Results(folder).points().to_pylist() if row["status"] == OK]
    random.Random(seed).shuffle(rows)
    return list({row["point"]: row for row in rows}.values())[:points]


def differences(plan: Plan, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield what differs when a row runs again."""
    target = with_values(plan.job.base, {name: row[name] for name in plan.space.names})
    (workload,) = (known for known in plan.job.workloads if known.name == row["workload"])
    default = plan_of(workload.graph(), target, choose=cached())
    tuning = plan.job.tuning
    module = Module(default if tuning is None else run_best(workload, target, default, tuning).plan)
    inputs = random_inputs(module.plan.inputs)
    runs = {device: module.run(inputs, device) for device in DEVICES}
    for device, run in runs.items():
        click.echo(f"  {device:5} {run.report.cycles:,} cycles")
        if run.report.cycles != row["cycles"]:
            yield f"{device}: {run.report.cycles:,} cycles, and {row['cycles']:,} in the table"
    for name, values in runs[DEVICES[0]].outputs.items():
        if not np.array_equal(values, runs[DEVICES[1]].outputs[name]):
            yield f"output {name} differs"


@click.command(help=__doc__)
@click.argument(
    "specification", metavar="SPEC.toml", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--points", default=5, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=0, show_default=True)
def main(specification: Path, folder: Path, points: int, seed: int) -> None:
    lines = []
    try:
        plan = planned(read(specification), specification.parent, None)
        for row in drawn(folder, points, seed):
            values = ", ".join(f"{name}={row[name]}" for name in plan.space.names)
            click.echo(f"point {row['point']}, {row['workload']} ({values}): {row['cycles']:,} cycles")
            lines += [f"point {row['point']}: {text}" for text in differences(plan, row)]
    except VdlaError as error:
        raise click.ClickException(str(error)) from error
    for text in lines:
        click.echo(text)
    click.echo(f"{len(lines)} differences")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
