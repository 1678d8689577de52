#!/usr/bin/env python3
"""Measure what quantisation to int8 costs: trained networks on data they have not seen, and networks with
heavy-tailed activations by the cosine of their outputs to float outputs, beside onnxruntime's quantisation.

Needs onnxruntime and scikit-learn. The recogniser of text lines comes in a package that is not required; the
lines are drawn with matplotlib's fonts. The recurrent networks are trained here, with NumPy: a text model on
the pages of docs, a keyword spotter on synthetic words, and bidirectional LSTMs on rows of digits. Their
accuracies depend on the pages, and on how a machine rounds while it trains them. Other accuracies and cosines
are the same on every machine up to rounding. Seconds are of quantisation, calibration included.
"""

import sys

import click
import numpy as np
from accuracy.compare import cosine, floats, ours, theirs
from accuracy.recurrent import bidirectional_lstms, synthetic_keywords, text_model
from accuracy.tails import images, lines, recogniser, vision_transformer
from accuracy.text import HOW, place, text_lines
from accuracy.trained import Trained, cancer, digits

from vdla.cli._options import needs
from vdla.compiler.graph.quantisation.options import Options

TEXT = "text lines"
TRAINED = {
    "digits": digits,
    "cancer": cancer,
    "text model": text_model,
    "synthetic keywords": synthetic_keywords,
    "bidirectional LSTMs": bidirectional_lstms,
    TEXT: text_lines,
}
TAILED = {"vision transformer": (vision_transformer, images), "recogniser": (recogniser, lines)}
PLAIN = {"default": Options(), "largest magnitude": Options(percentile=100)}
SEED, CALIBRATION, TEST = 1, 8, 16
MOST_POINTS = 0.5
LEAST_COSINE, AS_NEAR = 0.98, 0.002


def accuracy(trained: Trained) -> bool:
    """Print the accuracy of a trained network in float and in int8; return whether that is near enough."""
    wanted = floats(trained.model, trained.test)
    before = trained.score(wanted)
    quantised = ours(trained.model, trained.calibration, trained.test, Options())
    after = trained.score(quantised.outputs)
    row(trained.name, "float", f"{before:.2f} %", "")
    row("", quantised.how, f"{after:.2f} %", f"{quantised.seconds:.1f}")
    return after >= before - MOST_POINTS


def distance(name: str) -> bool:
    """Print how near the quantised forms of a network are; return whether the default is near enough."""
    make, sample = TAILED[name]
    model, random = make(SEED), np.random.default_rng(SEED)
    calibration, test = ([sample(random) for _ in range(count)] for count in (CALIBRATION, TEST))
    wanted = floats(model, test)
    quantised = {label: ours(model, calibration, test, options) for label, options in PLAIN.items()}
    near = {label: cosine(wanted, each.outputs) for label, each in quantised.items()}
    for label, each in quantised.items():
        row(name if label == "default" else "", each.how, f"{near[label]:.4f}", f"{each.seconds:.1f}")
    best = 0.0
    for each in theirs(model, calibration, test):
        row("", each.how, f"{cosine(wanted, each.outputs):.4f}", f"{each.seconds:.1f}")
        best = max(best, cosine(wanted, each.outputs))
    return near["default"] >= min(LEAST_COSINE, best - AS_NEAR)


def row(name: str, how: str, figure: str, seconds: str) -> None:
    """Print a row of the table."""
    click.echo(f"{name:20} {how:40} {figure:>10} {seconds:>8}".rstrip())


@click.command(help=__doc__)
@click.option("--only", type=click.Choice([*TRAINED, *TAILED]), multiple=True, help="May be repeated.")
@needs("measuring accuracy", "onnxruntime", "sklearn", "matplotlib")
def main(only: tuple[str, ...]) -> None:
    if TEXT in only and place() is None:
        raise click.UsageError(f"the recogniser of {TEXT} is not installed: {HOW}")
    row("network", "quantised by", "result", "seconds")
    names = only or tuple(name for name in (*TRAINED, *TAILED) if name != TEXT or place() is not None)
    right = {name: accuracy(TRAINED[name]()) if name in TRAINED else distance(name) for name in names}
    click.echo()
    for name, holds in right.items():
        limit = (
            f"within {MOST_POINTS} points of float"
            if name in TRAINED
            else f"cosine to float of {LEAST_COSINE}, or as near as onnxruntime's best"
        )
        click.echo(f"{'ok' if holds else 'FAILED':6} {name}: {limit}")
    if not only and TEXT not in names:
        click.echo(f"not measured: {TEXT}, whose recogniser is not installed: {HOW}")
    sys.exit(not all(right.values()))


if __name__ == "__main__":
    main()
