"""Import of a network from ONNX, with its samples."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.onnx.cut import cut, runtime_inputs
from vdla.compiler.graph.onnx.fixed import with_fixed
from vdla.compiler.graph.onnx.importer import Importer
from vdla.compiler.graph.onnx.inputs import inputs_of, matched
from vdla.compiler.graph.onnx.read import OnnxModel, read_model
from vdla.compiler.graph.passes.cleanup import DeadCode
from vdla.compiler.graph.source import WHOLE, ModelSource, Section
from vdla.compiler.graph.verify import verify
from vdla.runtime.module.plan import State
from vdla.runtime.samples.elements import of_type
from vdla.runtime.samples.fit import Fitted, fit
from vdla.runtime.samples.given import Given


@dataclass(frozen=True)
class Loaded:
    """An imported network.

    Attributes:
        graph: the network.
        samples: for each sample, an array of the declared type for each input; None if no samples were given.
    """

    graph: Graph
    samples: tuple[Mapping[str, np.ndarray], ...] | None = None


def load(
    source: ModelSource,
    shapes: Mapping[str, Sequence[int]] | None = None,
    section: Section = WHOLE,
) -> Graph:
    """Return the graph of a network; see `load_with_samples`."""
    return load_with_samples(source, None, shapes, section).graph


def load_with_samples(
    source: ModelSource,
    given: Given | None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    section: Section = WHOLE,
) -> Loaded:
    """Import a network, and fit samples to its inputs.

    Operators of operator sets 7 to the newest become operators of `vdla.runtime.host`. Values keep their
    names, except that characters that cannot be printed become "_", and long names are truncated.

    Args:
        source: a file, its bytes, or a model of the `onnx` package.
        given: samples, which also determine dynamic shapes. Samples without states are runs one after the
            other, with states of zero before the first.
        shapes: shapes in place of dynamic shapes, by the model's name of the input.
        section: the part of the model to import; the whole model by default.

    Raises:
        GraphError: the source is not a model, or cannot be imported. The message lists every invalid node,
            input and weight with the reason. Or a state is not there, or changes its type.
        InputError: the samples do not fit the inputs.
    """
    model = read_model(source)
    part, known = cut(
        *with_fixed(model, section, {name: tuple(shape) for name, shape in (shapes or {}).items()})
    )
    inputs = [value.name for value in runtime_inputs(part.proto.graph)]
    states = matched(section.states, inputs, [value.name for value in part.proto.graph.output])
    fitted = None if given is None else _fitted(given, model, part, known, section, states)
    graph = Importer(part, known if fitted is None else known | fitted.shapes).run()
    names = dict(zip(inputs, graph.inputs, strict=True))
    outputs = dict(zip((value.name for value in part.proto.graph.output), graph.outputs, strict=True))
    graph = with_states(graph, {names[name]: outputs[output] for name, output in states.items()})
    graph = DeadCode().run(graph)
    verify(graph)
    return Loaded(graph) if fitted is None else Loaded(graph, tuple(_samples(fitted, graph, names)))


def _fitted(
    given: Given,
    model: OnnxModel,
    part: OnnxModel,
    shapes: dict[str, tuple[int, ...]],
    section: Section,
    states: Mapping[str, str],
) -> Fitted | None:
    """Return the samples fitted to the inputs of a part of a model; they may contain other inputs, too.

    Samples that name no state are without states: they are runs one after the other.
    """
    inputs = inputs_of(part.proto.graph, shapes)
    if inputs is None:
        return None
    if not any(name in entry.named for entry in given.entries for name in states):
        inputs = {name: declared for name, declared in inputs.items() if name not in states}
    unfixed: dict[str, float | None] = {value.name: None for value in model.proto.graph.input}
    return fit(given, inputs, unfixed | dict(section.fixed))


def _samples(fitted: Fitted, graph: Graph, names: Mapping[str, str]) -> Iterable[Mapping[str, np.ndarray]]:
    """Return samples with the graph's names and types of its inputs, and with states before each run.

    Args:
        names: the graph's names of inputs, by the model's.
    """
    samples = [
        {
            names[name]: of_type(array, graph.types[names[name]].dtype, f"input {names[name]}")
            for name, array in sample.items()
        }
        for sample in fitted.samples
    ]
    return samples if graph.states.keys() <= samples[0].keys() else carried(graph, samples)


def with_states(graph: Graph, states: Mapping[str, str]) -> Graph:
    """Return a graph with states, each the name of an input with the name of an output.

    Raises:
        GraphError: an input and the output that it takes have different types.
    """
    for name, output in states.items():
        before, after = graph.types[name], graph.types[output]
        if before != after:
            raise GraphError(
                f"state {name} is {before}, and takes {output}, which is {after}; both must have one type: "
                "let the model make the state in the shape in which it reads it"
            )
    return replace(graph, states={name: State(output) for name, output in states.items()})


def carried(graph: Graph, samples: Iterable[Mapping[str, np.ndarray]]) -> Iterator[dict[str, np.ndarray]]:
    """Yield samples without states, run one after the other, with the states before each run.

    The states are zero before the first run.

    Args:
        graph: of floats; its states stand for the numbers that they hold.
    """
    states = {name: np.zeros(graph.types[name].shape, graph.types[name].dtype) for name in graph.states}
    for sample in samples:
        whole = {**sample, **states}
        yield whole
        outputs = interpret(graph, whole)
        states = {name: outputs[state.output] for name, state in graph.states.items()}
