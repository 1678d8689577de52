"""A decoder as an ONNX model of one step, with the keys and values of earlier steps as its state.

The operators are those that torch exports for a Llama: RMSNorm in pieces, and rotary embeddings as Slice,
Neg, Concat and Mul. Attention is two batched products for each block.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from models.graph import GraphBuilder
from onnx import ModelProto, TensorProto

from accuracy.decoder import EPSILON, MASKED, Sizes
from accuracy.layers import Weights


@dataclass(frozen=True)
class Places:
    """Names of the values of a position that all blocks take.

    Attributes:
        mask: float32[1, 1, 1, context], which is added to scores.
        cosines, sines: of the rotary angles, float32[1, 1, 1, head_size].
    """

    mask: str
    cosines: str
    sines: str


def step_model(sizes: Sizes, weights: Sequence[Weights]) -> ModelProto:
    """Return the model of one step.

    Its state rolls: the newest key and value come last, and the oldest leave. A step at position p attends to
    the last p + 1 places, at most `context`. At position 0 the step thus ignores its state.

    Inputs:
        token: int64[1, 1], a symbol.
        position: int64[1, 1], at most sizes.positions - 1; one more than that of the step before.
        past_key_<block>, past_value_<block>: float32[1, heads, context, head_size].

    Outputs:
        logits: float32[1, 1, symbols], the scores of the symbols that may come next.
        present_key_<block>, present_value_<block>: as the inputs; the inputs of the next step.
    """
    symbols, *blocks, scores = weights
    graph = GraphBuilder("language_model", 0)
    token, position = (graph.input(name, 1, 1, element=TensorProto.INT64) for name in ("token", "position"))
    places = _places(graph, sizes, position)
    rows = graph.node("Gather", graph.constant(symbols[0]), token, axis=0)
    outputs = {}
    for number, parts in enumerate(blocks):
        state = (1, sizes.heads, sizes.context, sizes.head_size)
        past = tuple(graph.input(f"past_{part}_{number}", *state) for part in ("key", "value"))
        rows, present = _block(graph, sizes, parts, rows, places, past)
        outputs |= {
            f"present_{part}_{number}": name for part, name in zip(("key", "value"), present, strict=True)
        }
    scale, matrix = scores
    logits = _product(graph, _normalised(graph, rows, scale), matrix)
    return graph.finish(logits=logits, **outputs)


def _places(graph: GraphBuilder, sizes: Sizes, position: str) -> Places:
    """Add the mask of a position, and its rotary angles."""
    numbers = graph.constant(np.arange(sizes.context).reshape(1, 1, 1, -1))
    last = graph.node("Add", numbers, position)
    empty = graph.node("Less", last, graph.constant(np.array(sizes.context - 1)))
    mask = graph.node("Where", empty, graph.scalar(MASKED), graph.scalar(0))
    angles = (graph.node("Gather", graph.constant(table), position, axis=0) for table in sizes.angles())
    cosines, sines = (graph.node("Unsqueeze", each, graph.integers(1)) for each in angles)
    return Places(mask, cosines, sines)


def _block(
    graph: GraphBuilder, sizes: Sizes, parts: Weights, rows: str, places: Places, past: tuple[str, ...]
) -> tuple[str, list[str]]:
    """Add a block; return its rows, float32[1, 1, width], and its keys and values, as in the state."""
    scale, query, key, value, result, gated_scale, gate, up, down = parts
    inputs = _normalised(graph, rows, scale)
    queries = _rotated(graph, sizes, _by_head(graph, sizes, _product(graph, inputs, query)), places)
    keys = _rotated(graph, sizes, _by_head(graph, sizes, _product(graph, inputs, key)), places)
    values = _by_head(graph, sizes, _product(graph, inputs, value))
    present = [_rolled(graph, *each) for each in zip(past, (keys, values), strict=True)]
    attended = _attention(graph, sizes, queries, present, places.mask)
    rows = graph.node("Add", rows, _product(graph, attended, result))
    inputs = _normalised(graph, rows, gated_scale)
    gated = _product(graph, inputs, gate)
    gated = graph.node("Mul", gated, graph.node("Sigmoid", gated))
    gated = graph.node("Mul", gated, _product(graph, inputs, up))
    return graph.node("Add", rows, _product(graph, gated, down)), present


def _product(graph: GraphBuilder, data: str, matrix: np.ndarray) -> str:
    """Add MatMul by a constant float32[inputs, outputs]."""
    return graph.node("MatMul", data, graph.constant(matrix))


def _normalised(graph: GraphBuilder, rows: str, scale: np.ndarray) -> str:
    """Add RMSNorm of float32[1, 1, width]."""
    squares = graph.node("Pow", rows, graph.scalar(2))
    mean = graph.node("ReduceMean", squares, axes=[-1], keepdims=1)
    root = graph.node("Sqrt", graph.node("Add", mean, graph.scalar(EPSILON)))
    units = graph.node("Mul", rows, graph.node("Div", graph.scalar(1), root))
    return graph.node("Mul", units, graph.constant(scale))


def _by_head(graph: GraphBuilder, sizes: Sizes, rows: str) -> str:
    """Add what turns float32[1, 1, heads * head_size] into float32[1, heads, 1, head_size]."""
    heads = graph.node("Reshape", rows, graph.integers(1, 1, -1, sizes.head_size))
    return graph.node("Transpose", heads, perm=[0, 2, 1, 3])


def _rotated(graph: GraphBuilder, sizes: Sizes, heads: str, places: Places) -> str:
    """Add rotary embeddings to float32[1, heads, 1, head_size]."""
    half = sizes.head_size // 2
    lower = _slice(graph, heads, 0, half, axis=3)
    upper = _slice(graph, heads, half, sizes.head_size, axis=3)
    turned = graph.node("Concat", graph.node("Neg", upper), lower, axis=3)
    return graph.node(
        "Add", graph.node("Mul", heads, places.cosines), graph.node("Mul", turned, places.sines)
    )


def _rolled(graph: GraphBuilder, past: str, new: str) -> str:
    """Add what appends float32[1, heads, 1, head_size] to the places of a state, and drops the oldest."""
    longest = np.iinfo(np.int64).max
    return _slice(graph, graph.node("Concat", past, new, axis=2), 1, longest, axis=2)


def _slice(graph: GraphBuilder, data: str, begin: int, end: int, axis: int) -> str:
    """Add Slice along an axis."""
    return graph.node("Slice", data, *(graph.integers(each) for each in (begin, end, axis)))


def _attention(graph: GraphBuilder, sizes: Sizes, queries: str, present: list[str], mask: str) -> str:
    """Add attention: the query heads of a group are rows of one product with the group's keys.

    Args:
        queries: float32[1, query_heads, 1, head_size].
        present: keys and values, float32[1, heads, context, head_size] each.
        mask: float32[1, 1, 1, context].

    Returns:
        float32[1, 1, query_heads * head_size].
    """
    keys, values = present
    grouped = graph.node("Reshape", queries, graph.integers(1, sizes.heads, -1, sizes.head_size))
    scores = graph.node("MatMul", grouped, graph.node("Transpose", keys, perm=[0, 1, 3, 2]))
    scaled = graph.node("Mul", scores, graph.scalar(sizes.head_size**-0.5))
    weights = graph.node("Softmax", graph.node("Add", scaled, mask), axis=-1)
    return graph.node("Reshape", graph.node("MatMul", weights, values), graph.integers(1, 1, -1))
