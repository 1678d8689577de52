"""A detector like YOLOv8n for 320x320 images of 80 classes, with the decoding of its boxes.

Source: Jocher et al., Ultralytics YOLOv8, 2023, yolov8.yaml at depth 0.33 and width 0.25; SPPF is the spatial
pyramid of He et al., ECCV 2014, by three poolings in a row.
"""

import numpy as np
from onnx import ModelProto

from models.graph import GraphBuilder
from models.layers import unit

SIDE, CLASSES, BINS = 320, 80, 16
STRIDES = (8, 16, 32)
BOX_WIDTH, CLASS_WIDTH = 64, 80


def yolo(seed: int) -> ModelProto:
    """Return the detector: image float32[1, 3, 320, 320] to boxes and scores of classes, float32[1, 84,
    2100]."""
    graph = GraphBuilder("yolo", seed)
    levels = _neck(graph, *_backbone(graph, graph.input("image", 1, 3, SIDE, SIDE)))
    heads = [_head(graph, *level, SIDE // stride) for level, stride in zip(levels, STRIDES, strict=True)]
    joined = graph.node("Concat", *heads, axis=2)
    boxes, classes = graph.nodes("Split", 2, joined, graph.integers(4 * BINS, CLASSES), axis=1)
    return graph.finish(
        detections=graph.node("Concat", _decoded(graph, boxes), graph.node("Sigmoid", classes), axis=1)
    )


def _silu(graph: GraphBuilder, data: str, channels: int, outputs: int, kernel: int, stride: int = 1) -> str:
    return unit(graph, data, channels, outputs, kernel, stride=stride, kind="silu")


def _backbone(graph: GraphBuilder, image: str) -> tuple[str, str, str]:
    """Return features of 64, 128 and 256 channels, at an eighth, a sixteenth and a 32nd of the side."""
    data, channels, features = _silu(graph, image, 3, 16, 3, 2), 16, []
    for outputs, depth in ((32, 1), (64, 2), (128, 2), (256, 1)):
        data = _c2f(graph, _silu(graph, data, channels, outputs, 3, 2), outputs, outputs, depth, adds=True)
        channels = outputs
        features.append(data)
    return features[1], features[2], _sppf(graph, data, channels)


def _neck(graph: GraphBuilder, fine: str, middle: str, coarse: str) -> tuple[tuple[str, int], ...]:
    """Return the mixed features of the three levels, and their channels."""
    down = _c2f(graph, graph.node("Concat", _twice(graph, coarse), middle, axis=1), 384, 128, 1)
    first = _c2f(graph, graph.node("Concat", _twice(graph, down), fine, axis=1), 192, 64, 1)
    up = graph.node("Concat", _silu(graph, first, 64, 64, 3, 2), down, axis=1)
    second = _c2f(graph, up, 192, 128, 1)
    top = graph.node("Concat", _silu(graph, second, 128, 128, 3, 2), coarse, axis=1)
    return (first, 64), (second, 128), (_c2f(graph, top, 384, 256, 1), 256)


def _c2f(graph: GraphBuilder, data: str, channels: int, outputs: int, depth: int, adds: bool = False) -> str:
    """Add a partial stage: half of the channels passes, every bottleneck's result is kept beside it."""
    half = outputs // 2
    parts = list(
        graph.nodes("Split", 2, _silu(graph, data, channels, outputs, 1), graph.integers(half, half), axis=1)
    )
    for _ in range(depth):
        inner = _silu(graph, _silu(graph, parts[-1], half, half, 3), half, half, 3)
        parts.append(graph.node("Add", parts[-1], inner) if adds else inner)
    return _silu(graph, graph.node("Concat", *parts, axis=1), half * len(parts), outputs, 1)


def _sppf(graph: GraphBuilder, data: str, channels: int) -> str:
    parts = [_silu(graph, data, channels, channels // 2, 1)]
    for _ in range(3):
        parts.append(graph.node("MaxPool", parts[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
    return _silu(graph, graph.node("Concat", *parts, axis=1), 2 * channels, channels, 1)


def _twice(graph: GraphBuilder, data: str) -> str:
    scales = graph.constant(np.array([1, 1, 2, 2], np.float32))
    return graph.node(
        "Resize",
        data,
        "",
        scales,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def _head(graph: GraphBuilder, data: str, channels: int, side: int) -> str:
    """Return box distributions and class scores of a level, float32[1, 144, side * side]."""
    parts = [
        graph.conv(
            _silu(graph, _silu(graph, data, channels, width, 3), width, width, 3),
            width,
            outputs,
            1,
            bias=True,
        )
        for width, outputs in ((BOX_WIDTH, 4 * BINS), (CLASS_WIDTH, CLASSES))
    ]
    joined = graph.node("Concat", *parts, axis=1)
    return graph.node("Reshape", joined, graph.integers(1, 4 * BINS + CLASSES, side * side))


def _decoded(graph: GraphBuilder, boxes: str) -> str:
    """Return centres and sizes in pixels, float32[1, 4, anchors], of distributions over distances."""
    anchors, strides = _anchors()
    centres = graph.constant(anchors)
    bins = graph.node("Reshape", boxes, graph.integers(1, 4, BINS, anchors.shape[-1]))
    weights = graph.node("Softmax", graph.node("Transpose", bins, perm=[0, 2, 1, 3]), axis=1)
    places = graph.constant(np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1))
    expected = graph.node("Conv", weights, places, kernel_shape=[1, 1])
    distances = graph.node("Reshape", expected, graph.integers(1, 4, anchors.shape[-1]))
    before, after = graph.nodes("Split", 2, distances, graph.integers(2, 2), axis=1)
    low = graph.node("Sub", centres, before)
    high = graph.node("Add", centres, after)
    centre = graph.node("Div", graph.node("Add", low, high), graph.scalar(2))
    box = graph.node("Concat", centre, graph.node("Sub", high, low), axis=1)
    return graph.node("Mul", box, graph.constant(strides))


def _anchors() -> tuple[np.ndarray, np.ndarray]:
    """Return centres of cells, float32[1, 2, anchors], and strides, float32[1, anchors]."""
    centres, strides = [], []
    for stride in STRIDES:
        places = np.arange(SIDE // stride, dtype=np.float32) + 0.5
        y, x = np.meshgrid(places, places, indexing="ij")
        centres.append(np.stack([x.ravel(), y.ravel()]))
        strides.append(np.full(x.size, stride, np.float32))
    return np.concatenate(centres, axis=1)[None], np.concatenate(strides)[None]
