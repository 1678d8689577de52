#!/usr/bin/env python3
"""Let the language model write on the accelerator, character by character.

Needs the model of scripts/train_language_model.py, and its scripts:

    python scripts/train_language_model.py
    PYTHONPATH=scripts python examples/language_model/write.py "the compiler " --device cycle
"""

from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
from accuracy.language import ALPHABET, SIZES
from accuracy.pages import numbers
from accuracy.stepping import drawn

import vdla
from vdla.cli._devices import DEVICE
from vdla.cli._options import takes_target
from vdla.hw.spec.target import Target

MODEL, SAMPLES = Path("build/language_model.onnx"), Path("build/language_model_samples.npz")
STATES = {"past_*": "present_*"}


def characters(module: vdla.Module, device: str, begin: str, temperature: float, seed: int) -> Iterator[str]:
    """Yield the characters that a model appends to a text, until it has no more positions.

    Args:
        module: the model; its states hold the keys and values of the text so far.
        begin: the text, of characters of the alphabet; not empty.
        temperature: divides the logits before a character is drawn; at 0 it is the likeliest.
        seed: of the draws.
    """
    random, symbols = np.random.default_rng(seed), list(numbers(begin, ALPHABET))
    module.reset()
    for position in range(SIZES.positions):
        run = module.run(token=[[symbols[position]]], position=[[position]], device=device)
        if position + 1 == len(symbols):
            symbols.append(drawn(run.outputs["logits"].reshape(-1).astype(np.float64), temperature, random))
            yield ALPHABET[symbols[-1]]


@click.command(help=__doc__)
@click.argument("begin", default="the compiler ")
@click.option("--length", type=click.IntRange(1, SIZES.positions), default=200, show_default=True)
@click.option("--temperature", type=click.FloatRange(0), default=0.5, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--weight-bits", type=click.IntRange(2, 8), default=8, show_default=True)
@click.option("--device", default="cycle", show_default=True, type=DEVICE)
@takes_target
def main(
    begin: str, length: int, temperature: float, seed: int, weight_bits: int, device: str, target: Target
) -> None:
    for path in (MODEL, SAMPLES):
        if not path.exists():
            raise click.UsageError(f"{path} is missing; write it with scripts/train_language_model.py")
    unknown = sorted({*begin} - {*ALPHABET})
    if unknown or not begin:
        raise click.UsageError(f"{begin!r} has {unknown or 'no characters'}; the alphabet is {ALPHABET!r}")
    module = vdla.compile(MODEL, target, samples=SAMPLES, states=STATES, weight_bits=weight_bits)
    click.echo(module.summary(), err=True)
    click.echo(begin, nl=False)
    written = characters(module, device, begin, temperature, seed)
    for _, character in zip(range(length), written, strict=False):
        click.echo(character, nl=False)
    click.echo()
    cycles = module.forecast().cycles
    assert cycles is not None, "the cycle device counts them"
    per_second = target.clock_mhz * 1e6 / cycles
    click.echo(f"{cycles:,} cycles of the accelerator a character: {per_second:,.0f} a second", err=True)


if __name__ == "__main__":
    main()
