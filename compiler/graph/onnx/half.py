"""Widening of float16 and bfloat16 to float32 in a whole model.

Inputs become float32, which represents every float16. Outputs declared as float16 are converted back at the
end; bfloat16 outputs stay float32, as NumPy has no bfloat16.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    TensorProto,
    TypeProto,
    helper,
    numpy_helper,
)

from vdla.compiler.graph.nodes import TakenNames
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.subgraphs import defined_names, graphs_within, renamed
from vdla.compiler.graph.onnx.tensors import array_of

HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
TYPES = ("dtype", "output_datatype", "output_dtype", "precision", "softmax_precision", "stash_type", "to")
"""Attributes that name an element type."""
BITS = ("BitCast",)  # operators that depend on the bit representation of elements


def with_float32(proto: ModelProto, folder: Path | None) -> ModelProto:
    """Return a model with float32 in place of float16 and bfloat16.

    A model without these types, or with an operator of `BITS`, is returned unchanged.

    Args:
        folder: the folder of the model's external files.
    """
    operators = {node.op_type for graph in graphs_within(proto.graph) for node in graph.node}
    if next(_halves(proto.graph), None) is None or not operators.isdisjoint(BITS):
        return proto
    wide = ModelProto()
    wide.CopyFrom(proto)
    outputs = wide.graph.output
    narrow = [each.name for each in outputs if each.type.tensor_type.elem_type == TensorProto.FLOAT16]
    for part in list(_halves(wide.graph)):
        match part:
            case TensorProto():
                with suppress(RefusalError):  # the import refuses an unreadable constant later
                    wide_array = array_of(part, folder).astype(np.float32)
                    part.CopyFrom(numpy_helper.from_array(wide_array, part.name))
            case AttributeProto():
                part.i = TensorProto.FLOAT
            case TypeProto.Tensor():
                part.elem_type = TensorProto.FLOAT
    _narrow_outputs(wide.graph, narrow)
    return wide


def _halves(outermost: GraphProto) -> Iterator[TensorProto | AttributeProto | TypeProto.Tensor]:
    """Yield the constants, attributes and types of 16-bit floats in a graph and its subgraphs."""
    for graph in graphs_within(outermost):
        attributes = [each for node in graph.node for each in node.attribute]
        values = (*graph.input, *graph.output, *graph.value_info)
        for each in attributes:
            if each.name in TYPES and each.type == AttributeProto.INT and each.i in HALVES:
                yield each
        for tensor in (*graph.initializer, *(each.t for each in attributes)):
            if tensor.data_type in HALVES:
                yield tensor
        for type_ in (*(value.type for value in values), *(each.tp for each in attributes)):
            innermost = _tensor_type(type_)
            if innermost.elem_type in HALVES:
                yield innermost


def _tensor_type(type_: TypeProto) -> TypeProto.Tensor:
    """Return the type of a tensor, or of the tensors in a sequence or an optional value."""
    match type_.WhichOneof("value"):
        case "sequence_type":
            return _tensor_type(type_.sequence_type.elem_type)
        case "optional_type":
            return _tensor_type(type_.optional_type.elem_type)
    return type_.tensor_type


def _narrow_outputs(graph: GraphProto, names: list[str]) -> None:
    """Convert the outputs `names` back to float16 where nodes compute them."""
    results = {name for node in graph.node for name in node.output}
    taken = TakenNames(defined_names(graph))
    wide = {name: taken.take(f"{name}_float32") for name in names if name in results}
    nodes = [renamed(node, wide) for node in graph.node]
    for name, source in wide.items():
        cast = helper.make_node("Cast", [source], [name], f"{name} as float16", to=TensorProto.FLOAT16)
        nodes.append(cast)
    del graph.node[:]
    graph.node.extend(nodes)
    for value in graph.value_info:
        value.name = wide.get(value.name, value.name)
    for value in graph.output:
        if value.name in wide:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
