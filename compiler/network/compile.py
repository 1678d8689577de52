"""Compiling a network: from an ONNX model to a plan."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.codegen.choice_cache import cached
from vdla.compiler.codegen.tuned.best_records import NO_RECORDS, Tuning, TuningRecords
from vdla.compiler.graph.explain import Explanation, Write
from vdla.compiler.graph.integer_forms.cures import GENERAL, NOTHING_QUANTISED, cures_here, cures_in_file
from vdla.compiler.graph.integer_forms.prerequisites import DYNAMIC, PRODUCTS
from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.onnx.load import Loaded, load_with_samples
from vdla.compiler.graph.pipeline import FLOATS, SILENT, SIMPLIFY, Pipeline, Trace, integer_passes
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.graph.quantisation.sensitivity import Contribution, contributions
from vdla.compiler.graph.quantisation_error import LayerError, layer_errors
from vdla.compiler.graph.quantise import Quantised, has_quantisable, quantise
from vdla.compiler.graph.rewrites.quantised import FIX_RANGES
from vdla.compiler.graph.source import WHOLE, ModelSource, Section
from vdla.compiler.network.source import Source
from vdla.compiler.network.target_passes import target_passes
from vdla.compiler.network.tuning import tuned_plan
from vdla.hw.spec.target import Target
from vdla.runtime.module.plan import Fidelity, Plan
from vdla.runtime.samples.given import given_of

Progress = Callable[[str], None]
Samples = Iterable[Mapping[str, np.ndarray]]
OPTIONS = Options()


@dataclass(frozen=True)
class Lowered:
    """A graph of integer operators.

    Attributes:
        quantised: result of the quantiser; None if the network was quantised before, or stays in float.
    """

    graph: Graph
    quantised: Quantised | None = None

    @property
    def fidelity(self) -> Fidelity | None:
        """Signal to noise of the outputs against the float graph, if the quantiser has measured it."""
        return None if self.quantised is None else self.quantised.fidelity


@dataclass(frozen=True)
class Compiled:
    """A compiled network.

    Attributes:
        graph: graph of integer operators, which defines the accelerator's results.
        plan: plan to save or run.
        tuning: report on the use of tuned records.
        errors: error of each layer against floats, if requested and the network was quantised here.
        contributions: error due to each layer alone, largest first, under the same conditions.
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
    records: TuningRecords = NO_RECORDS,
    progress: Progress = lambda text: None,
) -> Compiled:
    """Compile a network without the cache.

    Args:
        model: an ONNX file, its bytes, or a model of the `onnx` package.
        target: the target.
        samples: inputs for the calibration of a float network, in any form that `given_of` accepts; None: no
            samples.
        options: options of quantisation.
        shapes: shapes of inputs that are dynamic in the model; other dynamic shapes come from the samples.
        section: the part of the model to compile; by default all of it.
        errors: measure the quantisation error of each layer on the samples.
        records: tuned records to use.
        progress: called with a text for each step of the work.

    Raises:
        GraphError: the model cannot be imported; or it is of floats, and no samples were given.
        InputError: the samples cannot be read, or do not fit the network.
    """
    progress("import")
    given = None if samples is None else given_of(samples)
    loaded = imported(Source(model, given, options, shapes, section))
    lowered = integers_of(loaded.graph, loaded.samples, options, progress)
    layers, costs = _errors_of(lowered, loaded.samples, progress) if errors else ((), ())
    plan, tuning = tuned_plan(lowered.graph, target, records, cached(), progress)
    return Compiled(lowered.graph, replace(plan, fidelity=lowered.fidelity), tuning, layers, costs)


def _errors_of(
    lowered: Lowered, samples: Sequence[Mapping[str, np.ndarray]] | None, progress: Progress
) -> tuple[tuple[LayerError, ...], tuple[Contribution, ...]]:
    """Return the quantisation errors of the layers, and what each contributes to the errors of the outputs.
    Return nothing without samples, or for a network that was quantised before."""
    if lowered.quantised is None or not samples:
        return (), ()
    progress("errors of layers")
    layers = layer_errors(lowered.quantised.roles.graph, lowered.quantised.graph, samples)
    return layers, contributions(lowered.quantised, samples)


