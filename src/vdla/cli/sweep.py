"""``vdla sweep``."""

import json
import sys
from pathlib import Path

import click

from vdla.cli._groups import DefaultCommand, DefaultGroup
from vdla.cli._live import Live, interrupted
from vdla.cli._options import OUTPUT_FILE, needs, reports_errors
from vdla.cli._sweeps import conclusion, described, described_difference, difference_values
from vdla.cli._workers import check_workers, takes_cluster
from vdla.hw.spec.extras import require_package

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
AREAS = ("estimate", "exact", "none")


@click.group(cls=DefaultGroup)
def command() -> None:
    """Measure many accelerators, or compare two sweeps."""


@command.command("run", cls=DefaultCommand)
@click.argument(
    "specification", metavar="SPEC.toml", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder of the results.")
@click.option(
    "--processes",
    type=click.IntRange(1, 1024),
    help="Worker processes.  [default: one for each processor]",
)
@takes_cluster
@click.option(
    "--area",
    type=click.Choice(AREAS),
    help="Estimate area and clock from components, synthesise each design (minutes each), or neither.  "
    "[default: the specification's, or estimate]",
)
@reports_errors
def run(
    specification: Path,
    output: Path,
    processes: int | None,
    cluster: str | None,
    resource: str | None,
    area: str | None,
) -> None:
    """Compile and run workloads on every accelerator of a space, and tabulate cycles, area, clock and energy.

    SPEC.toml names a base target, parameters, constraints and workloads; docs/sweeps.md describes it. A sweep
    that was interrupted goes on where it stopped when the same command runs again.

    `vdla sweep diff A B` compares two sweeps.
    """
    from vdla.explore.sweep.errors import NoValueError, SweepError
    from vdla.explore.sweep.folder import measured_in
    from vdla.explore.sweep.run import backend_of, planned, silicon_for, sweep
    from vdla.explore.sweep.specification import read, with_area

    check_workers("--processes", processes, cluster, resource)
    workers = backend_of(processes, cluster, resource)
    for package in ("pyarrow", "vl_convert"):
        require_package(package, "vdla sweep")
    wanted = with_area(read(specification), area)
    try:
        plan = planned(wanted, specification.parent, silicon_for(wanted))
    except SweepError as error:
        raise SweepError(f"{specification}: {error}") from error
    try:
        with Live(sys.stderr, described) as line:
            done = sweep(plan, output, workers, line.show)
    except NoValueError as error:
        raise NoValueError(f"{specification}: {error}") from error
    except KeyboardInterrupt:
        click.echo(interrupted(output, measured_in(output), "points"), err=True)
        raise
    click.echo(conclusion(output, done))


@command.command("diff")
@click.argument("before", metavar="A", type=FOLDER)
@click.argument("after", metavar="B", type=FOLDER)
@click.option("--all", "everything", is_flag=True, help="List every point that differs, not the largest 20.")
@click.option(
    "-o", "--output", metavar="OUT.parquet", type=OUTPUT_FILE, help="Write every point of both too."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@needs("vdla sweep diff", "pyarrow")
def diff(before: Path, after: Path, everything: bool, output: Path | None, as_json: bool) -> None:
    """Compare the sweeps in folders A and B, point by point: what did a change of compiler or hardware do?

    Points are the same where the parameters that both sweeps have and the workload are. Of a parameter that
    one sweep alone has, the other's base value is compared, or every value where no point has that.
    """
    from vdla.explore.sweep.difference import compare, write
    from vdla.explore.sweep.results import Results

    difference = compare(Results(before), Results(after))
    if output is not None:
        write(difference, output)
    if as_json:
        click.echo(json.dumps(difference_values(difference), indent=1))
    else:
        click.echo(described_difference(difference, None if everything else 20))
