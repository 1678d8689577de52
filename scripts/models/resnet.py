"""ResNet-18 and ResNet-50 for 224x224 images of 1,000 classes.

Source: He et al., Deep Residual Learning for Image Recognition, CVPR 2016, table 1; the stride of a
bottleneck is in its 3x3 convolution.
"""

from collections.abc import Callable

from onnx import ModelProto

from models.graph import GraphBuilder

Block = Callable[[GraphBuilder, str, int, int, int], str]
STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # width of the 3x3 convolutions, stride of the first block


def resnet18(seed: int) -> ModelProto:
    """Return ResNet-18: image float32[1, 3, 224, 224] to probabilities float32[1, 1000]."""
    return _resnet("resnet18", seed, _basic_block, 1, (2, 2, 2, 2))


def resnet50(seed: int) -> ModelProto:
    """Return ResNet-50: image float32[1, 3, 224, 224] to probabilities float32[1, 1000]."""
    return _resnet("resnet50", seed, _bottleneck, 4, (3, 4, 6, 3))


def _resnet(name: str, seed: int, block: Block, expansion: int, depths: tuple[int, ...]) -> ModelProto:
    graph = GraphBuilder(name, seed)
    data = graph.relu(_normed(graph, graph.input("image", 1, 3, 224, 224), 3, 64, 7, 2))
    data, channels = graph.node("MaxPool", data, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for (width, stride), depth in zip(STAGES, depths, strict=True):
        for number in range(depth):
            data, channels = block(graph, data, channels, width, 1 if number else stride), expansion * width
    pooled = graph.node("Flatten", graph.node("GlobalAveragePool", data), axis=1)
    scores = graph.dense(pooled, channels, 1000, gain=1)
    return graph.finish(probabilities=graph.node("Softmax", scores, axis=-1))


def _normed(graph: GraphBuilder, data: str, channels: int, outputs: int, kernel: int, stride: int = 1) -> str:
    """Add Conv and BatchNormalization."""
    return graph.batch_norm(
        graph.conv(data, channels, outputs, kernel, stride=stride, padding=kernel // 2), outputs
    )


def _residual(graph: GraphBuilder, data: str, channels: int, outputs: int, kernel: int) -> str:
    """Add Conv and BatchNormalization, small beside the block's input, so that sums do not grow from block to
    block."""
    return graph.batch_norm(
        graph.conv(data, channels, outputs, kernel, padding=kernel // 2), outputs, deviation=0.4, mean=0.0
    )


def _basic_block(graph: GraphBuilder, data: str, channels: int, width: int, stride: int) -> str:
    first = graph.relu(_normed(graph, data, channels, width, 3, stride))
    return _joined(graph, data, _residual(graph, first, width, width, 3), channels, width, stride)


def _bottleneck(graph: GraphBuilder, data: str, channels: int, width: int, stride: int) -> str:
    narrow = graph.relu(_normed(graph, data, channels, width, 1))
    middle = graph.relu(_normed(graph, narrow, width, width, 3, stride))
    return _joined(graph, data, _residual(graph, middle, width, 4 * width, 1), channels, 4 * width, stride)


def _joined(graph: GraphBuilder, data: str, residual: str, channels: int, outputs: int, stride: int) -> str:
    """Add the block's input, projected where its shape differs."""
    projects = stride > 1 or channels != outputs
    shortcut = _normed(graph, data, channels, outputs, 1, stride) if projects else data
    return graph.relu(graph.node("Add", residual, shortcut))
