#!/usr/bin/env python3
"""Measure a small language model on the accelerator: perplexity and tokens per second, by bits of weights.

Needs the model of scripts/train_language_model.py. The perplexity is that of pages that the model has not
seen, beside the float model's under onnxruntime. Tokens per second count the cycles of the accelerator, at
the clock of the target; the host's operators between launches are not in them. The results of the first
tokens are compared bit for bit with the graph of integer operators, and on the functional device, the cycle
simulator and the RTL with each other.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import onnx
from accuracy import pages
from accuracy.language import ALPHABET, SIZES
from accuracy.stepping import Step, Stepper, logits, perplexity, written

import vdla
from vdla.cli._options import needs
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.parse import parse_graph
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension

MODEL = Path("build/language_model.onnx")
STATES = {"past_*": "present_*"}
TARGET = Target(DEFAULT.with_changes(extensions=tuple(Extension)))
BITS = (8, 4, 2)
BEATS = (1, 2)  # cycles of the memory for a beat of the bus
TIMED, FEW = ("cycle", "rtl"), 3  # devices, and the tokens that they compute
BEGIN, LENGTH, TEMPERATURE = "the compiler ", 120, 0.5


@dataclass(frozen=True)
class Measured:
    """A module's figures.

    Attributes:
        perplexity: on unseen text.
        cycles: of a token, by the cycles of a beat.
        tokens: whose results were compared with those of the graph.
        equal: all results were equal.
    """

    perplexity: float
    cycles: Mapping[int, int]
    tokens: int
    equal: bool


def stepping(module: vdla.Module, device: str = "functional") -> Step:
    """Return the steps of a module, from states of zero on."""
    module.reset()
    return lambda token, position: module.run({"token": token, "position": position}, device=device).outputs[
        "logits"
    ]


class Interpreted:
    """Steps of a graph of integer operators under the interpreter."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._states = {
            name: np.full(graph.types[name].shape, state.zero, graph.types[name].dtype)
            for name, state in graph.states.items()
        }

    def __call__(self, token: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return the logits, float32[1, 1, symbols], and keep the states."""
        outputs = interpret(self._graph, {"token": token, "position": position, **self._states})
        self._states = {name: outputs[state.output] for name, state in self._graph.states.items()}
        return outputs["logits"]


def graph_of(module: vdla.Module) -> Graph:
    """Return the graph of integer operators that a module carries."""
    texts = module.plan.graphs
    assert texts is not None, "vdla.compile lets modules carry their graphs"
    return parse_graph(texts.integers, texts.constants)


def all_logits(step: Step, text: np.ndarray) -> np.ndarray:
    """Return the logits after each symbol of a text, float32[length, symbols]."""
    return np.array(list(logits(step, text, SIZES.positions)))


def measure(module: vdla.Module, text: np.ndarray, tokens: int, show: Callable[[str], None]) -> Measured:
    """Return the figures of a module on a text."""
    show("perplexity")
    on_text = perplexity(stepping(module), text, SIZES.positions)
    begin = text[:tokens]
    show(f"{tokens} tokens against the graph")
    ours, graphs = all_logits(stepping(module), begin), all_logits(Interpreted(graph_of(module)), begin)
    equal = np.array_equal(ours, graphs)
    for device in TIMED:
        show(f"{FEW} tokens on the device {device}")
        equal &= np.array_equal(all_logits(stepping(module, device), begin[:FEW]), ours[:FEW])
    cycles = {beat: cycles_of(module, beat) for beat in BEATS}
    return Measured(on_text, cycles, tokens, equal)


def shown(bits: int, what: str) -> None:
    """Show what is measured."""
    click.echo(f"{bits} bits: {what}", err=True)


def cycles_of(module: vdla.Module, beat: int) -> int:
    """Return the cycles of a token, with a memory that takes so many cycles for a beat."""
    cycles = module.rehearse(MemoryParameters(cycles_per_beat=beat)).cycles
    assert cycles is not None, "the cycle device counts them"
    return cycles


def heading() -> str:
    """Return the heading of the table."""
    memories = [f"{TARGET.config.bus_bytes / beat:g} bytes per cycle" for beat in BEATS]
    columns = f"{'cycles':>11} {'tokens/s':>9} {'speed':>6}"
    first = f"{'':32}{''.join(f'{memory:>28}' for memory in memories)}"
    return f"{first}\n{'bits of weights':15} {'perplexity':>16}{columns * len(memories)}  results"


def row(bits: int, measured: Measured, whole: Measured, floats: float) -> str:
    """Return a line of the table."""
    change = 100 * (measured.perplexity / floats - 1)
    columns = (
        f"{cycles:11,} {TARGET.clock_mhz * 1e6 / cycles:9,.0f} {whole.cycles[beat] / cycles:6.2f}"
        for beat, cycles in measured.cycles.items()
    )
    is_equal = f"equal for {measured.tokens} tokens" if measured.equal else "DIFFER"
    return f"{bits:15} {measured.perplexity:7.3f} {change:+6.2f} %{''.join(columns)}  {is_equal}"


@click.command(help=__doc__)
@click.option("--model", type=click.Path(dir_okay=False, path_type=Path), default=MODEL, show_default=True)
@click.option("--characters", type=click.IntRange(2), default=2000, show_default=True, help="Of unseen text.")
@click.option("--tokens", type=click.IntRange(FEW), default=200, show_default=True, help="To compare.")
@click.option("--bits", type=click.IntRange(2, 8), multiple=True, default=BITS, show_default=True)
@needs("training", "onnxruntime")
def main(model: Path, characters: int, tokens: int, bits: tuple[int, ...]) -> None:
    samples = model.with_name(f"{model.stem}_samples.npz")
    for path in (model, samples):
        if not path.exists():
            raise click.UsageError(f"{path} is missing; write it with scripts/train_language_model.py")
    text = pages.split(ALPHABET)[1][:characters]
    floats = perplexity(Stepper(onnx.load(model)), text, SIZES.positions)
    click.echo(f"float: perplexity {floats:.3f} on {len(text):,} characters of unseen pages\n")
    click.echo(heading())
    whole, is_equal = None, True
    for each in bits:
        module = vdla.compile(
            model, TARGET, samples=samples, states=STATES, weight_bits=each, quality="fast", tuning="none"
        )
        measured = measure(
            module, text, tokens, lambda what, each=each: click.echo(f"{each} bits: {what}", err=True)
        )
        whole, is_equal = whole or measured, is_equal and measured.equal
        click.echo(row(each, measured, whole, floats))
        if each == bits[0]:
            first = module
    symbols = written(stepping(first, "cycle"), pages.numbers(BEGIN, ALPHABET), LENGTH, TEMPERATURE)
    click.echo(f"\nwritten on the cycle device with weights of {bits[0]} bits:")
    click.echo(BEGIN + "".join(ALPHABET[symbol] for symbol in symbols))
    sys.exit(not is_equal)


if __name__ == "__main__":
    main()
