"""Gathers of constant indices become moves that the accelerator has.

Exporters write a channel shuffle as `Gather(x, (0, 4, 1, 5, ...))`: it becomes
`Reshape(Transpose(Reshape(x)))`, as which others write it. Indices in even steps become `Slice(x)`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.graph.rewrite import Rewriting

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GathersToMoves:
    """The pass; it leaves indices of another order, and those of several dimensions, as they are."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with moves in place of gathers."""
        made = Rewriting(graph)
        for node in graph.nodes:
            indices = _indices(graph, node) if node.op == "Gather" else None
            if indices is None or not _moved(made, node, indices):
                made.nodes.append(node)
        return made.finished()


def _indices(graph: Graph, node: Node) -> Indices | None:
    """Return the constant indices of a Gather, counted from the front; None where there are no such."""
    x, indices = graph.types[node.inputs[0]], graph.constants.get(node.inputs[1])
    if indices is None or indices.ndim != 1 or not indices.size or not x.is_known:
        return None
    size = x.shape[node.integer("axis")]
    counted = np.where(indices < 0, indices + size, indices).astype(np.int64)
    return counted if bool(((counted >= 0) & (counted < size)).all()) else None


def _moved(made: Rewriting, node: Node, indices: Indices) -> bool:
    """Append the moves that a Gather is; return whether there are such."""
    size = made.graph.types[node.inputs[0]].shape[node.integer("axis")]
    steps = np.unique(np.diff(indices))
    if indices.size == 1 or (len(steps) == 1 and steps[0] > 0):
        _slice(made, node, indices)
        return True
    groups = _groups(indices, size)
    if groups is not None:
        _shuffle(made, node, groups, size // groups)
    return groups is not None


def _groups(indices: Indices, size: int) -> int | None:
    """Return the groups of which a shuffle takes an element each in turn; None where it is no shuffle."""
    if len(indices) != size or size < 2 or indices[0] or indices[1] < 1 or size % indices[1]:
        return None
    groups = size // int(indices[1])
    shuffled = np.arange(size).reshape(groups, -1).T.reshape(-1)
    return groups if np.array_equal(indices, shuffled) else None


def _slice(made: Rewriting, node: Node, indices: Indices) -> None:
    step = int(indices[1] - indices[0]) if indices.size > 1 else 1
    attributes = {
        "axes": (node.integer("axis"),),
        "ends": (int(indices[-1]) + 1,),
        "starts": (int(indices[0]),),
        "steps": (step,),
    }
    made.add("Slice", node.inputs[:1], node.outputs[0], attributes, node.name)


def _shuffle(made: Rewriting, node: Node, groups: int, each: int) -> None:
    (x, _), (out,), axis = node.inputs, node.outputs, node.integer("axis")
    type_ = made.graph.types[x]
    before, behind = type_.shape[:axis], type_.shape[axis + 1 :]
    divided, turned = ((*before, *pair, *behind) for pair in ((groups, each), (each, groups)))
    perm = [*range(axis), axis + 1, axis, *range(axis + 2, len(divided))]
    parts = made.value(f"{out}_groups", TensorType(divided, type_.dtype))
    made.add("Reshape", (x,), parts, {"shape": divided}, node.name)
    order = made.value(f"{out}_turned", TensorType(turned, type_.dtype))
    made.add("Transpose", (parts,), order, {"perm": tuple(perm)}, node.name)
    made.add("Reshape", (order,), out, {"shape": type_.shape}, node.name)
