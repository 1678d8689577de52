"""ConvNeXt-Atto for 224x224 images of 1,000 classes.

Source: Liu et al., A ConvNet for the 2020s, CVPR 2022, figure 4; the widths of the smallest network are from
Wightman, timm, 2022.
"""

import numpy as np
from onnx import ModelProto

from models.graph import GraphBuilder
from models.layers import gelu, linear

STAGES = ((40, 2), (80, 2), (160, 6), (320, 2))  # width, blocks


def convnext(seed: int) -> ModelProto:
    """Return the network: image float32[1, 3, 224, 224] to scores float32[1, 1000]."""
    graph = GraphBuilder("convnext", seed)
    data, channels = graph.input("image", 1, 3, 224, 224), 3
    for number, (width, blocks) in enumerate(STAGES):
        data = _norm(graph, data, channels) if number else data
        side = 2 if number else 4
        data, channels = graph.conv(data, channels, width, side, stride=side, bias=True), width
        data = data if number else _norm(graph, data, width)
        for _ in range(blocks):
            data = _block(graph, data, width)
    pooled = graph.node("Flatten", graph.node("GlobalAveragePool", data), axis=1)
    return graph.finish(scores=graph.dense(graph.layer_norm(pooled, channels), channels, 1000, gain=1))


def _norm(graph: GraphBuilder, data: str, channels: int) -> str:
    """Normalise the channels of every pixel."""
    last = graph.node("Transpose", data, perm=[0, 2, 3, 1])
    return graph.node("Transpose", graph.layer_norm(last, channels), perm=[0, 3, 1, 2])


def _block(graph: GraphBuilder, data: str, width: int) -> str:
    spread = graph.conv(data, width, width, 7, padding=3, groups=width, bias=True)
    last = graph.layer_norm(graph.node("Transpose", spread, perm=[0, 2, 3, 1]), width)
    inner = linear(graph, gelu(graph, linear(graph, last, width, 4 * width)), 4 * width, width)
    scale = graph.constant(np.full(width, 0.3, np.float32))
    return graph.node(
        "Add", data, graph.node("Transpose", graph.node("Mul", inner, scale), perm=[0, 3, 1, 2])
    )
