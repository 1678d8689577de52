"""Importing a network from ONNX."""

import os
from collections.abc import Mapping, Sequence

from onnx import ModelProto

from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.onnx.cut import cut
from vdla.compiler.graph.onnx.fixed import with_fixed
from vdla.compiler.graph.onnx.importer import Importer
from vdla.compiler.graph.onnx.read import read_model
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.section import WHOLE, Section
from vdla.compiler.graph.verify import verify


def load(
    source: str | os.PathLike[str] | bytes | ModelProto,
    shapes: Mapping[str, Sequence[int]] | None = None,
    section: Section = WHOLE,
) -> Graph:
    """Import a network.

    Every version of the operator sets 7 to the newest comes out in one form: that of `vdla.runtime.host`.
    Values keep their names; what cannot be printed of them becomes "_", and long ones are cut.

    Args:
        source: a file, its bytes, or a model of the `onnx` package.
        shapes: of inputs whose own are dynamic, by the model's name.
        section: which part of the model; all of it by default.

    Raises:
        GraphError: this is no model, or it cannot be imported: the message lists every node, input and weight
            at fault, with the reason.
    """
    given = {name: tuple(shape) for name, shape in (shapes or {}).items()}
    graph = DeadCode().run(Importer(*cut(*with_fixed(read_model(source), section, given))).run())
    verify(graph)
    return graph
