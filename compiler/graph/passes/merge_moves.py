"""Shortens chains of operators that only change the shape or the order of dimensions.

A chain that keeps the order of elements becomes a Reshape, or is removed if it also keeps the shape. Two
Transposes become a single Transpose. Exporters write such chains if an operator needs other dimensions than
its neighbours: `Transpose(Transpose(x))`, or an Unsqueeze of a Squeeze.

A chain from an image to rows of pixels becomes a Transpose to channels last, and a Reshape. The inverse chain
becomes a Reshape and a Transpose. These forms are views: images and rows have the same bytes in the
accelerator's memory.

Rows that a Reshape divides stay whole if the Transpose behind it keeps their parts last and in order. The
accelerator moves whole rows without an instruction.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul

import numpy as np

from vdla.compiler.graph.nodes import REARRANGING, RESHAPING, Attribute, Graph, Node, TensorType
from vdla.compiler.graph.passes.cleanup import DeadCode, RemoveIdentity
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.runtime.layout import IMAGE_RANK

CHANNELS_LAST, CHANNELS_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
LARGEST = 1 << 22  # elements of the largest tensor whose order is computed
LONGEST = 16  # most moves of a chain that are merged at once, the last moves first


@dataclass(frozen=True, slots=True)
class MergeMoves:
    """The pass. Moves whose results have other readers remain."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with shorter chains."""
        return DeadCode().run(RemoveIdentity().run(_ChainMerger(graph).run()))


