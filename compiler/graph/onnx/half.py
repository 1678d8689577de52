"""Widening of float16 and bfloat16 to float32 in a whole model.

Inputs become float32, which represents every float16. Outputs declared as float16 are converted back at the
end; bfloat16 outputs stay float32, as NumPy has no bfloat16.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    helper,
    numpy_helper,
)

from vdla.compiler.graph.nodes import TakenNames
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.subgraphs import defined_names, nodes_within, renamed, subgraphs
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
    nodes = [inner for node in proto.graph.node for inner in nodes_within(node)]
    if not _has_halves(proto.graph) or any(node.op_type in BITS for node in nodes):
        return proto
    wide = ModelProto()
    wide.CopyFrom(proto)
    narrow = [value.name for value in wide.graph.output if _element_type(value.type) == TensorProto.FLOAT16]
    _widen(wide.graph, folder)
    _narrow_outputs(wide.graph, narrow)
    return wide


def _element_type(type_: TypeProto) -> int:
    return type_.tensor_type.elem_type


def _has_halves(graph: GraphProto) -> bool:
    """Whether a graph declares a 16-bit float type, has such a constant, or converts to such a type."""
    stated = (_element_type(value.type) for value in (*graph.input, *graph.output, *graph.value_info))
    if any(code in HALVES for code in (*stated, *(tensor.data_type for tensor in graph.initializer))):
        return True
    return any(_makes_halves(node) for node in graph.node)


def _makes_halves(node: NodeProto) -> bool:
    in_attributes = any(each.t.data_type in HALVES or _names_half(each) for each in node.attribute)
    return in_attributes or any(_has_halves(graph) for _, graph in subgraphs(node))


def _names_half(attribute: AttributeProto) -> bool:
    return attribute.name in TYPES and attribute.type == AttributeProto.INT and attribute.i in HALVES


def _widen(graph: GraphProto, folder: Path | None) -> None:
    """Widen all types and constants of a graph and its subgraphs."""
    for tensor in graph.initializer:
        _widen_tensor(tensor, folder)
    for value in (*graph.input, *graph.output, *graph.value_info):
        _widen_type(value.type)
    for node in graph.node:
        for attribute in node.attribute:
            _widen_attribute(attribute, folder)
        for _, inner in subgraphs(node):
            _widen(inner, folder)


def _widen_attribute(attribute: AttributeProto, folder: Path | None) -> None:
    if _names_half(attribute):
        attribute.i = TensorProto.FLOAT
    elif attribute.type == AttributeProto.TENSOR:
        _widen_tensor(attribute.t, folder)
    elif attribute.type == AttributeProto.TYPE_PROTO:
        _widen_type(attribute.tp)


def _widen_tensor(tensor: TensorProto, folder: Path | None) -> None:
    """Widen a constant; the import refuses an unreadable constant later."""
    if tensor.data_type not in HALVES:
        return
    try:
        wide = array_of(tensor, folder).astype(np.float32)
    except RefusalError:
        return
    tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


def _widen_type(type_: TypeProto) -> None:
    """Widen the element type of a tensor, a sequence or an optional value."""
    match type_.WhichOneof("value"):
        case "tensor_type" if _element_type(type_) in HALVES:
            type_.tensor_type.elem_type = TensorProto.FLOAT
        case "sequence_type":
            _widen_type(type_.sequence_type.elem_type)
        case "optional_type":
            _widen_type(type_.optional_type.elem_type)


def _narrow_outputs(graph: GraphProto, names: list[str]) -> None:
    """Convert the outputs `names` back to float16 where nodes compute them."""
    results = {name for node in graph.node for name in node.output}
    taken = TakenNames(defined_names(graph))
    wide = {name: taken.take(f"{name}_float32") for name in names if name in results}
    nodes = [renamed(node, wide) for node in graph.node] + list(_casts(wide))
    del graph.node[:]
    graph.node.extend(nodes)
    for value in graph.value_info:
        value.name = wide.get(value.name, value.name)
    for value in graph.output:
        if value.name in wide:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16


def _casts(wide: dict[str, str]) -> Iterator[NodeProto]:
    for name, source in wide.items():
        yield helper.make_node("Cast", [source], [name], f"{name} as float16", to=TensorProto.FLOAT16)
