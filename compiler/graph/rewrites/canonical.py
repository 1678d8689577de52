"""Canonical forms of float operators: exporters write the same function in several ways.

| rule | rewrite |
|---|---|
| `split_sum` | `Sum(a, b, c)` -> `Add(Add(a, b), c)` |
| `gather_to_slice` | `Gather(x, evenly spaced indices)` -> `Slice(x)`; a scalar index: `Reshape(Slice(x))` |
| `gather_to_shuffle` | `Gather(x, indices of a channel shuffle)` -> `Reshape(Transpose(Reshape(x)))` |
| `choice_to_sum` | `Softmax(Where(mask, scores, low))` -> `Softmax(scores + Where(mask, 0, low))` |
| `fold_pad` | `Conv(Pad(x))` -> `Conv(x)` with wider pads; also `AveragePool` and `MaxPool` |
| `reduction_to_pool` | spatial `ReduceMean` -> `(Global)AveragePool`; `ReduceMax` -> `MaxPool` |
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph.conversions import has_one_constant_scale
from vdla.compiler.graph.integer_forms.prerequisites import REDUCTIONS, SPACE, becomes_another
from vdla.compiler.graph.nodes import Attribute, Node, TensorType
from vdla.compiler.graph.rewrites.normalisation import squared
from vdla.compiler.graph.rules import Rewriter, RewriteRule, Rules

WINDOWS = ("AveragePool", "Conv", "MaxPool")
Indices = NDArray[np.int64]


# Sums


def _split_sum(at: Rewriter, node: Node) -> None:
    """Sums of several tensors of one shape become sums of two; a sum of one tensor is an identity."""
    if len(node.inputs) < 2 or not becomes_another(at.graph, node):
        return
    total, (out,), new = node.inputs[0], node.outputs, list[Node]()
    for place, name in enumerate(node.inputs[1:], 2):
        result = out if place == len(node.inputs) else at.value(f"{out}_{place}", at.types[out])
        new.append(Node("Add", (total, name), (result,), {}, node.name))
        total = result
    at.replace(node, new)


# Gathers of constant indices


def _indices(at: Rewriter, node: Node) -> Indices | None:
    """Return the constant indices int64[n] of a Gather, counted from the front; None for other indices. A
    scalar is a single index."""
    x, indices = at.types[node.inputs[0]], at.constants.get(node.inputs[1])
    if indices is None or indices.ndim > 1 or not indices.size or not x.is_known:
        return None
    size = x.shape[node.integer("axis")]
    counted = np.where(indices < 0, indices + size, indices).astype(np.int64).reshape(-1)
    return counted if bool(((counted >= 0) & (counted < size)).all()) else None


def _gather_to_slice(at: Rewriter, node: Node) -> None:
    """Indices with equal positive steps are a Slice. A Reshape removes the axis of a scalar index."""
    indices = _indices(at, node)
    if indices is None:
        return
    steps = np.unique(np.diff(indices))
    if indices.size > 1 and (len(steps) > 1 or steps[0] <= 0):
        return
    attributes = {
        "axes": (node.integer("axis"),),
        "ends": (int(indices[-1]) + 1,),
        "starts": (int(indices[0]),),
        "steps": (int(steps[0]) if indices.size > 1 else 1,),
    }
    taken, (out,) = at.types[node.inputs[0]], node.outputs
    if at.constants[node.inputs[1]].ndim:
        at.replace(node, [Node("Slice", node.inputs[:1], (out,), attributes, node.name)])
        return
    axis = node.integer("axis") % len(taken.shape)
    kept = TensorType((*taken.shape[:axis], 1, *taken.shape[axis + 1 :]), taken.dtype)
    part = at.value(f"{out}_part", kept)
    at.replace(
        node,
        [
            Node("Slice", node.inputs[:1], (part,), attributes, node.name),
            Node("Reshape", (part,), (out,), {"shape": at.types[out].shape}, node.name),
        ],
    )


def _groups(indices: Indices, size: int) -> int | None:
    """Return the number of groups whose elements a channel shuffle takes in turn; None for other indices."""
    if len(indices) != size or size < 2 or indices[0] or indices[1] < 1 or size % indices[1]:
        return None
    groups = size // int(indices[1])
    shuffled = np.arange(size).reshape(groups, -1).T.reshape(-1)
    return groups if np.array_equal(indices, shuffled) else None


def _gather_to_shuffle(at: Rewriter, node: Node) -> None:
    """Indices of a channel shuffle are a Transpose between two Reshapes, as other exporters write it."""
    (x, _), (out,), axis = node.inputs, node.outputs, node.integer("axis")
    type_, indices = at.types[x], _indices(at, node)
    groups = None if indices is None else _groups(indices, type_.shape[axis])
    if groups is None:
        return
    before, after, each = type_.shape[:axis], type_.shape[axis + 1 :], type_.shape[axis] // groups
    divided, turned = ((*before, *pair, *after) for pair in ((groups, each), (each, groups)))
    perm = (*range(axis), axis + 1, axis, *range(axis + 2, len(divided)))
    parts = at.value(f"{out}_groups", TensorType(divided, type_.dtype))
    order = at.value(f"{out}_turned", TensorType(turned, type_.dtype))
    at.replace(
        node,
        [
            Node("Reshape", (x,), (parts,), {"shape": divided}, node.name),
            Node("Transpose", (parts,), (order,), {"perm": perm}, node.name),
            Node("Reshape", (order,), (out,), {"shape": type_.shape}, node.name),
        ],
    )


# Borders


def _fold_pad(at: Rewriter, node: Node) -> None:
    """A border of zeros around an image becomes padding of the window that reads it.

    A Pad between conversions of one scale counts as well: a border of zeros is a border of zero points. A
    MaxPool pads with the least number, which makes no difference where no element is less than 0, as after
    Relu.
    """
    pad = _pad_before(at, node.inputs[0])
    attributes = None if pad is None else _widened(at, node, pad)
    if pad is not None and attributes is not None:
        at.replace(node, [replace(node, inputs=(pad.inputs[0], *node.inputs[1:]), attributes=attributes)])
    elif pad is not None:
        at.missed(node, f"{node.op} cannot express the border of {pad}")


def _pad_before(at: Rewriter, name: str) -> Node | None:
    """Return the Pad that makes a value, or that stands between conversions of one scale before the value."""
    dequantise = at.maker(name, "DequantizeLinear")
    if dequantise is None:
        node = at.maker(name, "Pad")
    else:
        quantise = at.maker(dequantise.inputs[0], "QuantizeLinear")
        node = None if quantise is None else at.maker(quantise.inputs[0], "Pad")
        before = None if node is None else at.maker(node.inputs[0], "DequantizeLinear")
        if quantise is None or before is None:
            return None
        if not (_same_scale(at, before, quantise) and _same_scale(at, quantise, dequantise)):
            return None
    return node if node is not None and _is_of_zeros(at, node) else None


def _same_scale(at: Rewriter, first: Node, second: Node) -> bool:
    """Whether two conversions have the same constant scale and zero point."""
    if not (has_one_constant_scale(at, first) and has_one_constant_scale(at, second)):
        return False
    pairs = zip(first.inputs[1:3], second.inputs[1:3], strict=True)
    arrays = [[at.constants[name] for name in pair] for pair in pairs]
    return all(a.dtype == b.dtype and a.item() == b.item() for a, b in arrays)


def _is_of_zeros(at: Rewriter, pad: Node) -> bool:
    """Whether a Pad adds zeros, along spatial axes only."""
    type_, pads = at.types[pad.inputs[0]], pad.extents("pads")
    rank = len(type_.shape)
    outer_pads = (*pads[:SPACE], *pads[rank : rank + SPACE])
    zeros = pad.attributes["mode"] == "constant" and pad.attributes["value"] == 0
    return zeros and type_.dtype == "float32" and min(pads, default=0) >= 0 and not any(outer_pads)


def _widened(at: Rewriter, node: Node, pad: Node) -> dict[str, Attribute] | None:
    """Return the attributes of a window with the border of a Pad; None if they cannot express it."""
    added, present = _spatial(pad.extents("pads")), node.extents("pads")
    pads = tuple(map(sum, zip(present, added, strict=True)))
    attributes: dict[str, Attribute] = {**node.attributes, "pads": pads}
    if node.op == "Conv":
        return attributes
    kernel = node.extents("kernel_shape")
    if node.integer("ceil_mode") or max(pads) >= min(kernel):
        return None
    if node.op == "AveragePool":
        counted = bool(node.integer("count_include_pad")) or not any(present)
        return {**attributes, "count_include_pad": 1} if counted else None
    return attributes if _is_positive(at, pad.inputs[0]) else None


def _spatial(pads: Sequence[int]) -> tuple[int, ...]:
    """Return the pads of the spatial axes: all begins, then all ends."""
    rank = len(pads) // 2
    return (*pads[SPACE:rank], *pads[rank + SPACE :])


def _is_positive(at: Rewriter, name: str) -> bool:
    """Whether no element of a value is less than 0."""
    node = at.maker(name)
    while node is not None and node.op in ("DequantizeLinear", "MaxPool", "QuantizeLinear"):
        if node.op == "DequantizeLinear" and _starts_at_zero(at, node):
            return True
        node = at.maker(node.inputs[0])
    if node is None or node.op not in ("Clip", "Relu"):
        return False
    return node.op == "Relu" or node.real("min") >= 0


def _starts_at_zero(at: Rewriter, dequantise: Node) -> bool:
    """Whether the least integer of the type is the zero point."""
    zero = at.constants.get(dequantise.inputs[2])
    return zero is not None and zero.dtype.kind in "iu" and bool((zero == np.iinfo(zero.dtype).min).all())


# Means and maxima over space


class Reduced(NamedTuple):
    """The image that a reduction reads, and the spatial axes that it reduces."""

    image: str
    axes: tuple[int, ...]


def _reduction_to_pool(at: Rewriter, node: Node) -> None:
    """Means and maxima over space become pooling, which has integer forms; a Reshape removes the axes that
    are not kept.

    A Transpose of channels to the end is left out where the elements of the result keep their order. A mean
    that is subtracted from its operand, or a mean of squares, is part of a normalisation, and stays.
    """
    reduction = None if _normalises(at, node) else _reduced(at, node)
    if reduction is None:
        return
    (out,) = node.outputs
    shape = at.types[reduction.image].shape
    pooled = tuple(1 if axis in reduction.axes else size for axis, size in enumerate(shape))
    whole = reduction.axes == tuple(range(SPACE, len(shape)))
    op = ("GlobalAveragePool" if whole else "AveragePool") if node.op == "ReduceMean" else "MaxPool"
    attributes = {} if op == "GlobalAveragePool" else _window(op, shape, reduction.axes)
    if at.types[out].shape == pooled:
        at.replace(node, [Node(op, (reduction.image,), (out,), attributes, node.name)])
        return
    image = at.value(f"{out}_pooled", TensorType(pooled, at.types[out].dtype))
    at.replace(
        node,
        [
            Node(op, (reduction.image,), (image,), attributes, node.name),
            Node("Reshape", (image,), (out,), {"shape": at.types[out].shape}, node.name),
        ],
    )


def _normalises(at: Rewriter, node: Node) -> bool:
    """Whether a mean is part of a normalisation."""
    if node.op != "ReduceMean":
        return False
    (x,) = node.inputs
    centred = any(reader.op == "Sub" and x in reader.inputs for reader in at.readers(node.result))
    return centred or squared(at, x) is not None


def _reduced(at: Rewriter, node: Node) -> Reduced | None:
    """Return what a node reduces over space; None for other reductions."""
    shape = at.types[node.inputs[0]].shape
    axes = tuple(range(SPACE, len(shape))) if node.op == "GlobalMaxPool" else node.extents("axes")
    order = at.maker(node.inputs[0], "Transpose")
    if order is not None:
        perm = order.extents("perm")
        moved = tuple(sorted(perm[axis] for axis in axes))
        before = replace(node, inputs=order.inputs, attributes={"axes": moved})
        kept = [place for axis, place in enumerate(perm) if axis not in axes]
        if kept == sorted(kept) and becomes_another(at, before):
            return Reduced(before.inputs[0], moved)
    return Reduced(node.inputs[0], axes) if becomes_another(at, node) else None


def _window(op: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> Mapping[str, Attribute]:
    """Return the attributes of a pooling whose windows cover some spatial axes."""
    space = range(SPACE, len(shape))
    unit_steps = (1,) * len(space)
    counted = {"count_include_pad": 0} if op == "AveragePool" else {}
    return {
        **counted,
        "ceil_mode": 0,
        "dilations": unit_steps,
        "kernel_shape": tuple(shape[axis] if axis in axes else 1 for axis in space),
        "pads": (0,) * (2 * len(space)),
        "strides": unit_steps,
    }


# Masks


LOW = -1e4
"""A score that is lower than all others by this much has the power 0."""
LOWEST = -1e30
"""Sums with this are this: a row of which every element is masked stays a row of equal numbers."""


def _choice_to_sum(at: Rewriter, node: Node) -> None:
    """A Where that excludes scores from a softmax becomes a sum of the scores and a mask."""
    mask, *choices = node.inputs
    softmax = at.only_reader(node.result, "Softmax")
    places = [place for place, name in enumerate(choices) if _excludes(at, name)]
    if softmax is None or len(places) != 1 or softmax.integer("axis") % len(at.types[node.result].shape) == 0:
        return
    (place,), low = places, at.constants[choices[places[0]]]
    scores = choices[1 - place]
    if at.types[scores] != at.types[node.result] or scores in at.constants:
        return
    if low.max() > LOWEST and not _keeps_an_element(at, mask, place):
        return
    zero, kept = np.zeros((), np.float32), at.constants.get(mask)
    if kept is not None:
        added, new = at.constant(f"{node.result}_mask", np.where(kept == (place == 1), zero, low)), []
    else:
        choices[1 - place] = at.constant(f"{node.result}_zero", zero)
        shape = np.broadcast_shapes(at.types[mask].shape, low.shape)
        added = at.value(f"{node.result}_mask", TensorType(shape, "float32"))
        new = [replace(node, inputs=(mask, *choices), outputs=(added,))]
    at.replace(node, [*new, Node("Add", (scores, added), node.outputs, {}, node.name)])


def _excludes(at: Rewriter, name: str) -> bool:
    """Whether a value is a constant that excludes elements from a softmax."""
    return name in at.constants and at.constants[name].size > 0 and bool(at.constants[name].max() <= LOW)


def _keeps_an_element(at: Rewriter, mask: str, place: int) -> bool:
    """Whether a constant mask keeps an element of every row.

    Args:
        place: which choice, 0 or 1, excludes elements.
    """
    kept = at.constants.get(mask)
    return kept is not None and kept.ndim > 0 and bool((kept == (place == 1)).any(-1).all())


SPLIT_SUMS = Rules("split_sums", (RewriteRule(("Sum",), _split_sum),))
GATHERS_TO_MOVES = Rules(
    "gathers_to_moves",
    (RewriteRule(("Gather",), _gather_to_slice), RewriteRule(("Gather",), _gather_to_shuffle)),
)
FOLD_PADS = Rules("fold_pads", (RewriteRule(WINDOWS, _fold_pad),))
REDUCTIONS_TO_POOLS = Rules("reductions_to_pools", (RewriteRule(REDUCTIONS, _reduction_to_pool),))
CHOICES_TO_SUMS = Rules("choices_to_sums", (RewriteRule(("Where",), _choice_to_sum),))
