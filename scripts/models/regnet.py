"""RegNetY-400MF for 224x224 images of 1,000 classes.

Source: Radosavovic et al., Designing Network Design Spaces, CVPR 2020, figure 4 and table 1: 16 blocks,
groups of 8 channels.
"""

from onnx import ModelProto

from models.graph import GraphBuilder
from models.layers import classifier, projection, squeeze_excite, unit

GROUP_WIDTH = 8
STAGES = ((48, 1), (104, 3), (208, 6), (440, 6))  # width, blocks


def regnet_y(seed: int) -> ModelProto:
    """Return RegNetY-400MF: image float32[1, 3, 224, 224] to scores float32[1, 1000]."""
    graph = GraphBuilder("regnet_y", seed)
    data, channels = unit(graph, graph.input("image", 1, 3, 224, 224), 3, 32, 3, stride=2), 32
    for width, blocks in STAGES:
        for number in range(blocks):
            data, channels = _block(graph, data, channels, width, 1 if number else 2), width
    return graph.finish(scores=classifier(graph, data, channels, 1000))


def _block(graph: GraphBuilder, data: str, channels: int, width: int, stride: int) -> str:
    """Add a bottleneck without narrowing: 1x1, 3x3 in groups, squeeze-and-excitation, 1x1."""
    inner = unit(graph, data, channels, width, 1)
    inner = unit(graph, inner, width, width, 3, stride=stride, groups=width // GROUP_WIDTH)
    inner = squeeze_excite(graph, inner, width, round(channels / 4), "relu", "Sigmoid")
    shortcut = (
        data if channels == width else unit(graph, data, channels, width, 1, stride=stride, kind="none")
    )
    return graph.relu(graph.node("Add", shortcut, projection(graph, inner, width, width, small=True)))
