"""The summaries of networks that commands print."""

import click

from vdla.api import Module, Run
from vdla.cli._options import Command
from vdla.hw.spec.errors import VdlaError
from vdla.runtime.module.plan import Plan
from vdla.runtime.session.report import table
from vdla.runtime.session.summary import summary_of

MORE = "--layers lists every layer and operator, those on the host with their reasons"


def lists_layers(function: Command) -> Command:
    """Add --layers; the command gets `layers`."""
    return click.option("--layers", is_flag=True, help="List every layer and operator after the summary.")(
        function
    )


def show_forecast(plan: Plan, layers: bool) -> None:
    """Print the summary of a module that has not run yet, and its layers if they are asked for."""
    try:
        found = Module(plan).forecast()
    except VdlaError as error:
        click.echo(f"no summary: no device runs the module: {error}")
        return
    _show(str(summary_of(plan, found)), table(found) if layers else "")


def show_run(done: Run, layers: bool) -> None:
    """Print the summary of a run, and its layers if they are asked for."""
    _show(str(done.summary), done.table() if layers else "")


def _show(summary: str, layers: str) -> None:
    click.echo(summary)
    click.echo(f"\n{layers}" if layers else MORE)