class _ChainMerger(GraphBuilder):
    """The new graph under construction.

    Attributes:
        makers: the move that makes each of their results, in the new graph.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.makers: dict[str, Node] = {}

    def run(self) -> Graph:
        """Return the graph with shorter chains; it may contain dead code."""
        for node in self.graph.nodes:
            if node.op not in REARRANGING or not self.shortened(node):
                self.append_move(node)
        return self.finished()

    def append_move(self, node: Node) -> None:
        """Append a node of the new graph."""
        self.nodes.append(node)
        if node.op in REARRANGING:
            self.makers[node.result] = node

    def shortened(self, last: Node) -> bool:
        """Append a shorter equivalent of the chain that ends with a node; return whether it exists."""
        chain = [last]
        while (maker := self.makers.get(chain[0].inputs[0])) is not None and len(chain) < LONGEST:
            chain.insert(0, maker)
        if not all(self.type_of(name).is_known for node in chain for name in (*node.inputs, *node.outputs)):
            return False
        forms = (self.reshaped, self.as_rows, self.as_image)
        longest = (form(chain[first:]) for first in range(len(chain) - 1) for form in forms)
        return any(longest) or self.transposed(chain) or self.with_whole_rows(chain)

    def reshaped(self, chain: Sequence[Node]) -> bool:
        """Append a Reshape in place of a chain that keeps the order of elements."""
        if any(node.op == "Transpose" for node in chain):
            numbers = source_positions(chain, self.type_of)
            if numbers is None or not _is_contiguous(numbers):
                return False
        self.reshape(chain[0].inputs[0], chain[-1])
        return True

    def as_rows(self, chain: Sequence[Node]) -> bool:
        """Append a Transpose and a Reshape in place of a chain that moves the channels of an image last."""
        before = self.type_of(chain[0].inputs[0])
        if len(before.shape) != IMAGE_RANK or _is_transpose(chain[0], CHANNELS_LAST):
            return False
        numbers, order = source_positions(chain, self.type_of), np.arange(before.size).reshape(before.shape)
        last = order.transpose(CHANNELS_LAST)
        if numbers is None or not np.array_equal(numbers.reshape(-1), last.reshape(-1)):
            return False
        image = self.value(f"{chain[-1].result}_image", TensorType(last.shape, before.dtype))
        self.append_move(_move(chain[-1], "Transpose", chain[0].inputs, (image,), perm=CHANNELS_LAST))
        self.reshape(image, chain[-1])
        return True

    def as_image(self, chain: Sequence[Node]) -> bool:
        """Append a Reshape and a Transpose in place of a chain that makes rows of pixels an image."""
        (out,) = chain[-1].outputs
        if len(self.type_of(out).shape) != IMAGE_RANK or _is_transpose(chain[-1], CHANNELS_FIRST):
            return False
        numbers = source_positions(chain, self.type_of)
        if numbers is None or not _is_contiguous(last := numbers.transpose(CHANNELS_LAST)):
            return False
        image = self.value(f"{out}_rows", TensorType(last.shape, self.type_of(out).dtype))
        self.append_move(_move(chain[-1], "Reshape", chain[0].inputs, (image,), shape=last.shape))
        self.append_move(_move(chain[-1], "Transpose", (image,), (out,), perm=CHANNELS_FIRST))
        return True

    def transposed(self, chain: Sequence[Node]) -> bool:
        """Append a single Transpose in place of the last two."""
        if [node.op for node in chain[-2:]] != ["Transpose"] * 2:
            return False
        first, second = (node.extents("perm") for node in chain[-2:])
        perm = tuple(first[place] for place in second)
        self.append_move(_move(chain[-1], "Transpose", chain[-2].inputs, chain[-1].outputs, perm=perm))
        return True

    def with_whole_rows(self, chain: Sequence[Node]) -> bool:
        """Append a Transpose of whole rows in place of a Reshape that divides rows, and a Transpose that
        keeps their parts last and in order."""
        if len(chain) < 2 or chain[-2].op not in RESHAPING or chain[-1].op != "Transpose":
            return False
        divided, turn = chain[-2:]
        (source,), perm = divided.inputs[:1], turn.extents("perm")
        before, shape = self.type_of(source), self.type_of(divided.result).shape
        kept = _whole_row(before.shape, shape)
        if kept is None or perm[kept:] != tuple(range(kept, len(shape))):
            return False
        whole, turned = (*shape[:kept], before.shape[-1]), (*perm[:kept], kept)
        rows = self.value(f"{divided.result}_rows", TensorType(whole, before.dtype))
        self.append_move(_move(divided, "Reshape", (source,), (rows,), shape=whole))
        moved = self.value(f"{turn.result}_rows", TensorType(tuple(whole[at] for at in turned), before.dtype))
        self.append_move(_move(turn, "Transpose", (rows,), (moved,), perm=turned))
        self.reshape(moved, turn)
        return True

    def reshape(self, name: str, last: Node) -> None:
        """Append a Reshape of a value to the result of the last node of a chain."""
        shape = self.type_of(last.result).shape
        self.append_move(_move(last, "Reshape", (name,), last.outputs, shape=shape))


def source_positions(chain: Sequence[Node], type_of: Callable[[str], TensorType]) -> np.ndarray | None:
    """Return the position in the input of a chain of moves of each element of its result; None for large
    tensors."""
    before = type_of(chain[0].inputs[0])
    if before.size > LARGEST:
        return None
    numbers = np.arange(before.size).reshape(before.shape)
    for node in chain:
        if node.op == "Transpose":
            numbers = numbers.transpose(node.extents("perm"))
        else:
            numbers = numbers.reshape(type_of(node.result).shape)
    return numbers


def _whole_row(before: Sequence[int], after: Sequence[int]) -> int | None:
    """Return the first of several last dimensions whose product is the last dimension before a Reshape; None
    if the Reshape does not divide rows."""
    parts = accumulate(reversed(after), mul)
    count = next((count for count, size in enumerate(parts, 1) if size == before[-1]), 0) if before else 0
    return len(after) - count if count > 1 else None


def _move(
    last: Node, op: str, inputs: tuple[str, ...], outputs: tuple[str, ...], **attributes: Attribute
) -> Node:
    """Return a move in place of a chain that ends with `last`."""
    return replace(last, op=op, inputs=inputs, outputs=outputs, attributes=attributes)


def _is_contiguous(numbers: np.ndarray) -> bool:
    return bool((np.diff(numbers.reshape(-1)) == 1).all())


def _is_transpose(node: Node, perm: tuple[int, ...]) -> bool:
    return node.op == "Transpose" and node.extents("perm") == perm
