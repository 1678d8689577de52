"""Export of graphs for other tools: the importer's forms as operators of one ONNX operator set."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    defs,
    helper,
    numpy_helper,
)

from vdla.compiler.graph.nodes import Graph, GraphError, Node, TakenNames, TensorType
from vdla.compiler.graph.onnx.simple import REDUCTIONS
from vdla.compiler.graph.onnx.unfold import unfolded
from vdla.runtime.host.onnx_runtime import PART

OPSET, IR_VERSION = 20, 9
AS_INPUTS = {  # attributes here, inputs there, from the second input on
    "Clip": ("min", "max"),
    "Expand": ("shape",),
    "Pad": ("pads", "value"),
    "Reshape": ("shape",),
    "Slice": ("starts", "ends", "axes", "steps"),
    "Split": ("split",),
    "Squeeze": ("axes",),
    "Tile": ("repeats",),
    "Unsqueeze": ("axes",),
    **dict.fromkeys(REDUCTIONS, ("axes",)),
}
OF_THE_ELEMENTS = ("max", "min", "value")  # inputs that have the type of the first one; others are int64


def export(graph: Graph) -> ModelProto:
    """Return a graph as a model of operator set `OPSET`, whose values have the graph's names; names of nodes
    that occur again get a number.

    Parts that onnxruntime runs become the nodes that they are made of.

    Raises:
        GraphError: an operator is not one of ONNX's, or an attribute has another form there; or the operators
            of a part are others in that set.
    """
    models = {node.inputs[0] for node in graph.nodes if node.op == PART}
    constants = {name: array for name, array in graph.constants.items() if name not in models}
    nodes: list[NodeProto] = []
    tensors: list[TensorProto] = []
    opsets, taken = {"": OPSET}, TakenNames(graph.types)
    for node in graph.nodes:
        if node.op == PART:
            part = unfolded(node, graph.constants[node.inputs[0]].tobytes(), OPSET, taken)
            nodes += part.nodes
            tensors += part.constants
            opsets |= part.opsets
        else:
            nodes.append(_node(graph, node, constants, taken))
    weights = [*(numpy_helper.from_array(array, name) for name, array in constants.items()), *tensors]
    inputs, outputs = (
        [_value(name, graph.types[name]) for name in names] for names in (graph.inputs, graph.outputs)
    )
    _name_apart(nodes)
    body = helper.make_graph(nodes, graph.name, inputs, outputs, weights)
    versions = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(body, opset_imports=versions, ir_version=IR_VERSION)


def _name_apart(nodes: list[NodeProto]) -> None:
    """Give other names to nodes that have one that another node has: onnxruntime refuses them."""
    taken = TakenNames()
    for node in nodes:
        if node.name:
            node.name = taken.take(node.name)


def _node(graph: Graph, node: Node, constants: dict[str, np.ndarray], taken: TakenNames) -> NodeProto:
    """Return a node; what is an input in ONNX is added to `constants`, and its name to `taken`."""
    if node.op == "Resize":
        return _resize(graph, node, constants, taken)
    if not defs.has(node.op, OPSET, ""):
        raise GraphError(f"{node} cannot be exported: operator set {OPSET} of ONNX has no operator {node.op}")
    inputs, moved = list(node.inputs), AS_INPUTS.get(node.op, ())
    for name in moved:
        inputs.append(taken.take(f"{node.outputs[0]}_{name}"))
        dtype = graph.types[node.inputs[0]].dtype if name in OF_THE_ELEMENTS else "int64"
        constants[inputs[-1]] = np.array(node.attributes[name], dtype)
    made = helper.make_node(node.op, inputs, _outputs(node, taken), node.name)
    made.attribute.extend(_attributes(node, moved))
    return made


def _outputs(node: Node, taken: TakenNames) -> tuple[str, ...]:
    """Return what a node makes; a Split names also the parts that nothing reads."""
    if node.op != "Split":
        return node.outputs
    found = [*node.outputs, *[""] * (len(node.extents("split")) - len(node.outputs))]
    unread = f"{next(filter(None, found))}_unread"
    return tuple(name or taken.take(f"{unread}_{place}") for place, name in enumerate(found))


def _resize(graph: Graph, node: Node, constants: dict[str, np.ndarray], taken: TakenNames) -> NodeProto:
    """Return a Resize, which is by scales where these give its sizes, else to its sizes."""
    values: dict[str, Any] = dict(node.attributes)
    scales, sizes = (np.array(values.pop(name), dtype) for name, dtype in (("scales", "f4"), ("sizes", "i8")))
    by_scales = np.array_equal(np.floor(np.array(graph.types[node.inputs[0]].shape) * scales), sizes)
    name = taken.take(f"{node.outputs[0]}_extents")
    constants[name] = scales if by_scales else sizes
    inputs = [node.inputs[0], "", name] if by_scales else [node.inputs[0], "", "", name]
    return helper.make_node("Resize", inputs, node.outputs, node.name, mode="nearest", **values)


def _attributes(node: Node, moved: tuple[str, ...]) -> Iterator[AttributeProto]:
    known = defs.get_schema(node.op, OPSET, "").attributes
    for name, value in node.attributes.items():
        if name in moved:
            continue
        if name not in known:
            raise GraphError(f"{node} cannot be exported: {node.op} of ONNX has no attribute {name}")
        yield helper.make_attribute(
            name, _element_type(str(value)) if node.op == "Cast" else value, attr_type=known[name].type.value
        )


def _element_type(dtype: str) -> TensorProto.DataType:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def _value(name: str, type_: TensorType) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, _element_type(type_.dtype), type_.shape)
