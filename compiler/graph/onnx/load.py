"""Importing a network from ONNX."""

import os
from collections.abc import Mapping, Sequence

from onnx import ModelProto

from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.onnx.importer import Importer
from vdla.compiler.graph.onnx.read import read_model
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.verify import verify


def load(
    source: str | os.PathLike[str] | bytes | ModelProto, shapes: Mapping[str, Sequence[int]] | None = None
) -> Graph:
    """Import a network.

    Every version of the operator sets 9 to the newest comes out in one form: that of `vdla.runtime.host`.
    Values keep their names; what cannot be printed of them becomes "_", and long ones are cut.

    Args:
        source: a file, its bytes, or a model of the `onnx` package.
        shapes: of inputs whose own are dynamic, by the model's name.

    Raises:
        GraphError: this is no model, or it cannot be imported: the message lists every node, input and weight
            at fault, with the reason.
    """
    model = read_model(source)
    graph = DeadCode().run(
        Importer(model, {name: tuple(shape) for name, shape in (shapes or {}).items()}).run()
    )
    verify(graph)
    return graph
