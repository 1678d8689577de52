"""Compiling a network: from an ONNX model to a plan."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.compiler.codegen.record import Choices
from vdla.compiler.codegen.store import kept
from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.passes.affine_to_conv import AffineToConv
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.passes.pipeline import INTEGERS, SIMPLIFY, Pipeline
from vdla.compiler.graph.passes.rows_to_images import RowsToImages
from vdla.compiler.graph.passes.split_sums import SplitSums
from vdla.compiler.graph.quantisation_error import LayerError, layer_errors
from vdla.compiler.graph.quantise import has_quantisable, quantise
from vdla.compiler.graph.section import WHOLE, Section
from vdla.compiler.network.stages import plan_of
from vdla.hw.spec.target import Target
from vdla.runtime.module.plan import Plan

FLOATS = Pipeline((SplitSums(), RowsToImages(), AffineToConv(), DeadCode()))  # more that can be quantised
DYNAMIC = ("ConvInteger", "MatMulInteger")  # of networks that quantise activations while they run
Progress = Callable[[str], None]
Samples = Iterable[Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Compiled:
    """A compiled network.

    Attributes:
        graph: with integer operators: what the accelerator's results must equal.
        plan: to be saved, or run.
        errors: of each layer against floats, if they were asked for and the network was quantised here.
    """

    graph: Graph
    plan: Plan
    errors: tuple[LayerError, ...] = ()


def compile_network(
    model: str | os.PathLike[str] | bytes,
    target: Target,
    *,
    samples: Samples | None = None,
    percentile: float = 100.0,
    shapes: Mapping[str, Sequence[int]] | None = None,
    section: Section = WHOLE,
    errors: bool = False,
    choices: Choices | None = None,
    progress: Progress = lambda text: None,
) -> Compiled:
    """Compile a network.

    Args:
        model: an ONNX file, its bytes, or a model of the `onnx` package.
        target: what it is compiled for.
        samples: inputs on which a float network is calibrated for quantisation.
        percentile: percentile of each activation's magnitudes that its scale must hold.
        shapes: shapes of inputs that are dynamic in the model.
        section: which part of the model; all of it by default.
        errors: measure the quantisation error of each layer on the samples.
        choices: choices of tiles; None: the compiler chooses.
        progress: called with a text for each step of the work.

    Raises:
        GraphError: the model cannot be imported; or it is of floats, and no samples were given.
    """
    progress("import")
    simple, given = imported(model, shapes, section), None if samples is None else list(samples)
    quantised = quantised_graph(simple, given, percentile)
    found: tuple[LayerError, ...] = ()
    if errors and quantised is not simple:
        progress("errors of layers")
        found = layer_errors(simple, quantised, given or ())
    graph = INTEGERS.run(quantised)
    return Compiled(graph, plan_of(graph, target, choices, choose=kept(), progress=progress), found)


def imported(
    model: str | os.PathLike[str] | bytes,
    shapes: Mapping[str, Sequence[int]] | None = None,
    section: Section = WHOLE,
) -> Graph:
    """Return the simplified graph of a model, or of a part of it.

    Raises:
        GraphError: it cannot be imported.
    """
    return FLOATS.run(SIMPLIFY.run(load(model, shapes, section)))


def integer_graph(graph: Graph, samples: Samples | None = None, percentile: float = 100.0) -> Graph:
    """Return a graph with integer operators wherever it is quantised, or can be with `samples`."""
    return integers_of(FLOATS.run(SIMPLIFY.run(graph)), samples, percentile)


def integers_of(simple: Graph, samples: Samples | None, percentile: float) -> Graph:
    """Return a simplified graph with integer operators; errors as those of `quantised_graph`."""
    return INTEGERS.run(quantised_graph(simple, samples, percentile))


def quantised_graph(graph: Graph, samples: Samples | None, percentile: float) -> Graph:
    """Return a quantised graph as it is, or one of which the accelerator computes nothing; and a float graph
    quantised with `samples`.

    Raises:
        GraphError: it is of floats, and no samples were given.
    """
    if _quantised(graph) or not has_quantisable(graph):
        return graph
    if samples is None:
        raise GraphError(
            f"{graph.name} is a float network, and the accelerator computes with integers; give samples of "
            "its inputs for quantisation (--calibrate SAMPLES.npz), or a quantised model"
        )
    return quantise(graph, samples, percentile)


def _quantised(graph: Graph) -> bool:
    return any(
        "QuantizeLinear" in node.op or node.op.startswith("QLinear") or node.op in DYNAMIC
        for node in graph.nodes
    )
