"""A U-Net for 128x128 images, half as wide as the published network and with padding.

Source: Ronneberger et al., U-Net, MICCAI 2015, figure 1.
"""

from onnx import ModelProto

from models.graph import GraphBuilder
from models.layers import unit

SIDE, CLASSES = 128, 2
WIDTHS = (32, 64, 128, 256, 512)


def unet(seed: int) -> ModelProto:
    """Return the network: image float32[1, 3, 128, 128] to scores float32[1, 2, 128, 128]."""
    graph = GraphBuilder("unet", seed)
    data, channels, kept = graph.input("image", 1, 3, SIDE, SIDE), 3, []
    for width in WIDTHS:
        if kept:
            data = graph.node("MaxPool", data, kernel_shape=[2, 2], strides=[2, 2])
        data, channels = _double(graph, data, channels, width), width
        kept.append(data)
    for width, skipped in zip(reversed(WIDTHS[:-1]), reversed(kept[:-1]), strict=True):
        wider = graph.conv_transpose(data, channels, width, 2, stride=2, bias=True)
        data = _double(graph, graph.node("Concat", skipped, wider, axis=1), 2 * width, width)
        channels = width
    return graph.finish(scores=graph.conv(data, channels, CLASSES, 1, bias=True))


def _double(graph: GraphBuilder, data: str, channels: int, outputs: int) -> str:
    return unit(graph, unit(graph, data, channels, outputs, 3), outputs, outputs, 3)
