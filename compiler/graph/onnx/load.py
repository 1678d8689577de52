"""Importing a network from ONNX."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.onnx.cut import cut
from vdla.compiler.graph.onnx.fixed import with_fixed
from vdla.compiler.graph.onnx.importer import Importer
from vdla.compiler.graph.onnx.inputs import inputs_of
from vdla.compiler.graph.onnx.read import Model, read_model
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.section import WHOLE, Section
from vdla.compiler.graph.source import ModelSource
from vdla.compiler.graph.verify import verify
from vdla.runtime.samples.elements import of_type
from vdla.runtime.samples.fit import Fitted, fit
from vdla.runtime.samples.given import Given


@dataclass(frozen=True)
class Loaded:
    """An imported network.

    Attributes:
        samples: an array for each of its inputs, of the input's type, for each sample; None where none were
            given.
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
    """Import a network, and fit samples to it.

    Every version of the operator sets 7 to the newest comes out in one form: that of `vdla.runtime.host`.
    Values keep their names; what cannot be printed of them becomes "_", and long ones are cut.

    Args:
        source: a file, its bytes, or a model of the `onnx` package.
        given: samples, which also tell the shapes of inputs whose own are open.
        shapes: of inputs whose own are open, by the model's name.
        section: which part of the model; all of it by default.

    Raises:
        GraphError: this is no model, or it cannot be imported: the message lists every node, input and weight
            at fault, with the reason.
        InputError: the samples do not fit its inputs.
    """
    model = read_model(source)
    part, known = cut(
        *with_fixed(model, section, {name: tuple(shape) for name, shape in (shapes or {}).items()})
    )
    fitted = None if given is None else _fitted(given, model, part, known, section)
    graph = DeadCode().run(Importer(part, known if fitted is None else known | fitted.shapes).run())
    verify(graph)
    return Loaded(graph) if fitted is None else Loaded(graph, _samples(fitted, graph))


def _fitted(
    given: Given, model: Model, part: Model, shapes: dict[str, tuple[int, ...]], section: Section
) -> Fitted | None:
    """Return samples that fit the inputs of a part of a model. They may hold the model's other inputs, "
    "too."""
    inputs = inputs_of(part.proto.graph, shapes)
    others: dict[str, float | None] = {value.name: None for value in model.proto.graph.input}
    return None if inputs is None else fit(given, inputs, others | dict(section.fixed))


def _samples(fitted: Fitted, graph: Graph) -> tuple[Mapping[str, np.ndarray], ...]:
    """Return samples by the graph's names of its inputs, whose order is the model's, and of the graph's "
    "types."""
    return tuple(
        {
            name: of_type(array, type_.dtype, f"input {name}")
            for (name, type_), array in zip(graph.inputs.items(), sample.values(), strict=True)
        }
        for sample in fitted.samples
    )
