"""Compiling a network: from an ONNX model to a plan."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.codegen.store import kept
from vdla.compiler.codegen.tuned.records import NO_RECORDS, Records
from vdla.compiler.graph.integer_forms.early import DYNAMIC, PRODUCTS
from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.onnx.load import Loaded, load_with_samples
from vdla.compiler.graph.passes.fix_ranges import FixRanges
from vdla.compiler.graph.pipeline import FLOATS, INTEGERS, SIMPLIFY
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.graph.quantisation.sensitivity import Contribution, contributions
from vdla.compiler.graph.quantisation_error import LayerError, layer_errors
from vdla.compiler.graph.quantise import Quantised, has_quantisable, quantise
from vdla.compiler.graph.section import WHOLE, Section
from vdla.compiler.graph.source import ModelSource
from vdla.compiler.network.tuning import Tuning, tuned_plan
from vdla.hw.spec.target import Target
from vdla.runtime.module.plan import Fidelity, Plan
from vdla.runtime.samples.given import Given, given_of

Progress = Callable[[str], None]
Samples = Iterable[Mapping[str, np.ndarray]]
OPTIONS = Options()


@dataclass(frozen=True)
class Compiled:
    """A compiled network.

    Attributes:
        graph: with integer operators: what the accelerator's results must equal.
        plan: to be saved, or run.
        tuning: how tuned records served.
        errors: of each layer against floats, if they were asked for and the network was quantised here.
        contributions: what each layer costs alone, the most first, under the same conditions.
    """

    graph: Graph
    plan: Plan
    tuning: Tuning
    errors: tuple[LayerError, ...] = ()
    contributions: tuple[Contribution, ...] = ()


def compile_network(
    model: ModelSource,
    target: Target,
    *,
    samples: object = None,
    options: Options = OPTIONS,
    shapes: Mapping[str, Sequence[int]] | None = None,
    section: Section = WHOLE,
    errors: bool = False,
    records: Records = NO_RECORDS,
    progress: Progress = lambda text: None,
) -> Compiled:
    """Compile a network.

    Args:
        model: an ONNX file, its bytes, or a model of the `onnx` package.
        target: what it is compiled for.
        samples: inputs on which a float network is calibrated for quantisation, as `given_of` takes them;
            None: there are none.
        options: how a float network is quantised.
        shapes: shapes of inputs that are dynamic in the model; those of others come from the samples.
        section: which part of the model; all of it by default.
        errors: measure the quantisation error of each layer on the samples.
        records: tuned records to use.
        progress: called with a text for each step of the work.

    Raises:
        GraphError: the model cannot be imported; or it is of floats, and no samples were given.
        InputError: the samples cannot be read, or do not fit the network.
    """
    progress("import")
    loaded = imported(model, None if samples is None else given_of(samples), shapes, section)
    simple, given = loaded.graph, loaded.samples
    made = None if _is_ready(simple, given) else _quantise(simple, given, options, progress)
    found, costs = _errors(made, given, progress) if errors and made is not None and given else ((), ())
    graph = INTEGERS.run(simple if made is None else made.graph)
    plan, tuning = tuned_plan(graph, target, records, kept(), progress)
    plan = replace(plan, fidelity=None if made is None else made.fidelity)
    return Compiled(graph, plan, tuning, found, costs)


def _errors(
    made: Quantised, given: Sequence[Mapping[str, np.ndarray]], progress: Progress
) -> tuple[tuple[LayerError, ...], tuple[Contribution, ...]]:
    """Return the error of each layer on samples, and what each costs alone."""
    progress("errors of layers")
    return layer_errors(made.roles.graph, made.graph, given), contributions(made, given)


def imported(
    model: ModelSource,
    given: Given | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    section: Section = WHOLE,
) -> Loaded:
    """Return the simplified graph of a model, or of a part of it, and samples that fit it.

    Args:
        given: samples; where there are some, they will give the graph's ranges: see `calibratable`.

    Raises:
        GraphError: it cannot be imported.
        InputError: the samples do not fit it.
    """
    loaded = load_with_samples(model, given, shapes, section)
    return replace(loaded, graph=simplified(loaded.graph, given is not None))


def simplified(graph: Graph, calibrates: bool) -> Graph:
    """Return a graph in the form in which it is quantised and lowered; `calibrates` as in `imported`."""
    simple = SIMPLIFY.run(graph)
    return FLOATS.run(calibratable(simple) if calibrates else simple)


def calibratable(simple: Graph) -> Graph:
    """Return a graph that finds the ranges of all that it quantises while it runs as one of real numbers,
    whose ranges samples can give; other graphs as they are."""
    if all(node.op != DYNAMIC for node in simple.nodes):
        return simple
    fixed = FixRanges().run(simple)
    return simple if _quantised(fixed) else SIMPLIFY.run(fixed)


def integer_graph(graph: Graph, samples: Samples | None = None, options: Options = OPTIONS) -> Graph:
    """Return a graph with integer operators wherever it is quantised, or can be with `samples`."""
    return integers_of(simplified(graph, samples is not None), samples, options)[0]


def integers_of(
    simple: Graph, samples: Samples | None, options: Options, progress: Progress = lambda text: None
) -> tuple[Graph, Fidelity | None]:
    """Return a simplified graph with integer operators, and how near it is to the float graph where it was
    quantised with `samples`. A quantised graph stays as it is, and so does one of which the accelerator
    computes nothing.

    Raises:
        GraphError: it is of floats, and no samples were given.
    """
    if _is_ready(simple, samples):
        return INTEGERS.run(simple), None
    made = _quantise(simple, samples, options, progress)
    return INTEGERS.run(made.graph), made.fidelity


def _is_ready(graph: Graph, samples: Samples | None) -> bool:
    """Whether a graph is quantised, or has nothing to quantise."""
    return _quantised(graph) or not has_quantisable(graph, sampled=samples is not None)


def _quantise(graph: Graph, samples: Samples | None, options: Options, progress: Progress) -> Quantised:
    """Quantise a float graph; errors as those of `integers_of`."""
    if samples is None:
        raise GraphError(
            f"{graph.name} is a float network, and the accelerator computes with integers; give samples of "
            "its inputs for quantisation (--calibrate SAMPLES.npz), or a quantised model"
        )
    return quantise(graph, list(samples), options, progress)


def _quantised(graph: Graph) -> bool:
    return any(
        "QuantizeLinear" in node.op or node.op.startswith("QLinear") or node.op in PRODUCTS
        for node in graph.nodes
    )
