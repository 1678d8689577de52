"""Networks with random weights whose activations have heavy tails, as in trained networks.

In trained transformers a few channels are tens of times larger than the others, and normalisation makes up
for part of it. In recognisers with SiLU-like activations single elements are far out.

Sources: Bondarenko et al., Understanding and overcoming the challenges of efficient transformer quantization,
EMNLP 2021; Dosovitskiy et al., An image is worth 16x16 words, ICLR 2021; Shi et al., An end-to-end trainable
neural network for image-based sequence recognition, TPAMI 2017; Howard et al., MobileNetV3, ICCV 2019.
"""

import numpy as np
from models.graph import GraphBuilder
from onnx import ModelProto

WIDTH, HEADS, LAYERS, PATCH, SIDE, CLASSES = 192, 3, 3, 8, 64, 100
TOKENS = (SIDE // PATCH) ** 2
HEAD_WIDTH = WIDTH // HEADS
FAR_CHANNELS, FAR = 4, 80.0
FREEDOM = 3  # degrees of Student's t
LINE_HEIGHT, LINE_WIDTH, SYMBOLS, SPECKS = 32, 192, 96, 2


def vision_transformer(seed: int) -> ModelProto:
    """Return a vision transformer of 3 layers: image float32[1, 3, 64, 64] to scores float32[1, 100]."""
    graph, random = GraphBuilder("vision_transformer", seed), np.random.default_rng(seed)
    image = graph.input("image", 1, 3, SIDE, SIDE)
    weights = _tailed(random, WIDTH, 3, PATCH, PATCH) / np.float32(np.sqrt(3 * PATCH * PATCH))
    patches = graph.node(
        "Conv",
        image,
        graph.constant(weights),
        graph.bias(WIDTH),
        kernel_shape=[PATCH] * 2,
        strides=[PATCH] * 2,
    )
    rows = _reshaped(graph, patches, 1, WIDTH, TOKENS)
    places = _tailed(random, 1, TOKENS, WIDTH) * 0.2
    far = random.choice(WIDTH, FAR_CHANNELS, replace=False)
    places[:, :, far] *= FAR
    stream = graph.node("Add", graph.node("Transpose", rows, perm=[0, 2, 1]), graph.constant(places))
    for _ in range(LAYERS):
        stream = graph.node("Add", stream, _attention(graph, random, _normalised(graph, random, stream, far)))
        stream = graph.node(
            "Add", stream, _widened(graph, random, _normalised(graph, random, stream, far), far)
        )
    mean = graph.node("ReduceMean", _normalised(graph, random, stream, far), axes=[1], keepdims=0)
    return graph.finish(scores=graph.dense(mean, WIDTH, CLASSES, gain=1))


def _normalised(graph: GraphBuilder, random: np.random.Generator, data: str, far: np.ndarray) -> str:
    scale = random.lognormal(0, 0.6, WIDTH).astype(np.float32)
    scale[far] *= 3
    return graph.node(
        "LayerNormalization", data, graph.constant(scale), graph.bias(WIDTH), axis=-1, epsilon=1e-6
    )


def _dense(
    graph: GraphBuilder,
    random: np.random.Generator,
    data: str,
    inputs: int,
    outputs: int,
    far: np.ndarray | None = None,
) -> str:
    weights = _tailed(random, inputs, outputs) / np.float32(np.sqrt(inputs))
    if far is not None:
        weights[:, far] *= FAR
    product = graph.node("MatMul", data, graph.constant(weights))
    return graph.node("Add", graph.bias(outputs), product)


def _attention(graph: GraphBuilder, random: np.random.Generator, data: str) -> str:
    query, key, value = (
        _heads(graph, _dense(graph, random, data, WIDTH, WIDTH), order)
        for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    )
    scale = graph.constant(np.array(HEAD_WIDTH**-0.5, np.float32))
    weights = graph.node("Softmax", graph.node("Mul", graph.node("MatMul", query, key), scale), axis=-1)
    mixed = graph.node("Transpose", graph.node("MatMul", weights, value), perm=[0, 2, 1, 3])
    return _dense(graph, random, _reshaped(graph, mixed, 1, TOKENS, WIDTH), WIDTH, WIDTH)


def _heads(graph: GraphBuilder, data: str, order: list[int]) -> str:
    return graph.node("Transpose", _reshaped(graph, data, 1, TOKENS, HEADS, HEAD_WIDTH), perm=order)


def _widened(graph: GraphBuilder, random: np.random.Generator, data: str, far: np.ndarray) -> str:
    wide = _dense(graph, random, data, WIDTH, 4 * WIDTH)
    half, unit, root_of_two = (
        graph.constant(np.array(value, np.float32)) for value in (0.5, 1.0, np.sqrt(2))
    )
    error = graph.node("Add", graph.node("Erf", graph.node("Div", wide, root_of_two)), unit)
    gelu = graph.node("Mul", graph.node("Mul", wide, error), half)
    return _dense(graph, random, gelu, 4 * WIDTH, WIDTH, far)


def recogniser(seed: int) -> ModelProto:
    """Return a recogniser of lines: line float32[1, 3, 32, 192] to symbols float32[1, 48, 96], which are
    probabilities for each place along the line."""
    graph, random = GraphBuilder("recogniser", seed), np.random.default_rng(seed)
    data, channels = graph.input("line", 1, 3, LINE_HEIGHT, LINE_WIDTH), 3
    for outputs, stride in (
        (16, (2, 2)),
        (32, (2, 1)),
        (32, (1, 1)),
        (64, (2, 2)),
        (64, (1, 1)),
        (96, (2, 1)),
    ):
        if channels > 3:
            data = _activated(graph, random, data, channels, channels, 3, stride, groups=channels)
            data = _squeezed(graph, random, data, channels)
            data = _activated(graph, random, data, channels, outputs, 1)
        else:
            data = _activated(graph, random, data, channels, outputs, 3, stride)
        channels = outputs
    data = graph.node("MaxPool", data, kernel_shape=[2, 1], strides=[2, 1])
    rows = graph.node("Transpose", _reshaped(graph, data, 1, channels, LINE_WIDTH // 4), perm=[0, 2, 1])
    hidden = graph.node("HardSwish", _dense(graph, random, rows, channels, 2 * channels))
    return graph.finish(symbols=_dense(graph, random, hidden, 2 * channels, SYMBOLS))


def _activated(
    graph: GraphBuilder,
    random: np.random.Generator,
    data: str,
    channels: int,
    outputs: int,
    kernel: int,
    strides: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> str:
    """Add a convolution, with the batch normalisation folded in, and HardSwish."""
    inside = channels // groups * kernel * kernel
    weights = _tailed(random, outputs, channels // groups, kernel, kernel) * np.float32(np.sqrt(2 / inside))
    weights *= random.lognormal(0, 0.5, (outputs, 1, 1, 1)).astype(np.float32)
    conv = graph.node(
        "Conv",
        data,
        graph.constant(weights),
        graph.bias(outputs),
        kernel_shape=[kernel] * 2,
        strides=list(strides),
        pads=[kernel // 2] * 4,
        group=groups,
    )
    return graph.node("HardSwish", conv)


def _squeezed(graph: GraphBuilder, random: np.random.Generator, data: str, channels: int) -> str:
    """Add squeeze and excitation."""
    mean = graph.node("GlobalAveragePool", data)
    narrow = graph.relu(graph.conv(mean, channels, channels // 4, 1, bias=True))
    gate = graph.node(
        "HardSigmoid", graph.conv(narrow, channels // 4, channels, 1, bias=True), alpha=0.2, beta=0.5
    )
    return graph.node("Mul", data, gate)


def _tailed(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Return random numbers with heavy tails, float32, of deviation 1."""
    return (random.standard_t(FREEDOM, shape) / np.sqrt(FREEDOM / (FREEDOM - 2))).astype(np.float32)


def _reshaped(graph: GraphBuilder, data: str, *shape: int) -> str:
    return graph.node("Reshape", data, graph.constant(np.array(shape, np.int64)))


def images(random: np.random.Generator) -> dict[str, np.ndarray]:
    """Return an image with structure: smooth patches and noise."""
    coarse = random.standard_normal((1, 3, 8, 8), np.float32)
    smooth = coarse.repeat(SIDE // 8, 2).repeat(SIDE // 8, 3)
    return {"image": smooth + 0.3 * random.standard_normal((1, 3, SIDE, SIDE), np.float32)}


def lines(random: np.random.Generator) -> dict[str, np.ndarray]:
    """Return a line: dark strokes on a bright ground, and a few specks far brighter than all else."""
    strokes = random.random((1, 1, LINE_HEIGHT // 4, LINE_WIDTH // 4)) < 0.3
    line = np.where(strokes.repeat(4, 2).repeat(4, 3), -1, 1).repeat(3, 1) + random.normal(
        0, 0.1, (1, 3, LINE_HEIGHT, LINE_WIDTH)
    )
    specks = random.integers(0, line.size, SPECKS)
    line.reshape(-1)[specks] *= 30
    return {"line": line.astype(np.float32)}
