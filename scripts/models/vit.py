"""Three layers of ViT-Tiny for 224x224 images of 1,000 classes.

Source: Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021, section 3.1; the width is from
Touvron et al., DeiT, ICML 2021, table 1.
"""

import numpy as np
from onnx import ModelProto

from models.graph import GraphBuilder
from models.layers import gelu, linear

SIDE, PATCH, WIDTH, HEADS, LAYERS = 224, 16, 192, 3, 3
HEAD_WIDTH = WIDTH // HEADS
PATCHES = (SIDE // PATCH) ** 2
TOKENS = PATCHES + 1


def vit(seed: int) -> ModelProto:
    """Return the network: image float32[1, 3, 224, 224] to scores float32[1, 1000]."""
    graph = GraphBuilder("vit", seed)
    patches = graph.conv(graph.input("image", 1, 3, SIDE, SIDE), 3, WIDTH, PATCH, stride=PATCH, bias=True)
    rows = graph.node("Reshape", patches, graph.integers(1, WIDTH, PATCHES))
    tokens = graph.node(
        "Concat", graph.weight(1, 1, WIDTH, fan_in=1), graph.node("Transpose", rows, perm=[0, 2, 1]), axis=1
    )
    data = graph.node("Add", tokens, graph.weight(1, TOKENS, WIDTH, fan_in=4))
    for _ in range(LAYERS):
        data = graph.node("Add", data, _attention(graph, graph.layer_norm(data, WIDTH)))
        hidden = gelu(graph, linear(graph, graph.layer_norm(data, WIDTH), WIDTH, 4 * WIDTH))
        data = graph.node("Add", data, linear(graph, hidden, 4 * WIDTH, WIDTH))
    first = graph.node("Gather", graph.layer_norm(data, WIDTH), graph.constant(np.array(0, np.int64)), axis=1)
    return graph.finish(scores=graph.dense(first, WIDTH, 1000, gain=1))


def _attention(graph: GraphBuilder, data: str) -> str:
    """Add attention of all tokens to all: float32[1, tokens, width]."""
    mixed = linear(graph, data, WIDTH, 3 * WIDTH)
    heads = graph.node("Reshape", mixed, graph.integers(1, TOKENS, 3, HEADS, HEAD_WIDTH))
    heads = graph.node("Transpose", heads, perm=[2, 0, 3, 1, 4])
    query, key, value = (
        graph.node("Gather", heads, graph.constant(np.array(number, np.int64)), axis=0) for number in range(3)
    )
    scaled = graph.node("Mul", query, graph.scalar(HEAD_WIDTH**-0.5))
    scores = graph.node("MatMul", scaled, graph.node("Transpose", key, perm=[0, 1, 3, 2]))
    attended = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), value)
    joined = graph.node(
        "Reshape", graph.node("Transpose", attended, perm=[0, 2, 1, 3]), graph.integers(1, TOKENS, WIDTH)
    )
    return linear(graph, joined, WIDTH, WIDTH)
