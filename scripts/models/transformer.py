"""One encoder layer of a transformer, on the tokens of one sentence.

Source: Vaswani et al., Attention Is All You Need, NIPS 2017, section 3; Gelu as in Devlin et al., BERT, NAACL
2019.
"""

import numpy as np
from onnx import ModelProto

from models.graph import GraphBuilder

TOKENS, WIDTH, HEADS = 128, 256, 4
HEAD_WIDTH = WIDTH // HEADS
OPSET_WITH_GELU = 20


def transformer(seed: int) -> ModelProto:
    """Return the layer: tokens float32[128, 256] to encoded float32[128, 256]."""
    graph = GraphBuilder("transformer", seed, OPSET_WITH_GELU)
    tokens = graph.input("tokens", TOKENS, WIDTH)
    attended = graph.layer_norm(graph.node("Add", tokens, _attention(graph, tokens)), WIDTH)
    widened = graph.node("Gelu", graph.dense(attended, WIDTH, 4 * WIDTH, gain=1))
    narrowed = graph.dense(widened, 4 * WIDTH, WIDTH)
    return graph.finish(encoded=graph.layer_norm(graph.node("Add", attended, narrowed), WIDTH))


def _attention(graph: GraphBuilder, tokens: str) -> str:
    query, key, value = (
        _heads(graph, graph.dense(tokens, WIDTH, WIDTH, gain=1), order)
        for order in ([1, 0, 2], [1, 2, 0], [1, 0, 2])
    )
    scale = graph.constant(np.array(HEAD_WIDTH**-0.5, np.float32))
    weights = graph.node("Softmax", graph.node("Mul", graph.node("MatMul", query, key), scale), axis=-1)
    mixed = graph.node("Transpose", graph.node("MatMul", weights, value), perm=[1, 0, 2])
    joined = graph.node("Reshape", mixed, graph.constant(np.array([TOKENS, WIDTH], np.int64)))
    return graph.dense(joined, WIDTH, WIDTH, gain=1)


def _heads(graph: GraphBuilder, data: str, order: list[int]) -> str:
    """Return float32[tokens, heads, head width], transposed to `order`."""
    shape = graph.constant(np.array([TOKENS, HEADS, HEAD_WIDTH], np.int64))
    return graph.node("Transpose", graph.node("Reshape", data, shape), perm=order)
