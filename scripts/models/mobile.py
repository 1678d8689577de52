"""Mobile classifiers of inverted residual blocks: MobileNetV2, MobileNetV3-small, EfficientNet-B0.

Sources: Sandler et al., MobileNetV2, CVPR 2018, table 2; Howard et al., Searching for MobileNetV3, ICCV 2019,
table 2; Tan and Le, EfficientNet, ICML 2019, table 1.
"""

from dataclasses import dataclass

from onnx import ModelProto

from models.graph import GraphBuilder
from models.layers import activation, classifier, projection, squeeze_excite, unit

CLASSES = 1000
V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
V3_SMALL = (  # kernel, wide, outputs, squeezes, activation, stride
    (3, 16, 16, True, "relu", 2),
    (3, 72, 24, False, "relu", 2),
    (3, 88, 24, False, "relu", 1),
    (5, 96, 40, True, "hardswish", 2),
    *((5, 240, 40, True, "hardswish", 1),) * 2,
    (5, 120, 48, True, "hardswish", 1),
    (5, 144, 48, True, "hardswish", 1),
    (5, 288, 96, True, "hardswish", 2),
    *((5, 576, 96, True, "hardswish", 1),) * 2,
)
B0 = (  # expansion, kernel, stride, outputs, repetitions
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


@dataclass(frozen=True, slots=True)
class Block:
    """An inverted residual block.

    Attributes:
        kernel, stride: of the depthwise convolution.
        wide: channels of the depthwise convolution.
        outputs: channels of the result.
        squeezed: channels inside squeeze-and-excitation; 0 without.
        kind: activation; `inner` inside squeeze-and-excitation, and `gate` at its end.
    """

    kernel: int
    stride: int
    wide: int
    outputs: int
    squeezed: int
    kind: str
    inner: str = "relu"
    gate: str = "HardSigmoid"


def mobilenet_v2(seed: int) -> ModelProto:
    """Return MobileNetV2: image float32[1, 3, 224, 224] to scores float32[1, 1000]."""
    graph = GraphBuilder("mobilenet_v2", seed)
    data, channels = unit(graph, graph.input("image", 1, 3, 224, 224), 3, 32, 3, stride=2, kind="relu6"), 32
    for expansion, outputs, repetitions, stride in V2:
        for number in range(repetitions):
            block = Block(3, 1 if number else stride, channels * expansion, outputs, 0, "relu6")
            data, channels = _inverted(graph, data, channels, block), outputs
    data = unit(graph, data, channels, 1280, 1, kind="relu6")
    return graph.finish(scores=classifier(graph, data, 1280, CLASSES))


def mobilenet_v3_small(seed: int) -> ModelProto:
    """Return MobileNetV3-small: image float32[1, 3, 224, 224] to scores float32[1, 1000]."""
    graph = GraphBuilder("mobilenet_v3_small", seed)
    data = unit(graph, graph.input("image", 1, 3, 224, 224), 3, 16, 3, stride=2, kind="hardswish")
    channels = 16
    for kernel, wide, outputs, squeezes, kind, stride in V3_SMALL:
        block = Block(kernel, stride, wide, outputs, _eighths(wide / 4) if squeezes else 0, kind)
        data, channels = _inverted(graph, data, channels, block), outputs
    data = unit(graph, data, channels, 576, 1, kind="hardswish")
    pooled = graph.node("Flatten", graph.node("GlobalAveragePool", data), axis=1)
    hidden = activation(graph, "hardswish", graph.dense(pooled, 576, 1024))
    return graph.finish(scores=graph.dense(hidden, 1024, CLASSES, gain=1))


def efficientnet_b0(seed: int) -> ModelProto:
    """Return EfficientNet-B0: image float32[1, 3, 224, 224] to scores float32[1, 1000]."""
    graph = GraphBuilder("efficientnet_b0", seed)
    data, channels = unit(graph, graph.input("image", 1, 3, 224, 224), 3, 32, 3, stride=2, kind="silu"), 32
    for expansion, kernel, stride, outputs, repetitions in B0:
        for number in range(repetitions):
            block = Block(
                kernel,
                1 if number else stride,
                channels * expansion,
                outputs,
                channels // 4,
                "silu",
                "silu",
                "Sigmoid",
            )
            data, channels = _inverted(graph, data, channels, block), outputs
    data = unit(graph, data, channels, 1280, 1, kind="silu")
    return graph.finish(scores=classifier(graph, data, 1280, CLASSES))


def _inverted(graph: GraphBuilder, data: str, channels: int, block: Block) -> str:
    """Widen, convolve by channels, squeeze and excite, narrow; add the input where the shapes agree."""
    wide = data if block.wide == channels else unit(graph, data, channels, block.wide, 1, kind=block.kind)
    wide = unit(
        graph,
        wide,
        block.wide,
        block.wide,
        block.kernel,
        stride=block.stride,
        groups=block.wide,
        kind=block.kind,
    )
    if block.squeezed:
        wide = squeeze_excite(graph, wide, block.wide, block.squeezed, block.inner, block.gate)
    adds = block.stride == 1 and channels == block.outputs
    narrow = projection(graph, wide, block.wide, block.outputs, small=adds)
    return graph.node("Add", data, narrow) if adds else narrow


def _eighths(width: float) -> int:
    """Return the multiple of eight next to a width, at least 90 % of it."""
    nearest = max(8, int(width + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * width else nearest
