"""``vdla debug``."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from vdla.cli._options import OUTPUT_FILE, overrides_memory, reports_errors
from vdla.cli._runs import MODULE, MemoryOf, TimedRun, numbered
from vdla.explore.debug.debugger import Debugger
from vdla.explore.debug.launches import compared_recordings, recordings_of, vector_recording
from vdla.explore.debug.recording import DebugError, Recording
from vdla.explore.debug.stepper import Stepper
from vdla.explore.debug.text import place_line
from vdla.hw.spec.errors import FileFormatError
from vdla.hw.spec.memory import REFERENCE_MEMORY
from vdla.hw.spec.writing import check_writable
from vdla.runtime.samples import InputError
from vdla.runtime.vectors import load_vector
from vdla.sim.interleave import interleave

PROMPT = "(vdla) "


@click.command()
@click.argument(
    "source", metavar="VECTOR|MODULE.vdla", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "-o", "--output", metavar="PAGE.html", type=OUTPUT_FILE, help="Write a page that steps through the run."
)
@click.option("--text", is_flag=True, help="Step in the terminal; commands come from standard input.")
@click.option(
    "--command",
    "commands",
    metavar="COMMAND",
    multiple=True,
    help="Run a command of the stepper, in place of standard input; may be repeated.",
)
@click.option(
    "--input",
    "inputs",
    metavar="IN",
    type=click.Path(exists=True, path_type=Path),
    help="Run a module with the first of these inputs, as `vdla run` takes them, and compare the result of "
    "each layer with the network's. Cycles do not depend on inputs.",
)
@overrides_memory
@reports_errors
def command(
    source: Path,
    output: Path | None,
    text: bool,
    commands: tuple[str, ...],
    inputs: Path | None,
    memory: MemoryOf,
) -> None:
    """Step through a simulated program, forwards and backwards: units, queues, tokens, and why units wait.

    A vector runs with the reference memory, a module with that of its target, unless options say otherwise.
    The program runs first, and the debugger steps through its records. `help` lists the commands of the
    stepper.

    If the hardware stops the program (a deadlock, say), the run ends there, and the reason is printed.
    """
    if output is None and not (text or commands):
        raise InputError(
            f"{source}: say how to step: --text in the terminal, or -o PAGE.html to write a page"
        )
    check_writable(output)
    runs = _runs(source, inputs, memory)
    if not runs:
        raise FileFormatError(f"{source} runs nothing on the accelerator")
    for run in runs:
        error = interleave(run.program).error if run.timing.fault else None
        if error is not None:
            click.echo(f"{run.name}: the hardware stops the run: {error}", err=True)
        if wrong := sum(each.count for each in run.image.differences):
            click.echo(f"{run.name}: {wrong:,} bytes of results are wrong; `errors` lists them", err=True)
    if output is not None:
        _write(output, runs)
    if text or commands:
        _steps([Debugger(run) for run in runs], commands)


def _runs(source: Path, inputs: Path | None, memory: MemoryOf) -> tuple[Recording, ...]:
    if source.suffix != MODULE:
        if inputs is not None:
            raise InputError(
                f"{source} is a vector, which holds its DRAM, so --input {inputs} cannot change it; leave "
                "out --input"
            )
        vector = replace(load_vector(source), name=source.stem)
        return (vector_recording(vector, memory(REFERENCE_MEMORY)),)
    return _launches(source, inputs, memory)


def _launches(source: Path, inputs: Path | None, memory: MemoryOf) -> tuple[Recording, ...]:
    from vdla.api import load
    from vdla.runtime.samples.declared import static
    from vdla.runtime.samples.fit import fit
    from vdla.runtime.samples.given import given_of
    from vdla.runtime.session.report import report
    from vdla.runtime.session.states import first_states

    module = load(source)
    chosen = memory(module.plan.target.memory)
    if inputs is None:
        outcome = module.rehearse(chosen)
        run_report = report(module.plan, outcome, "cycle", memory=chosen)
        return recordings_of(module.plan, outcome, run_report, chosen, source.stem)
    declared = {name: static(value.shape, value.dtype) for name, value in module.inputs.items()}
    samples = fit(given_of(inputs), declared).samples
    first = samples[0] | first_states(module.plan)
    return compared_recordings(module.plan, first, chosen, source.stem)


def _write(output: Path, runs: tuple[Recording, ...]) -> None:
    from vdla.explore.report.debug_page import write_debug_page

    timed = [TimedRun(run.name, run.timing, run.memory, run.layers) for run in runs]
    for (path, _), run in zip(numbered(output, timed), runs, strict=True):
        write_debug_page(path, run)
        click.echo(f"{run.name}: {len(run):,} instructions -> {path}", err=True)


def _steps(debuggers: list[Debugger], commands: tuple[str, ...]) -> None:
    """Carry out commands until they end. On a terminal, a wrong command is reported, and the next is
    read."""
    stepper = Stepper(debuggers)
    lines, asks = (iter(commands), False) if commands else (_typed(), sys.stdin.isatty())
    if asks:
        click.echo(f"{place_line(stepper.debugger)}; help lists the commands", err=True)
    while not stepper.ended and (line := next(lines, None)) is not None:
        try:
            for shown in stepper.do(line):
                click.echo(shown)
        except DebugError as error:
            if not asks:
                raise
            click.echo(f"error: {error}", err=True)


def _typed() -> Iterator[str]:
    """Yield the lines of standard input; on a terminal, after a prompt."""
    while True:
        if sys.stdin.isatty():
            click.echo(PROMPT, nl=False, err=True)
        if not (line := sys.stdin.readline()):
            return
        yield line
