#!/usr/bin/env python3
"""Train a small language model as in Llama on the pages of docs, and write one decoding step of it as ONNX.

The model predicts characters. Training takes about three minutes on one quiet core. Inputs of 32 steps on the
training pages are written beside the model, to quantise it with. An interrupted training writes nothing. The
weights depend on the pages, and on how a machine rounds.
"""

import io
import time
from pathlib import Path

import click
import numpy as np
from accuracy import pages
from accuracy.decoder_step import step_model
from accuracy.language import ALPHABET, SIZES, STEPS, counted, schedule, trained
from accuracy.stepping import Stepper, perplexity, recorded, written
from accuracy.training import Network
from onnx import ModelProto

from vdla.cli._options import needs
from vdla.hw.spec.writing import write_bytes

TARGET = Path("build/language_model.onnx")
SAMPLES, LONGEST = 32, 3 * SIZES.context  # steps to quantise with, and the characters that each has read
BEGIN, LENGTH, TEMPERATURE = "the compiler ", 240, 0.5


def train(text: np.ndarray, steps: int) -> Network:
    """Return the trained network; show the progress on the terminal."""
    from threadpoolctl import threadpool_limits

    with (
        threadpool_limits(limits=1),  # results are the same with any number of cores
        click.progressbar(length=steps, label="training", item_show_func=_loss) as bar,
    ):
        return trained(text, schedule(steps), lambda loss: bar.update(1, loss))


def _loss(loss: float | None) -> str:
    """Return the loss of a step as shown."""
    return "" if loss is None else f"loss {loss:.2f}"


def report(model: ModelProto, training: np.ndarray, test: np.ndarray) -> None:
    """Print perplexities of the unseen pages, and a text that the model writes."""
    click.echo(f"perplexity on {len(test):,} characters of unseen pages:")
    for name, length in (("unigrams", 1), ("bigrams", 2), ("trigrams", 3)):
        click.echo(f"  {name:9} {counted(training, test, length):6.2f}")
    click.echo(f"  {'model':9} {perplexity(Stepper(model), test, SIZES.positions):6.2f}")
    text = written(Stepper(model), pages.numbers(BEGIN, ALPHABET), LENGTH, TEMPERATURE)
    click.echo(BEGIN + "".join(ALPHABET[symbol] for symbol in text))


@click.command(help=__doc__)
@click.option("--steps", type=click.IntRange(1), default=STEPS, show_default=True, help="Of Adam.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=TARGET,
    show_default=True,
    help="Model to write; the samples are written beside it, as NAME_samples.npz.",
)
@needs("training", "onnxruntime", "threadpoolctl")
def main(steps: int, output: Path) -> None:
    training, test = pages.split(ALPHABET)
    begin = time.perf_counter()
    network = train(training, steps)
    click.echo(f"trained in {time.perf_counter() - begin:.0f} s")
    model = step_model(SIZES, network.weights)
    samples = io.BytesIO()
    inputs = recorded(model, training, SAMPLES, LONGEST)
    np.savez(samples, **{name: np.stack([each[name] for each in inputs]) for name in inputs[0]})
    beside = output.with_name(f"{output.stem}_samples.npz")
    write_bytes(output, model.SerializeToString())
    write_bytes(beside, samples.getvalue())
    click.echo(f"wrote {output}, {output.stat().st_size:,} bytes, and {beside}")
    report(model, training, test)


if __name__ == "__main__":
    main()
