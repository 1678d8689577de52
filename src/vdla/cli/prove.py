"""``vdla prove``."""

import json
import sys
import time
from pathlib import Path

import click

from vdla.cli._modules import COMPILING, options_given
from vdla.cli._networks import Recipe, graph_of, status, takes_recipe
from vdla.cli._proofs import describe_proof
from vdla.cli._summaries import lists_layers
from vdla.prove.compare import prove
from vdla.prove.graphs import carried_graphs, graphs_for
from vdla.prove.patch import read_patches, with_patches
from vdla.runtime.module.file import load
from vdla.runtime.samples import InputError

IMAGES = ("image_preset", "image_mean", "image_std")
"""Parameters of the options of images, which are samples here."""


@click.command()
@click.argument("module", metavar="MODULE.vdla", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--model",
    metavar="MODEL.onnx",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare with the graph of this model, compiled with the other options, in place of the graph that "
    "the module carries.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**128 - 1),
    help="Seed of the random elements, to repeat a proof.  [default: from the operating system]",
)
@click.option(
    "--stream-patch",
    "patch",
    metavar="FILE.json",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Change bytes of the streams before the proof: a list of [launch, byte offset, new value]. A "
    "launch's micro-ops follow its instructions.",
)
@lists_layers
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every layer.")
@takes_recipe
def command(
    module: Path,
    model: Path | None,
    seed: int | None,
    patch: Path | None,
    layers: bool,
    as_json: bool,
    recipe: Recipe,
) -> None:
    """Prove that a module computes its graph of integer operators for every input; exit status 1 if not.

    Every stream is interpreted over random elements of a field in place of numbers, and the result of every
    layer is compared with that of the graph. A difference is named by layer, element and instruction. The
    probability that unequal functions are taken for equal is bounded, and printed.

    --calibrate, --percentile, --float-layers, --float-share, --quality, --shape, --fix, --inputs, --outputs
    and the options of images apply to --model only.
    """
    given = options_given(*COMPILING, *IMAGES)
    if model is None and given:
        raise InputError(f"{' and '.join(given)} say how a model is compiled; give the model with --model")
    began, plan = time.perf_counter(), load(module)
    plan = plan if patch is None else with_patches(plan, read_patches(patch))
    with status() as say:
        graphs = (
            carried_graphs(plan) if model is None else graphs_for(graph_of(model, recipe, say), plan.target)
        )
        proof = prove(plan, graphs, seed=seed, progress=say)
    seconds = time.perf_counter() - began
    if as_json:
        click.echo(json.dumps({**proof.to_json(), "seconds": seconds}, indent=1))
    else:
        click.echo(describe_proof(plan, proof, seconds, layers))
    sys.exit(0 if proof.proved else 1)
