"""CRNN, a recogniser of text: convolutions, two bidirectional LSTMs, a dense layer for each column.

Source: Shi et al., An End-to-End Trainable Neural Network for Image-based Sequence Recognition, TPAMI 2017,
table 1.
"""

import numpy as np
from onnx import ModelProto

from models.graph import GraphBuilder
from models.layers import linear

HEIGHT, WIDTH, UNITS, SYMBOLS = 32, 100, 256, 37
COLUMNS = 24  # of the last convolution
LAYERS = (  # outputs, kernel, normalised, pooling behind it
    (64, 3, False, (2, 2)),
    (128, 3, False, (2, 2)),
    (256, 3, False, None),
    (256, 3, False, (2, 1)),
    (512, 3, True, None),
    (512, 3, True, (2, 1)),
    (512, 2, False, None),
)


def crnn(seed: int) -> ModelProto:
    """Return the network: line float32[1, 1, 32, 100] to scores float32[24, 1, 37] of symbols by columns."""
    graph = GraphBuilder("crnn", seed)
    data, channels = graph.input("line", 1, 1, HEIGHT, WIDTH), 1
    for outputs, kernel, normalised, pooling in LAYERS:
        data = graph.conv(data, channels, outputs, kernel, padding=kernel // 3, bias=not normalised)
        data, channels = graph.relu(graph.batch_norm(data, outputs) if normalised else data), outputs
        if pooling:
            data = graph.node("MaxPool", data, kernel_shape=list(pooling), strides=list(pooling))
    columns = graph.node("Transpose", graph.node("Squeeze", data, graph.integers(2)), perm=[2, 0, 1])
    for inputs in (channels, 2 * UNITS):
        columns = _lstm(graph, columns, inputs)
    return graph.finish(scores=linear(graph, columns, 2 * UNITS, SYMBOLS))


def _lstm(graph: GraphBuilder, data: str, inputs: int) -> str:
    """Add an LSTM in both directions: float32[columns, 1, 2 * units]."""
    weights = [graph.weight(2, 4 * UNITS, width, fan_in=width, gain=1) for width in (inputs, UNITS)]
    bias = graph.constant(np.zeros((2, 8 * UNITS), np.float32))
    both = graph.node("LSTM", data, *weights, bias, hidden_size=UNITS, direction="bidirectional")
    return graph.node(
        "Reshape", graph.node("Transpose", both, perm=[0, 2, 1, 3]), graph.integers(COLUMNS, 1, 2 * UNITS)
    )
