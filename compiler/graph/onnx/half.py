"""float16 and bfloat16 become float32: weights, inputs and everything between, as the kit computes.

The inputs of such a network are float32, which holds every float16. Outputs that the file states as float16
are converted back at the end; bfloat16 outputs stay float32, as NumPy has no bfloat16.
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
from vdla.compiler.graph.onnx.subgraphs import nodes_within, own_names, renamed, subgraphs
from vdla.compiler.graph.onnx.tensors import array_of

HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
TYPES = ("dtype", "output_datatype", "output_dtype", "precision", "softmax_precision", "stash_type", "to")
"""Attributes that name a type of elements."""
BITS = ("BitCast",)  # operators to which the bits of a type are more than its numbers


def widened(proto: ModelProto, folder: Path | None) -> ModelProto:
    """Return a model with float32 for float16 and bfloat16; one without them, or that looks at their bits, as
    it is.

    Args:
        folder: where files with its data are.
    """
    nodes = [inner for node in proto.graph.node for inner in nodes_within(node)]
    if not _has_halves(proto.graph) or any(node.op_type in BITS for node in nodes):
        return proto
    made = ModelProto()
    made.CopyFrom(proto)
    narrow = [one.name for one in made.graph.output if _code(one.type) == TensorProto.FLOAT16]
    _widen(made.graph, folder)
    _narrow_outputs(made.graph, narrow)
    return made


def _code(type_: TypeProto) -> int:
    return type_.tensor_type.elem_type


def _has_halves(graph: GraphProto) -> bool:
    """Whether a graph states such a type, has such a constant, or converts to such a type."""
    stated = (_code(one.type) for one in (*graph.input, *graph.output, *graph.value_info))
    if any(code in HALVES for code in (*stated, *(tensor.data_type for tensor in graph.initializer))):
        return True
    return any(_makes_halves(node) for node in graph.node)


def _makes_halves(node: NodeProto) -> bool:
    own = any(one.t.data_type in HALVES or _names_half(one) for one in node.attribute)
    return own or any(_has_halves(graph) for _, graph in subgraphs(node))


def _names_half(attribute: AttributeProto) -> bool:
    return attribute.name in TYPES and attribute.type == AttributeProto.INT and attribute.i in HALVES


def _widen(graph: GraphProto, folder: Path | None) -> None:
    """Change all types and constants of a graph and its subgraphs."""
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
    """Change a constant; one that cannot be read stays, and is refused where it is imported."""
    if tensor.data_type not in HALVES:
        return
    try:
        wide = array_of(tensor, folder).astype(np.float32)
    except RefusalError:
        return
    tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


def _widen_type(type_: TypeProto) -> None:
    """Change the type of a tensor, or of what a sequence or an optional value holds."""
    match type_.WhichOneof("value"):
        case "tensor_type" if _code(type_) in HALVES:
            type_.tensor_type.elem_type = TensorProto.FLOAT
        case "sequence_type":
            _widen_type(type_.sequence_type.elem_type)
        case "optional_type":
            _widen_type(type_.optional_type.elem_type)


def _narrow_outputs(graph: GraphProto, names: list[str]) -> None:
    """Convert outputs back to float16 that nodes make."""
    made = {name for node in graph.node for name in node.output}
    taken = TakenNames(own_names(graph))
    wide = {name: taken.take(f"{name}_float32") for name in names if name in made}
    nodes = [renamed(node, wide) for node in graph.node] + list(_casts(wide))
    del graph.node[:]
    graph.node.extend(nodes)
    for value in graph.value_info:
        value.name = wide.get(value.name, value.name)
    for value in graph.output:
        if value.name in wide:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16


def _casts(wide: dict[str, str]) -> Iterator[NodeProto]:
    for name, own in wide.items():
        yield helper.make_node("Cast", [own], [name], f"{name} as float16", to=TensorProto.FLOAT16)
