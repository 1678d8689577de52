"""``vdla trace``."""

from pathlib import Path

import click

from vdla.cli._options import OUTPUT_FILE, overrides_memory, reports_errors
from vdla.cli._runs import MemoryOf, TimedRun, numbered, raise_fault, timed_runs
from vdla.hw.spec.errors import FileFormatError
from vdla.hw.spec.registers import UnitState
from vdla.hw.spec.units import Unit
from vdla.hw.spec.writing import check_writable, whole_file
from vdla.sim.timing.result import Timing
from vdla.sim.trace.events import lines
from vdla.sim.trace.perfetto import write_perfetto


@click.command()
@click.argument(
    "source", metavar="VECTOR|MODULE.vdla", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=OUTPUT_FILE,
    help="File to write, as text if it ends in .txt; - is standard output (with --text).",
)
@click.option("--text", is_flag=True, help="Write one line per event instead of a timeline.")
@overrides_memory
@reports_errors
def command(source: Path, output: Path, text: bool, memory: MemoryOf) -> None:
    """Simulate a program and write its timeline for ui.perfetto.dev, or its events as text.

    A vector runs with the reference memory, a module with that of its target, unless options say otherwise.
    The timeline of a module names the layers; each launch has a file, from the second on with a number.

    If the hardware stops the program (a deadlock, say), the timeline ends there, the reason is printed and
    the exit status is 2.
    """
    if str(output) != "-":
        check_writable(output)
    elif not text:
        raise click.UsageError("a timeline goes to a file: give -o FILE, or --text")
    text = text or output.suffix == ".txt"
    runs = timed_runs(source, source.name, memory)
    if not runs:
        raise FileFormatError(f"{source} runs nothing on the accelerator")
    for path, run in numbered(output, runs):
        _write(run, path, text)
    for run in runs:
        raise_fault(run.timing)


def _write(run: TimedRun, path: Path, text: bool) -> None:
    if text:
        _write_text(run.timing, path)
    else:
        write_perfetto(run.timing, path, run.memory, run.layers)
    more = "" if text else "; open it in https://ui.perfetto.dev"
    click.echo(f"{run.name}: {_summary(run.timing)} -> {path}{more}", err=True)


def _write_text(timing: Timing, output: Path) -> None:
    with click.open_file("-", "w") if str(output) == "-" else whole_file(output) as file:
        file.writelines(f"{line}\n" for line in lines(timing))


def _summary(timing: Timing) -> str:
    busy = ", ".join(
        f"{unit.name.lower()} {timing.states(unit)[UnitState.BUSY] / timing.cycles:.0%}" for unit in Unit
    )
    return f"{timing.cycles:,} cycles, {len(timing.program)} instructions, busy: {busy}"
