"""``vdla compile``."""

from pathlib import Path

import click

from vdla.cli._networks import (
    Recipe,
    compile_with_errors,
    plan_with_progress,
    show_tuning,
    takes_recipe,
    takes_tuning,
)
from vdla.cli._options import OUTPUT_FILE, takes_target
from vdla.cli._summaries import lists_layers, show_forecast
from vdla.compiler.codegen.tuned.records import Records
from vdla.hw.spec.target import Target
from vdla.hw.spec.writing import check_writable
from vdla.runtime.module.file import save


@click.command()
@click.argument("model", metavar="MODEL.onnx", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=OUTPUT_FILE, help="Module to write (.vdla).")
@click.option(
    "--errors",
    is_flag=True,
    help="With --calibrate: print each layer's signal to quantisation noise on the samples, and the "
    "layers that cost most.",
)
@lists_layers
@takes_recipe
@takes_tuning
@takes_target
def command(
    model: Path,
    output: Path,
    errors: bool,
    layers: bool,
    recipe: Recipe,
    records: Records,
    target: Target,
) -> None:
    """Compile an ONNX network to a module file.

    Prints a summary: what runs on the accelerator, the cycles that a run will take, what crosses between host
    and accelerator, what costs most, and why operators stay on the host.
    """
    check_writable(output)
    compiled = compile_with_errors(model, target, recipe, records) if errors else None
    plan, tuning = (
        plan_with_progress(model, target, recipe, records)
        if compiled is None
        else (compiled.plan, compiled.tuning)
    )
    save(plan, output)
    show_forecast(plan, output, layers)
    show_tuning(tuning, records, target)
    if compiled is not None and compiled.errors:
        from vdla.compiler.graph.quantisation_error import print_contributions, print_errors

        click.echo(
            "signal to quantisation noise, with that of all layers before:\n" + print_errors(compiled.errors),
            nl=False,
        )
        click.echo(print_contributions(compiled.contributions), nl=False)
    if compiled is not None and compiled.in_float:
        click.echo(f"kept in float: {', '.join(compiled.in_float)}")
    click.echo(
        f"{output}: {output.stat().st_size / 2**20:.1f} MiB, "
        f"{sum(stream.count for stream in plan.streams.values()):,} instructions "
        f"in {len(plan.launches)} launch{'es' * (len(plan.launches) != 1)}, "
        f"{sum(plan.tensors.values()) / 2**20:.1f} MiB of activations in DRAM"
    )
