"""Means and maxima over space become pooling, which has integer forms.

`ReduceMean(x, axes=(2, 3))` of x[n, c, h, w] becomes `GlobalAveragePool(x)`, over rows or columns alone
`AveragePool` with a window of that extent, and `ReduceMax` and `GlobalMaxPool` become `MaxPool`. A Reshape
takes out the dimensions that are not kept. A Transpose that brings the channels behind the space is left out
where the result then has its elements in the same order.

A mean that a Sub takes off its operand, or of squares, is part of a normalisation, and stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from vdla.compiler.graph.integer_forms.early import REDUCTIONS, SPACE, becomes_another
from vdla.compiler.graph.nodes import Attribute, Graph, Node, TensorType
from vdla.compiler.graph.passes.written_out import Pieces
from vdla.compiler.graph.rewrite import Rewriting


class Reduced(NamedTuple):
    """What a reduction reads: an image, and its dimensions of space that become one element."""

    image: str
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReductionsToPools:
    """The pass; it changes reductions of float32 of 3 or 4 dimensions, over some of the last 1 or 2."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with pooling."""
        made, pieces = Rewriting(graph), Pieces(graph)
        for node in graph.nodes:
            found = None if _normalises(pieces, node) else _reduced(graph, pieces.makers, node)
            if found is None:
                made.nodes.append(node)
            else:
                _pool(made, node, found)
        return made.finished()


def _normalises(pieces: Pieces, node: Node) -> bool:
    """Whether a mean is one that a normalisation takes."""
    if node.op != "ReduceMean":
        return False
    (x,) = node.inputs
    centred = any(reader.op == "Sub" and x in reader.inputs for reader in pieces.readers[node.outputs[0]])
    return centred or pieces.squared(x) is not None


def _reduced(graph: Graph, makers: Mapping[str, Node], node: Node) -> Reduced | None:
    """Return what a node reduces over space; None where it does something else."""
    if node.op not in REDUCTIONS:
        return None
    shape = graph.types[node.inputs[0]].shape
    axes = tuple(range(SPACE, len(shape))) if node.op == "GlobalMaxPool" else node.extents("axes")
    order = makers.get(node.inputs[0])
    if order is not None and order.op == "Transpose":
        before = replace(node, inputs=order.inputs, attributes={"axes": _before(order, axes)})
        kept = [place for axis, place in enumerate(order.extents("perm")) if axis not in axes]
        if kept == sorted(kept) and becomes_another(graph, before):
            return Reduced(before.inputs[0], before.extents("axes"))
    return Reduced(node.inputs[0], axes) if becomes_another(graph, node) else None


def _before(order: Node, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dimensions that a Transpose makes `axes` of."""
    return tuple(sorted(order.extents("perm")[axis] for axis in axes))


def _pool(made: Rewriting, node: Node, found: Reduced) -> None:
    """Append the pooling that a reduction is."""
    (out,), types = node.outputs, made.graph.types
    shape = types[found.image].shape
    pooled = tuple(1 if axis in found.axes else size for axis, size in enumerate(shape))
    whole = found.axes == tuple(range(SPACE, len(shape)))
    op = ("GlobalAveragePool" if whole else "AveragePool") if node.op == "ReduceMean" else "MaxPool"
    attributes = {} if op == "GlobalAveragePool" else _window(op, shape, found.axes)
    if types[out].shape == pooled:
        made.add(op, (found.image,), out, attributes, node.name)
        return
    image = made.value(f"{out}_pooled", TensorType(pooled, types[out].dtype))
    made.add(op, (found.image,), image, attributes, node.name)
    made.add("Reshape", (image,), out, {"shape": types[out].shape}, node.name)


def _window(op: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> Mapping[str, Attribute]:
    """Return the attributes of a pooling whose windows are all of some dimensions."""
    space = range(SPACE, len(shape))
    ones = (1,) * len(space)
    counted = {"count_include_pad": 0} if op == "AveragePool" else {}
    return {
        **counted,
        "ceil_mode": 0,
        "dilations": ones,
        "kernel_shape": tuple(shape[axis] if axis in axes else 1 for axis in space),
        "pads": (0,) * (2 * len(space)),
        "strides": ones,
    }
