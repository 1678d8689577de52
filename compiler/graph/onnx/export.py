"""Export of graphs for other tools: the importer's forms as operators of one ONNX operator set."""

from collections.abc import Iterator

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

from vdla.compiler.graph.nodes import Graph, GraphError, Node, TensorType, fresh_name
from vdla.compiler.graph.onnx.simple import REDUCTIONS

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
    """Return a graph as a model of operator set `OPSET`, whose values have the graph's names.

    Raises:
        GraphError: an operator is not one of ONNX's, or an attribute has another form there.
    """
    constants = dict(graph.constants)
    nodes = [_node(graph, node, constants) for node in graph.nodes]
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    inputs, outputs = (
        [_value(name, graph.types[name]) for name in names] for names in (graph.inputs, graph.outputs)
    )
    body = helper.make_graph(nodes, graph.name, inputs, outputs, weights)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def _node(graph: Graph, node: Node, constants: dict[str, np.ndarray]) -> NodeProto:
    """Return a node; what is an input in ONNX is added to `constants`."""
    if not defs.has(node.op, OPSET, ""):
        raise GraphError(f"{node} cannot be exported: operator set {OPSET} of ONNX has no operator {node.op}")
    inputs, moved = list(node.inputs), AS_INPUTS.get(node.op, ())
    for name in moved:
        inputs.append(fresh_name(f"{node.outputs[0]}_{name}", {*graph.types, *constants}))
        dtype = graph.types[node.inputs[0]].dtype if name in OF_THE_ELEMENTS else "int64"
        constants[inputs[-1]] = np.array(node.attributes[name], dtype)
    made = helper.make_node(node.op, inputs, node.outputs, node.name)
    made.attribute.extend(_attributes(node, moved))
    return made


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
