"""``vdla compile``."""

import sys
from pathlib import Path

import click

from vdla.cli._compiling import MODULE, Order, compile_each, compile_one
from vdla.cli._networks import Recipe, explained, takes_recipe, takes_tuning
from vdla.cli._options import OUTPUT_FILE, takes_target
from vdla.cli._summaries import lists_layers
from vdla.compiler.codegen.tuned.best_records import TuningRecords
from vdla.hw.spec.target import Target
from vdla.prove.proof import NotProvedError
from vdla.runtime.samples import InputError


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
@click.option(
    "--explain",
    is_flag=True,
    help="Show what each pass does: the rules that fired with the nodes before and after, and the rules that "
    "nearly matched.",
)
@click.option(
    "--stop-after",
    metavar="PASS",
    default="",
    help="Print the graph after this pass (PASS:2: after its second run), and write no module. --explain "
    "shows the passes.",
)
@click.option(
    "--prove",
    "proves",
    is_flag=True,
    help="Prove that the streams compute the network for every input, before the module is written; a module "
    "that is not proved is not written (exit status 1). See vdla prove.",
)
@click.option(
    "--no-graph",
    is_flag=True,
    help="Leave out of the module the graph that vdla prove compares its streams with; the file is about "
    "half as large.",
)
@lists_layers
@takes_recipe
@takes_tuning
@takes_target
def command(
    model: Path,
    output: Path | None,
    errors: bool,
    explain: bool,
    stop_after: str,
    proves: bool,
    no_graph: bool,
    layers: bool,
    recipe: Recipe,
    records: TuningRecords,
    target: Target,
) -> None:
    """Compile an ONNX network to a module file, or each network in a folder.

    Prints a summary: what runs on the accelerator, the cycles that a run will take, what crosses between host
    and accelerator, what costs most, and why operators stay on the host. Of a folder it prints a table at the
    end; a network that is refused does not stop the others, and gives exit status 2.
    """
    if (explain or stop_after) and model.is_dir():
        raise InputError(f"{model} is a folder; --explain and --stop-after take a single model")
    if explain or stop_after:
        graph = explained(model, target, recipe, stop_after, show=explain)
        if graph:
            click.echo(graph, nl=False)
            return
    order = Order(errors, layers, proves, not no_graph, recipe, records, target)
    if not model.is_dir():
        _compile_one(model, output or model.with_suffix(MODULE), order)
    elif not compile_each(model, output or model, order):
        sys.exit(2)


def _compile_one(model: Path, output: Path, order: Order) -> None:
    """Compile a model to a file; exit status 1 if its module was to be proved, and is not."""
    try:
        compile_one(model, output, order)
    except NotProvedError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
