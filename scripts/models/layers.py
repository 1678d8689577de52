"""Layers that several of the networks consist of."""

from models.graph import GraphBuilder


def activation(graph: GraphBuilder, kind: str, data: str) -> str:
    """Add an activation as exports write it: relu, relu6, silu, hardswish; `none` adds nothing."""
    match kind:
        case "none":
            return data
        case "relu":
            return graph.relu(data)
        case "relu6":
            return graph.node("Clip", data, graph.scalar(0), graph.scalar(6))
        case "silu":
            return graph.node("Mul", data, graph.node("Sigmoid", data))
        case "hardswish":
            return graph.node("HardSwish", data)
    raise ValueError(f"activation {kind} is none of none, relu, relu6, silu, hardswish")


def unit(
    graph: GraphBuilder,
    data: str,
    channels: int,
    outputs: int,
    kernel: int,
    *,
    stride: int = 1,
    groups: int = 1,
    kind: str = "relu",
) -> str:
    """Add Conv with padding, BatchNormalization and an activation."""
    convolved = graph.conv(data, channels, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups)
    return activation(graph, kind, graph.batch_norm(convolved, outputs))


def projection(
    graph: GraphBuilder, data: str, channels: int, outputs: int, kernel: int = 1, *, small: bool
) -> str:
    """Add Conv and BatchNormalization without activation; a `small` result is added to a shortcut, so that
    sums do not grow from block to block."""
    convolved = graph.conv(data, channels, outputs, kernel, padding=kernel // 2)
    return graph.batch_norm(convolved, outputs, deviation=0.4 if small else 1.0, mean=0.0)


def squeeze_excite(graph: GraphBuilder, data: str, channels: int, squeezed: int, kind: str, gate: str) -> str:
    """Add a squeeze-and-excitation block: a factor for each channel, made of the channels' means.

    Source: Hu et al., Squeeze-and-Excitation Networks, CVPR 2018, figure 2.

    Args:
        squeezed: channels between the two convolutions.
        kind: activation behind the first.
        gate: operator behind the second, Sigmoid or HardSigmoid.
    """
    pooled = graph.node("GlobalAveragePool", data)
    narrow = activation(graph, kind, graph.conv(pooled, channels, squeezed, 1, bias=True))
    wide = graph.conv(narrow, squeezed, channels, 1, bias=True)
    slope = {"alpha": 1 / 6, "beta": 0.5} if gate == "HardSigmoid" else {}
    return graph.node("Mul", data, graph.node(gate, wide, **slope))


def classifier(graph: GraphBuilder, data: str, channels: int, classes: int) -> str:
    """Add the mean of every channel and a dense layer: float32[1, classes]."""
    pooled = graph.node("Flatten", graph.node("GlobalAveragePool", data), axis=1)
    return graph.dense(pooled, channels, classes, gain=1)


def linear(graph: GraphBuilder, data: str, inputs: int, outputs: int, *, gain: float = 1.0) -> str:
    """Add MatMul and Add of float32[..., inputs], as exports write a dense layer on more than two
    dimensions."""
    weight = graph.weight(inputs, outputs, fan_in=inputs, gain=gain)
    return graph.node("Add", graph.node("MatMul", data, weight), graph.bias(outputs))


def gelu(graph: GraphBuilder, data: str) -> str:
    """Add a Gelu as exports of operator set 17 write it, with Erf."""
    erf = graph.node("Erf", graph.node("Div", data, graph.scalar(2**0.5)))
    return graph.node(
        "Mul", graph.node("Mul", data, graph.node("Add", erf, graph.scalar(1))), graph.scalar(0.5)
    )
