"""``vdla sweep``."""

import sys
from pathlib import Path

import click

from vdla.cli._options import needs
from vdla.cli._sweeps import Line, conclusion


class _Sweeps(click.Group):
    """A group that takes anything but the name of a sub-command for the arguments of `run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the name of the default sub-command in front where there is none."""
        return super().parse_args(ctx, args if args and args[0] in self.commands else ["run", *args])


@click.group(cls=_Sweeps)
def command() -> None:
    """Measure many accelerators, or compare two sweeps."""


@command.command("run")
@click.argument(
    "specification", metavar="SPEC.toml", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder of the results.")
@click.option(
    "--processes",
    type=click.IntRange(1, 1024),
    help="Worker processes.  [default: one for each processor]",
)
@needs("vdla sweep", "pyarrow")
def run(specification: Path, output: Path, processes: int | None) -> None:
    """Compile and run workloads on every accelerator of a space, and tabulate cycles, area, clock and energy.

    SPEC.toml names a base target, parameters, constraints and workloads; docs/sweeps.md describes it. A sweep
    that was interrupted goes on where it stopped when the same command runs again.

    `vdla sweep diff A B` compares two sweeps.
    """
    from vdla.explore.sweep.run import local, planned, sweep
    from vdla.explore.sweep.specification import read

    plan = planned(read(specification), specification.parent, None)
    with Line(sys.stderr) as line:
        done = sweep(plan, output, local(processes), line.show)
    click.echo(conclusion(output, done))
