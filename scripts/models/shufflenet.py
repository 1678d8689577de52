"""ShuffleNetV2 1.0 for 224x224 images of 1,000 classes.

Source: Ma et al., ShuffleNet V2, ECCV 2018, table 5 and figure 3.
"""

from onnx import ModelProto

from models.graph import GraphBuilder
from models.layers import classifier, unit

STAGES = ((116, 4, 28), (232, 8, 14), (464, 4, 7))  # channels, blocks, side of the result


def shufflenet_v2(seed: int) -> ModelProto:
    """Return ShuffleNetV2: image float32[1, 3, 224, 224] to scores float32[1, 1000]."""
    graph = GraphBuilder("shufflenet_v2", seed)
    data, channels = unit(graph, graph.input("image", 1, 3, 224, 224), 3, 24, 3, stride=2), 24
    data = graph.node("MaxPool", data, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for outputs, blocks, side in STAGES:
        for number in range(blocks):
            data = (
                _basic(graph, data, outputs, side) if number else _down(graph, data, channels, outputs, side)
            )
        channels = outputs
    data = unit(graph, data, channels, 1024, 1)
    return graph.finish(scores=classifier(graph, data, 1024, 1000))


def _basic(graph: GraphBuilder, data: str, channels: int, side: int) -> str:
    """Pass half of the channels on, convolve the others, shuffle."""
    half = channels // 2
    kept, worked = graph.nodes("Split", 2, data, graph.integers(half, half), axis=1)
    joined = graph.node("Concat", kept, _branch(graph, worked, half, half, 1), axis=1)
    return _shuffled(graph, joined, channels, side)


def _down(graph: GraphBuilder, data: str, channels: int, outputs: int, side: int) -> str:
    """Halve height and width in both branches, shuffle."""
    half = outputs // 2
    shortcut = _by_channel(graph, data, channels, 2)
    joined = graph.node(
        "Concat",
        unit(graph, shortcut, channels, half, 1),
        _branch(graph, data, channels, half, 2),
        axis=1,
    )
    return _shuffled(graph, joined, outputs, side)


def _branch(graph: GraphBuilder, data: str, channels: int, outputs: int, stride: int) -> str:
    narrow = unit(graph, data, channels, outputs, 1)
    return unit(graph, _by_channel(graph, narrow, outputs, stride), outputs, outputs, 1)


def _by_channel(graph: GraphBuilder, data: str, channels: int, stride: int) -> str:
    return unit(graph, data, channels, channels, 3, stride=stride, groups=channels, kind="none")


def _shuffled(graph: GraphBuilder, data: str, channels: int, side: int) -> str:
    """Interleave the two halves of the channels."""
    halves = graph.node("Reshape", data, graph.integers(1, 2, channels // 2, side, side))
    mixed = graph.node("Transpose", halves, perm=[0, 2, 1, 3, 4])
    return graph.node("Reshape", mixed, graph.integers(1, channels, side, side))