def explain(source: Source, target: Target, write: Write, stop_after: str = "") -> None:
    """Write what each pass does to a network; see `vdla.compiler.graph.explain`.

    Raises:
        StoppedError: the pass `stop_after` has run; it holds the graph.
        GraphError: no pass of that name has run; and as `compile_network`.
    """
    explanation = Explanation(write, stop_after)
    loaded = imported(source, explanation.trace)
    lowered = integers_of(loaded.graph, loaded.samples, source.options, trace=explanation.trace)
    target_passes(target).run(lowered.graph, explanation.trace)
    explanation.check_stopped()


def imported(source: Source, trace: Trace = SILENT) -> Loaded:
    """Return the simplified graph of a model, or of a section of it, and samples that fit the graph.

    Raises:
        GraphError: it cannot be imported.
        InputError: the samples do not fit it.
    """
    loaded = load_with_samples(source.model, source.samples, source.shapes, source.section)
    return replace(loaded, graph=simplified(loaded.graph, source.samples is not None, trace))


def simplified(graph: Graph, calibrates: bool, trace: Trace = SILENT) -> Graph:
    """Return a graph after all passes that precede quantisation and lowering.

    Args:
        calibrates: samples are given, which fix the ranges of dynamically quantised tensors.
    """
    simple = SIMPLIFY.run(graph, trace)
    return FLOATS.run(_with_fixed_ranges(simple, trace) if calibrates else simple, trace)


def _with_fixed_ranges(simple: Graph, trace: Trace) -> Graph:
    """Return a float graph in place of a graph whose tensors are all quantised dynamically; return other
    graphs unchanged."""
    if all(node.op != DYNAMIC for node in simple.nodes):
        return simple
    fixed = Pipeline((FIX_RANGES,)).run(simple, trace)
    return simple if _quantised(fixed) else SIMPLIFY.run(fixed, trace)


def integer_graph(graph: Graph, samples: Samples | None = None, options: Options = OPTIONS) -> Graph:
    """Return a graph with integer operators wherever it is quantised, or can be quantised with `samples`."""
    return integers_of(simplified(graph, samples is not None), samples, options).graph


def integers_of(
    simple: Graph,
    samples: Samples | None,
    options: Options,
    progress: Progress = lambda text: None,
    trace: Trace = SILENT,
) -> Lowered:
    """Return a simplified graph with integer operators. A float graph is quantised with `samples`, unless
    none of its operators can run on the accelerator.

    Raises:
        GraphError: it is of floats, and no samples were given.
    """
    if _quantised(simple):
        cures = cures_in_file(simple, samples is not None)
        return Lowered(integer_passes(cures).run(simple, trace))
    if not has_quantisable(simple, sampled=samples is not None):
        helps = samples is None and has_quantisable(simple, sampled=True)
        return Lowered(integer_passes(GENERAL if helps else NOTHING_QUANTISED).run(simple, trace))
    if samples is None:
        raise GraphError(
            f"{simple.name} is a float network, and the accelerator computes with integers; give samples of "
            "its inputs for quantisation (--calibrate SAMPLES.npz), or a quantised model"
        )
    quantised = quantise(simple, list(samples), options, progress)
    in_float = (*quantised.in_float, *quantised.roles.in_float)
    cures = cures_here(in_float, (*quantised.fidelity.kept, *quantised.rows))
    return Lowered(integer_passes(cures).run(quantised.graph, trace), quantised)


def _quantised(graph: Graph) -> bool:
    return any(
        "QuantizeLinear" in node.op or node.op.startswith("QLinear") or node.op in PRODUCTS
        for node in graph.nodes
    )
