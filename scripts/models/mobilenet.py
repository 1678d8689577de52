"""MobileNet-v1 for 224x224 images of 1,000 classes.

Source: Howard et al., MobileNets, arXiv:1704.04861, table 1.
"""

from onnx import ModelProto

from models.graph import GraphBuilder

BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)  # output channels, stride


def mobilenet(seed: int) -> ModelProto:
    """Return MobileNet-v1: image float32[1, 3, 224, 224] to probabilities float32[1, 1000]."""
    graph = GraphBuilder("mobilenet", seed)
    data, channels = _unit(graph, graph.input("image", 1, 3, 224, 224), 3, 32, 3, 2), 32
    for outputs, stride in BLOCKS:
        depthwise = _unit(graph, data, channels, channels, 3, stride, groups=channels)
        data, channels = _unit(graph, depthwise, channels, outputs, 1, 1), outputs
    pooled = graph.node("Flatten", graph.node("GlobalAveragePool", data), axis=1)
    scores = graph.dense(pooled, channels, 1000, gain=1)
    return graph.finish(probabilities=graph.node("Softmax", scores, axis=-1))


def _unit(
    graph: GraphBuilder, data: str, channels: int, outputs: int, kernel: int, stride: int, groups: int = 1
) -> str:
    """Add Conv, BatchNormalization and Relu."""
    convolved = graph.conv(data, channels, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups)
    return graph.relu(graph.batch_norm(convolved, outputs))
