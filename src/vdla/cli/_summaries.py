"""The summaries of networks that commands print."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vdla.cli._options import Command
from vdla.compiler.codegen.version import network_version
from vdla.explore.silicon.note import clock_note
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.shelf import Shelf
from vdla.runtime.module.file import stated_digest
from vdla.runtime.module.plan import Plan

if TYPE_CHECKING:
    from vdla.api import Run

SUMMARIES = Shelf("summaries", 4 << 20)
MORE = "--layers lists every layer and operator, with the reasons of operators on the host"


def lists_layers(function: Command) -> Command:
    """Add --layers; the command gets `layers`."""
    return click.option("--layers", is_flag=True, help="List every layer and operator after the summary.")(
        function
    )


def show_forecast(plan: Plan, file: Path, layers: bool) -> None:
    """Print the summary of a module that has not run yet, and its layers if they are asked for.

    Args:
        file: the module as it was written, by whose digest its summary is kept for the next time.
    """
    note = clock_note(plan.target)
    key = digest_of([stated_digest(file), network_version(), note])
    kept = None if layers else SUMMARIES.read(key)
    if kept is not None:
        _show(kept.decode(), "")
        return
    from vdla.api import Module  # the simulator takes a while to import
    from vdla.runtime.session.report import table
    from vdla.runtime.session.summary import summary_of

    try:
        forecast = Module(plan).forecast()
    except VdlaError as error:
        click.echo(f"no summary: no device runs the module: {error}")
        return
    summary = str(summary_of(plan, forecast, None, note))
    SUMMARIES.write(key, summary.encode())
    _show(summary, table(forecast) if layers else "")


def show_run(done: "Run", layers: bool) -> None:
    """Print the summary of a run, and its layers if they are asked for."""
    _show(str(done.summary), done.table() if layers else "")


def _show(summary: str, layers: str) -> None:
    click.echo(summary)
    click.echo(f"\n{layers}" if layers else MORE)
