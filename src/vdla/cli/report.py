"""``vdla report``."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from vdla.cli._modules import COMPILING, MHZ, inputs_of, module_of, options_given, show_notes, step_name
from vdla.cli._networks import Recipe, status, takes_recipe, takes_tuning
from vdla.cli._options import (
    CLOCK,
    INPUTS,
    MEMORY_OPTIONS,
    OUTPUT_FILE,
    needs,
    overrides_memory,
    takes_target,
)
from vdla.compiler.codegen.tuned.best_records import TuningRecords
from vdla.hw.spec.extras import require_package
from vdla.hw.spec.sdram import AnyMemory
from vdla.hw.spec.target import ClockSource, Target
from vdla.hw.spec.writing import check_writable
from vdla.runtime.module.plan import random_inputs
from vdla.runtime.samples import InputError


@click.command()
@click.argument("source", metavar="DIR|MODEL.vdla|MODEL.onnx", type=click.Path(exists=True, path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="PAGE.html",
    type=OUTPUT_FILE,
    help="Page to write.  [default: report.html in DIR; MODEL.html in the current folder]",
)
@INPUTS
@CLOCK
@overrides_memory
@takes_recipe
@takes_tuning
@needs("vdla report", "vl_convert")
@takes_target
def command(
    source: Path,
    output: Path | None,
    inputs: Path | None,
    clock: float | None,
    recipe: Recipe,
    records: TuningRecords,
    target: Target,
    memory: Callable[[AnyMemory], AnyMemory],
) -> None:
    """Write the page of a sweep's folder, or run a network on the cycle simulator and write the page of that.

    A page is one HTML file that works offline. A sweep's has Pareto fronts, parallel coordinates, a table of
    points, and the layers and commands of a chosen point. A run's has layers, a roofline and a timeline.

    The options of compilation, of memory, --input and --clock apply to networks only.
    """
    check_writable(output)
    if source.is_dir():
        click.echo(_of_sweep(source, output))
        return
    page = output or Path(f"{source.stem}.html")
    check_writable(page)
    click.echo(_of_run(source, page, inputs, clock, recipe, records, target, memory))


def _of_sweep(folder: Path, output: Path | None) -> Path:
    from vdla.explore.report.sweep_page import write_sweep_report

    require_package("pyarrow", "the page of a sweep")
    given = options_given(*COMPILING, "inputs", "clock", *MEMORY_OPTIONS)
    if given:
        raise InputError(f"{folder} is the folder of a sweep, so {' and '.join(given)} cannot change it")
    return write_sweep_report(folder, output)


def _of_run(
    source: Path,
    page: Path,
    inputs: Path | None,
    clock: float | None,
    recipe: Recipe,
    records: TuningRecords,
    target: Target,
    memory: Callable[[AnyMemory], AnyMemory],
) -> Path:
    from vdla.explore.report.run_page import write_run_report

    given = inputs_of(inputs, recipe)
    module = module_of(source, target, recipe, records)
    module_target = module.plan.target
    clock_source = ClockSource.GIVEN if clock else module_target.clock_source
    chosen = replace(
        module_target,
        memory=memory(module_target.memory),
        clock_mhz=clock or module_target.clock_mhz,
        clock_source=clock_source,
    )
    with status() as say:
        done = module.run(
            random_inputs(module.inputs) if given is None else given,
            "cycle",
            clock_hz=chosen.clock_mhz * MHZ,
            memory=chosen.memory,
            progress=lambda step: say(step_name(step)),
        )
    show_notes(done)
    return write_run_report(page, module.plan, done.outcome, done.report, chosen)
