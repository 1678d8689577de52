"""A classifier with an early exit, which an If takes where the first scores are clear.

Source: Teerapittayanon et al., BranchyNet, ICPR 2016, figure 2: AlexNet for 32x32 images, one exit.
"""

from onnx import ModelProto

from models.graph import GraphBuilder
from models.layers import classifier, unit

CLASSES, CLEAR = 10, 0.9


def branchy(seed: int) -> ModelProto:
    """Return the network: image float32[1, 3, 32, 32] to scores float32[1, 10]."""
    graph = GraphBuilder("branchy", seed)
    trunk = _pooled(graph, unit(graph, graph.input("image", 1, 3, 32, 32), 3, 32, 5))
    early = classifier(graph, unit(graph, trunk, 32, 32, 3), 32, CLASSES)
    likely = graph.node("ReduceMax", graph.node("Softmax", early, axis=-1), keepdims=0)
    clear = graph.node("Greater", likely, graph.scalar(CLEAR))
    deep = unit(graph, _pooled(graph, unit(graph, trunk, 32, 64, 5)), 64, 96, 3)
    return graph.finish(
        scores=graph.node(
            "If",
            clear,
            then_branch=graph.branch(lambda: graph.node("Identity", early)),
            else_branch=graph.branch(lambda: _late(graph, deep)),
        )
    )


def _late(graph: GraphBuilder, data: str) -> str:
    return classifier(graph, graph.relu(graph.conv(data, 96, 64, 3, padding=1, bias=True)), 64, CLASSES)


def _pooled(graph: GraphBuilder, data: str) -> str:
    return graph.node("MaxPool", data, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
