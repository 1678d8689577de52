"""``vdla trace``."""

from pathlib import Path

import click

from vdla.cli._options import OUTPUT_FILE, reports_errors, takes_memory
from vdla.cli._runs import raise_fault, time_vector
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.registers import UnitState
from vdla.hw.spec.units import Unit
from vdla.hw.spec.writing import check_writable, whole_file
from vdla.sim.timing.result import Timing
from vdla.sim.trace.perfetto import write_perfetto
from vdla.sim.trace.text import lines


@click.command()
@click.argument("vector", metavar="VECTOR", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=OUTPUT_FILE,
    help="File to write, as text if it ends in .txt; - is standard output (with --text).",
)
@click.option("--text", is_flag=True, help="Write one line per event instead of a timeline.")
@takes_memory
@reports_errors
def command(vector: Path, output: Path, text: bool, memory: MemoryParameters) -> None:
    """Simulate a program and write its timeline for ui.perfetto.dev, or its events as text.

    If the hardware stops the program (a deadlock, say), the timeline ends there, the reason is printed and
    the exit status is 2.
    """
    if str(output) != "-":
        check_writable(output)
    elif not text:
        raise click.UsageError("a timeline goes to a file: give -o FILE, or --text")
    text = text or output.suffix == ".txt"
    timing = time_vector(vector, memory)
    if text:
        _write_text(timing, output)
    else:
        write_perfetto(timing, output, memory)
    click.echo(
        f"{vector.name}: {_summary(timing)} -> {output}"
        + ("" if text else "; open it in https://ui.perfetto.dev"),
        err=True,
    )
    raise_fault(timing)


def _write_text(timing: Timing, output: Path) -> None:
    with click.open_file("-", "w") if str(output) == "-" else whole_file(output) as file:
        file.writelines(f"{line}\n" for line in lines(timing))


def _summary(timing: Timing) -> str:
    busy = ", ".join(
        f"{unit.name.lower()} {timing.states(unit)[UnitState.BUSY] / timing.cycles:.0%}" for unit in Unit
    )
    return f"{timing.cycles:,} cycles, {len(timing.program)} instructions, busy: {busy}"
