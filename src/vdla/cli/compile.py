"""``vdla compile``."""

import sys
from pathlib import Path

import click

from vdla.cli._compiling import MODULE, Order, compile_each, compile_one
from vdla.cli._networks import Recipe, takes_recipe, takes_tuning
from vdla.cli._options import OUTPUT_FILE, takes_target
from vdla.cli._summaries import lists_layers
from vdla.compiler.codegen.tuned.records import Records
from vdla.hw.spec.target import Target


@click.command()
@click.argument("model", metavar="MODEL.onnx|FOLDER", type=click.Path(exists=True, path_type=Path))
@click.option(
    "-o",
    "--output",
    type=OUTPUT_FILE,
    help="Module to write (.vdla); of a folder of models: the folder of their modules.  [default: next to "
    "the "
    "model]",
)
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
    output: Path | None,
    errors: bool,
    layers: bool,
    recipe: Recipe,
    records: Records,
    target: Target,
) -> None:
    """Compile an ONNX network to a module file, or each network in a folder.

    Prints a summary: what runs on the accelerator, the cycles that a run will take, what crosses between host
    and accelerator, what costs most, and why operators stay on the host. Of a folder it prints a table at the
    end; a network that is refused does not stop the others, and gives exit status 2.
    """
    order = Order(errors, layers, recipe, records, target)
    if not model.is_dir():
        compile_one(model, output or model.with_suffix(MODULE), order)
    elif not compile_each(model, output or model, order):
        sys.exit(2)
