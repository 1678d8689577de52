"""Expansion of ONNX Runtime's attentions and their rotary embedding into ONNX operators.

`MultiHeadAttention(query, key, value)` becomes `MatMul(Softmax(MatMul(q * scale, kᵀ) + masks), v)` for each
head. `Attention` and `QAttention` first project a tensor to queries, keys and values; `GroupQueryAttention`
first rotates queries and keys, and several heads of queries share heads of keys and values.

Source: ONNX Runtime, ContribOperators.md; `onnxruntime/contrib_ops/cpu/bert`. ONNX, Operators.md
(RotaryEmbedding).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from onnx import TensorProto

from vdla.compiler.graph.onnx.call import ForeignNode, ForeignOperator, RefusalError

LOWEST = float(np.finfo(np.float32).min)  # what is added to a masked score


@dataclass(frozen=True, slots=True)
class Heads:
    """Queries, keys or values of all heads.

    Attributes:
        name: of the value, float32[batch, heads, rows, width].
        heads, rows, width: its extents.
    """

    name: str
    heads: int
    rows: int
    width: int


def _of_rows(node: ForeignNode, name: str, batch: int, rows: int, wide: int, heads: int) -> Heads:
    """Return the heads of rows: float32[batch, rows, heads * width]."""
    if wide % heads:
        raise RefusalError(f"it has {heads} heads, which do not divide the width {wide} of {name!r}")
    apart = node.shaped(name, batch, rows, heads, wide // heads)
    return Heads(node.add("Transpose", apart, perm=(0, 2, 1, 3)), heads, rows, wide // heads)


def _cached(node: ForeignNode, place: int, new: Heads, output: int) -> Heads:
    """Return keys or values after the rows of their cache, if there is a cache; they are an output, too.

    Args:
        place: of the cache among the inputs.
        output: place among the outputs.
    """
    out, past = node.output(output), node.input(place)
    if not past:
        return Heads(node.add("Identity", new.name, out=out), new.heads, new.rows, new.width) if out else new
    joined = node.add("Concat", past, new.name, out=out, axis=2)
    return Heads(joined, new.heads, new.rows + node.input_type(place).shape[2], new.width)


def _repeated(node: ForeignNode, shared: Heads, batch: int, heads: int) -> Heads:
    """Return keys or values for `heads` heads of queries, several of which share a head."""
    if heads == shared.heads:
        return shared
    whole = (batch, shared.heads, heads // shared.heads, shared.rows, shared.width)
    apart = node.unsqueezed(shared.name, 2)
    wide = node.add("Expand", apart, node.constant(np.array(whole, np.int64)))
    name = node.shaped(wide, batch, heads, shared.rows, shared.width)
    return Heads(name, heads, shared.rows, shared.width)


def _attend(
    node: ForeignNode, batch: int, q: Heads, k: Heads, v: Heads, masks: Sequence[str], scale: float
) -> None:
    """Add the attention as the result of the node.

    Args:
        masks: values that are added to the scores, float32[batch, heads, queries, keys] or broadcast.
        scale: factor of the scores; 0 for the inverse root of the width.
    """
    queries = node.add("Mul", q.name, scale or q.width**-0.5)
    scores = node.add("MatMul", queries, node.add("Transpose", k.name, perm=(0, 1, 3, 2)))
    for mask in masks:
        scores = node.add("Add", scores, mask)
    result = node.add("MatMul", node.add("Softmax", scores, axis=-1), v.name)
    joined = node.add("Transpose", result, perm=(0, 2, 1, 3))
    node.shaped(joined, batch, q.rows, q.heads * v.width)


def _causal(node: ForeignNode, queries: int, keys: int) -> str:
    """Add the mask of keys that come after a query; the last query has the place of the last key."""
    later = np.arange(keys) > np.arange(keys - queries, keys)[:, None]
    return node.constant(np.where(later, LOWEST, 0).astype(np.float32))


def _padding(node: ForeignNode, place: int, keys: int) -> list[str]:
    """Add the mask of padding, if the node has a mask.

    Args:
        place: of the input: int32[batch] numbers of keys, int32[batch, keys] or int32[batch, queries, keys],
            0 where a key is masked.
    """
    name = node.input(place)
    if not name:
        return []
    shape, batch = node.input_type(place).shape, node.shape[0]
    if shape == (batch,):
        kept = node.add("Less", node.constant(np.arange(keys, dtype=np.int32)), node.unsqueezed(name, 1))
    elif shape[-1] == keys and shape[0] == batch and len(shape) in (2, 3):
        kept = node.add("Cast", name, to=TensorProto.BOOL)
    else:
        raise RefusalError(
            f"its mask {name!r} of the shape {shape} is not supported; [{batch}], [{batch}, {keys}] and "
            f"[{batch}, queries, {keys}] are"
        )
    added = node.add("Where", kept, 0.0, node.attribute("mask_filter_value", float, -10000.0))
    return [node.unsqueezed(added, 1) if len(shape) == 3 else node.unsqueezed(added, 1, 2)]


def _masks(node: ForeignNode, padding: int, bias: str, queries: int, keys: int) -> list[str]:
    """Add the masks of scores.

    Args:
        padding: place of the input that masks padding.
        bias: name of the input that is added to the scores; "" if there is none.
    """
    masks = _padding(node, padding, keys)
    masks += [_causal(node, queries, keys)] if node.integer("unidirectional", 0) else []
    return [*masks, bias] if bias else masks


def _require_no_inputs(node: ForeignNode, **places: int) -> None:
    """Refuse a node with inputs of these names."""
    for role, place in places.items():
        if node.input(place):
            raise RefusalError(f"its input {place} ({role}, {node.input(place)!r}) is not supported")


def _multi_head(node: ForeignNode) -> None:
    """MultiHeadAttention of separate queries, keys and values: float32[batch, rows, heads * width] each."""
    _require_no_inputs(node, past_sequence_length=8, cache_indirection=9)
    if any(not node.input(place) or len(node.input_type(place).shape) != 3 for place in range(3)):
        raise RefusalError("queries, keys and values must be separate tensors of three dimensions")
    if node.output(3):
        raise RefusalError("its output qk is not supported; leave it out")
    heads, parts, begin = node.integer("num_heads"), [], 0
    for place in range(3):
        batch, rows, wide = node.input_type(place).shape
        name = node.input(place)
        if node.input(3):
            name = node.add("Add", name, node.sliced(node.input(3), 0, begin, begin + wide))
        begin += wide
        parts.append(_of_rows(node, name, batch, rows, wide, heads))
    q, k, v = parts
    k, v = _cached(node, 6, k, 1), _cached(node, 7, v, 2)
    masks = _masks(node, 4, node.input(5), q.rows, k.rows)
    _attend(node, batch, q, k, v, masks, node.attribute("scale", float, 0.0))


def _projected(
    node: ForeignNode, x: str, weights: Callable[[int, int], str], padding_and_bias: tuple[int, str]
) -> None:
    """Add an attention of queries, keys and values that are projected from `x`.

    Args:
        weights: returns the weights of columns `begin` to `end - 1`.
        padding_and_bias: as `_masks` takes them.
    """
    batch, rows, _ = node.shape
    sizes = node.extents("qkv_hidden_sizes", (node.input_type(1).shape[1] // 3,) * 3)
    parts, ends = [], [0, *accumulate(sizes)]
    for begin, end in pairwise(ends):
        name = node.add("MatMul", x, weights(begin, end))
        if node.input(2):
            name = node.add("Add", name, node.sliced(node.input(2), 0, begin, end))
        parts.append(_of_rows(node, name, batch, rows, end - begin, node.integer("num_heads")))
    masks = _masks(node, *padding_and_bias, rows, rows)
    q, k, v = parts
    _attend(node, batch, q, k, v, masks, node.attribute("scale", float, 0.0))


def _attention(node: ForeignNode) -> None:
    """Attention: the weights hold the columns of queries, keys and values."""
    _require_no_inputs(node, past=4, past_sequence_length=6)
    node.require("do_rotary", 0)
    weights = node.known(1, "weights")
    _projected(
        node,
        node.input(0),
        lambda begin, end: node.constant(weights[:, begin:end].copy()),
        (3, node.input(5)),
    )


def _quantised_attention(node: ForeignNode) -> None:
    """QAttention: int8 or uint8 inputs and weights; weights have one scale, or a scale for each column."""
    _require_no_inputs(node, past=8)
    node.require("do_rotary", 0)
    integers, scale = node.known(1, "weight"), node.known(4, "weight_scale")
    zero = node.known(7, "weight_zero_point") if node.input(7) else np.zeros((), integers.dtype)

    def weights(begin: int, end: int) -> str:
        parts = (array if array.size == 1 else array[begin:end] for array in (scale, zero))
        arrays = (array.reshape(()) if array.size == 1 else array for array in parts)
        columns = integers[:, begin:end].copy()
        return node.add("DequantizeLinear", *map(node.constant, (columns, *arrays)), axis=1)

    x = node.add("DequantizeLinear", node.input(0), node.input(3), node.input(6))
    _projected(node, x, weights, (5, ""))


def _angles(node: ForeignNode, places: tuple[int, int], positions: str, axis: int) -> tuple[str, str]:
    """Return the cosines and the sines of positions, with a dimension for the heads.

    Args:
        places: of the caches among the inputs: float32[positions, width / 2], or without `positions`
            float32[batch, rows, width / 2].
        axis: of the heads.
    """
    cosines, sines = (
        node.unsqueezed(node.add("Gather", node.input(at), positions) if positions else node.input(at), axis)
        for at in places
    )
    return cosines, sines


def _rotated(node: ForeignNode, x: str, shape: Sequence[int], width: int, angles: tuple[str, str]) -> str:
    """Add the rotation of pairs among the first `width` elements of each head; return its name.

    Args:
        shape: of `x`, four extents, whose last is the width of a head.
        angles: cosines and sines, broadcast over the heads.
    """
    cosines, sines = angles
    rest = [node.sliced(x, 3, width, shape[3])] if width < shape[3] else []
    turned = node.sliced(x, 3, 0, width) if rest else x
    pairs = node.integer("interleaved", 0) or node.integer("rotary_interleaved", 0)
    if pairs:
        apart = node.shaped(turned, *shape[:3], width // 2, 2)
        halves = [node.shaped(node.sliced(apart, 4, at, at + 1), *shape[:3], width // 2) for at in (0, 1)]
    else:
        halves = [node.sliced(turned, 3, begin, begin + width // 2) for begin in (0, width // 2)]
    left, right = halves
    real = node.add("Sub", node.add("Mul", cosines, left), node.add("Mul", sines, right))
    imaginary = node.add("Add", node.add("Mul", sines, left), node.add("Mul", cosines, right))
    if pairs:
        both = node.add("Concat", *(node.unsqueezed(part, 4) for part in (real, imaginary)), axis=4)
        results = [node.shaped(both, *shape[:3], width)]
    else:
        results = [real, imaginary]
    return node.add("Concat", *results, *rest, axis=3) if len(results + rest) > 1 else results[0]


def _embedding(caches: tuple[int, int], positions: int) -> Callable[[ForeignNode], None]:
    """Return the expansion of a RotaryEmbedding with its inputs at these places."""

    def expand(node: ForeignNode) -> None:
        node.require("is_packed_batching", 0)
        node.require("scale", 1.0)
        shape, name = node.shape, node.input(positions)
        cached = node.input_type(caches[0]).shape[-1]
        whole = shape
        if len(shape) == 3:
            heads = node.integer("num_heads", 0) or shape[2] // (2 * cached)
            whole = (*shape[:2], heads, shape[2] // heads)
        width = node.integer("rotary_embedding_dim", 0) or whole[3]
        if 2 * cached != width:
            raise RefusalError(f"its caches have {cached} angles, and {width // 2} pairs are rotated")
        if name and node.input_type(positions).shape != (shape[0], whole[1 if len(shape) == 3 else 2]):
            raise RefusalError("position_ids must hold a position for each row")
        x = node.shaped(node.input(0), *whole) if len(shape) == 3 else node.input(0)
        angles = _angles(node, caches, name, 2 if len(shape) == 3 else 1)
        node.shaped(_rotated(node, x, whole, width, angles), *shape)

    return expand


def _positions(node: ForeignNode, past: int, rows: int) -> str:
    """Return the positions of new rows: the input's positions, or the numbers after the cached rows.

    Raises:
        RefusalError: the lengths are not constant, or a cache is longer than the rows that it holds.
    """
    lengths = node.known(5, "seqlens_k")
    if (lengths != past + rows - 1).any():
        raise RefusalError(
            f"its input 5 (seqlens_k) is {lengths.ravel().tolist()}; caches of {past} rows and {rows} new "
            f"rows need {past + rows - 1}"
        )
    whole = np.broadcast_to(np.arange(past, past + rows), (node.shape[0], rows))
    return node.input(9) or node.constant(np.ascontiguousarray(whole, np.int64))


ONLY = {
    "local_window_size": -1,
    "softcap": 0.0,
    "smooth_softmax": 0,
    "qk_output": 0,
    "sliding_window_cache": 0,
    "kv_cache_bit_width": 0,
    "causal": 1,
}
"""Attributes of GroupQueryAttention with the only supported value, which is the default."""


def _grouped_query(node: ForeignNode) -> None:
    """GroupQueryAttention of separate queries, keys and values, with constant lengths."""
    _require_no_inputs(node, head_sink=11, k_scale=12, v_scale=13, q_norm_weight=14, k_norm_weight=15)
    for name, value in ONLY.items():
        node.require(name, value)
    if not node.input(1) or node.output(3):
        raise RefusalError("packed queries, keys and values, and the output qk, are not supported")
    (batch, rows, wide), heads, shared = node.shape, node.integer("num_heads"), node.integer("kv_num_heads")
    past = node.input_type(3).shape[2] if node.input(3) else 0
    positions = _positions(node, past, rows)
    parts = []
    for place, count in ((0, heads), (1, shared), (2, shared)):
        wide = node.input_type(place).shape[2]
        name, width = node.input(place), wide // count
        if place < 2 and node.integer("do_rotary", 0):
            shape = (batch, rows, count, width)
            angles = _angles(node, (7, 8), positions, 2)
            turned = 2 * node.input_type(7).shape[-1]
            name = node.shaped(
                _rotated(node, node.shaped(name, *shape), shape, turned, angles), batch, rows, wide
            )
        parts.append(_of_rows(node, name, batch, rows, wide, count))
    q, k, v = parts
    cached = _cached(node, 3, k, 1), _cached(node, 4, v, 2)
    k, v = (_repeated(node, part, batch, heads) for part in cached)
    masks = [_causal(node, rows, k.rows), *filter(None, [node.input(10)])]
    _attend(node, batch, q, k, v, masks, node.attribute("scale", float, 0.0))


HEADS = {"num_heads": "INT", "scale": "FLOAT"}
MASKED = {**HEADS, "mask_filter_value": "FLOAT", "unidirectional": "INT"}
PROJECTED = {**MASKED, "do_rotary": "INT", "past_present_share_buffer": "INT"}
ROTARY = dict.fromkeys(("num_heads", "rotary_embedding_dim", "interleaved"), "INT")
GROUPED = {
    **HEADS,
    **dict.fromkeys(("kv_num_heads", "do_rotary", "rotary_interleaved"), "INT"),
    **{name: "FLOAT" if isinstance(value, float) else "INT" for name, value in ONLY.items()},
    "qk_norm_epsilon": "FLOAT",
    "k_quant_type": "STRING",
    "v_quant_type": "STRING",
}
ATTENTIONS: Mapping[str, ForeignOperator] = {
    "Attention": ForeignOperator(
        (2, 7), {**PROJECTED, "qkv_hidden_sizes": "INTS", "rotary_embedding_dim": "INT"}, _attention, "MatMul"
    ),
    "GroupQueryAttention": ForeignOperator((7, 16), GROUPED, _grouped_query, "MatMul", (1, 2, 3, 4)),
    "MultiHeadAttention": ForeignOperator((1, 10), MASKED, _multi_head, "MatMul"),
    "QAttention": ForeignOperator((5, 9), PROJECTED, _quantised_attention, "MatMul"),
    "RotaryEmbedding": ForeignOperator(
        (4, 4), {**ROTARY, "is_packed_batching": "INT", "scale": "FLOAT"}, _embedding((2, 3), 1), "Mul"
    ),
}
"""Attentions of ONNX Runtime, and the embedding of positions."""
STANDARD: Mapping[str, ForeignOperator] = {
    "RotaryEmbedding": ForeignOperator((3, 4), ROTARY, _embedding((1, 2), 3), "Mul")
}
"""Operators of ONNX whose definition as a function has values without elements."""
