"""Batch normalisations folded into the convolutions before them, as exports do."""

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

from models.names import names_read


def fold(model: ModelProto) -> None:
    """Take out every BatchNormalization behind a Conv that nothing else reads: its factors go into the
    weights, the rest into a bias."""
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    readers = [name for node in graph.node for name in node.input]
    values = {weight.name: numpy_helper.to_array(weight) for weight in graph.initializer}
    for node in [node for node in graph.node if node.op_type == "BatchNormalization"]:
        conv = makers.get(node.input[0])
        if conv is not None and conv.op_type == "Conv" and readers.count(conv.output[0]) == 1:
            _join(conv, node, values)
            graph.node.remove(node)
    used = names_read(graph)
    graph.ClearField("initializer")
    graph.ClearField("value_info")
    graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in values.items() if name in used
    )


def _join(conv: NodeProto, norm: NodeProto, values: dict[str, np.ndarray]) -> None:
    scale, shift, mean, variance = (values[name].astype(np.float64) for name in norm.input[1:])
    epsilon = next((attribute.f for attribute in norm.attribute if attribute.name == "epsilon"), 1e-5)
    factor = scale / np.sqrt(variance + epsilon)
    bias = values[conv.input[2]] if len(conv.input) > 2 else 0.0
    weight = values[conv.input[1]]
    by_output = factor.reshape(-1, *[1] * (weight.ndim - 1))
    values[conv.input[1]] = (weight * by_output).astype(np.float32)
    values[norm.input[1]] = ((bias - mean) * factor + shift).astype(np.float32)
    conv.input[:] = [*conv.input[:2], norm.input[1]]
    conv.output[:] = norm.output
