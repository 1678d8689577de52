"""Chains of operators that only change the shape or the order of dimensions become shorter.

What a chain leaves in the same order is one Reshape of what goes in, or nothing if the shape is the same,
too; two Transposes are one. Exporters write such chains where an operator wants other dimensions than its
neighbours: `Transpose(Transpose(x))`, or an Unsqueeze of a Squeeze.

A chain that makes rows of the pixels of an image becomes a Transpose that makes the channels the last
dimension, and a Reshape; one that makes such rows an image becomes a Reshape and a Transpose. So stand images
and rows alike in the accelerator's memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.moves import REARRANGING
from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.passes.remove_identity import RemoveIdentity
from vdla.compiler.graph.rewrite import GraphBuilder

IMAGE_RANK = 4
CHANNELS_LAST, CHANNELS_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
LARGEST = 1 << 22  # elements of a tensor whose order is followed
LONGEST = 16  # moves of a chain that are looked at together: the last, behind those that were made shorter


@dataclass(frozen=True, slots=True)
class MergeMoves:
    """The pass; moves whose results are read otherwise stay beside the shorter chain."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with shorter chains."""
        return DeadCode().run(RemoveIdentity().run(_Merging(graph).run()))


class _Merging(GraphBuilder):
    """A graph with shorter chains in the making.

    Attributes:
        makers: of the results of moves, in the new graph.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.makers: dict[str, Node] = {}

    def run(self) -> Graph:
        """Return the graph with shorter chains, beside what then nothing reads."""
        for node in self.graph.nodes:
            if node.op not in REARRANGING or not self.shortened(node):
                self.move(node)
        return self.finished()

    def move(self, node: Node) -> None:
        """Append a node of the new graph."""
        self.nodes.append(node)
        if node.op in REARRANGING:
            self.makers[node.outputs[0]] = node

    def type(self, name: str) -> TensorType:
        """Return the type of a value of the new graph."""
        return self.types.get(name) or self.graph.types[name]

    def shortened(self, node: Node) -> bool:
        """Append what makes the result of a chain in fewer steps; return whether there is such."""
        chain = [node]
        while (maker := self.makers.get(chain[0].inputs[0])) is not None and len(chain) < LONGEST:
            chain.insert(0, maker)
        if not all(self.type(name).is_known for one in chain for name in (*one.inputs, *one.outputs)):
            return False
        forms = (self.reshaped, self.as_rows, self.as_image)
        longest = (form(chain[first:]) for first in range(len(chain) - 1) for form in forms)
        return any(longest) or self.turned(chain)

    def reshaped(self, chain: Sequence[Node]) -> bool:
        """Append a Reshape in place of a chain that keeps the order of elements."""
        if any(one.op == "Transpose" for one in chain):
            numbers = self.followed(chain)
            if numbers is None or not _ascend(numbers):
                return False
        self.reshape(chain[0].inputs[0], chain[-1])
        return True

    def as_rows(self, chain: Sequence[Node]) -> bool:
        """Append a Transpose and a Reshape in place of a chain that brings an image's channels to the end."""
        before = self.type(chain[0].inputs[0])
        if len(before.shape) != IMAGE_RANK or _is_turn(chain[0], CHANNELS_LAST):
            return False
        numbers, order = self.followed(chain), np.arange(before.size).reshape(before.shape)
        last = order.transpose(CHANNELS_LAST)
        if numbers is None or not np.array_equal(numbers.reshape(-1), last.reshape(-1)):
            return False
        image = self.value(f"{chain[-1].outputs[0]}_image", TensorType(last.shape, before.dtype))
        self.move(Node("Transpose", chain[0].inputs, (image,), {"perm": CHANNELS_LAST}, chain[-1].name))
        self.reshape(image, chain[-1])
        return True

    def as_image(self, chain: Sequence[Node]) -> bool:
        """Append a Reshape and a Transpose in place of a chain that makes rows of pixels an image."""
        (out,) = chain[-1].outputs
        if len(self.type(out).shape) != IMAGE_RANK or _is_turn(chain[-1], CHANNELS_FIRST):
            return False
        numbers = self.followed(chain)
        if numbers is None or not _ascend(last := numbers.transpose(CHANNELS_LAST)):
            return False
        image = self.value(f"{out}_rows", TensorType(last.shape, self.type(out).dtype))
        self.move(Node("Reshape", chain[0].inputs, (image,), {"shape": last.shape}, chain[-1].name))
        self.move(Node("Transpose", (image,), (out,), {"perm": CHANNELS_FIRST}, chain[-1].name))
        return True

    def turned(self, chain: Sequence[Node]) -> bool:
        """Append one Transpose in place of the last two."""
        if [one.op for one in chain[-2:]] != ["Transpose"] * 2:
            return False
        first, second = (one.extents("perm") for one in chain[-2:])
        perm = tuple(first[place] for place in second)
        self.move(Node("Transpose", chain[-2].inputs, chain[-1].outputs, {"perm": perm}, chain[-1].name))
        return True

    def reshape(self, name: str, last: Node) -> None:
        """Append a Reshape of a value to the result of the last node of a chain."""
        shape = self.type(last.outputs[0]).shape
        self.move(Node("Reshape", (name,), last.outputs, {"shape": shape}, last.name))

    def followed(self, chain: Sequence[Node]) -> np.ndarray | None:
        """Return where each element of a chain's result was; None for large tensors."""
        before = self.type(chain[0].inputs[0])
        if before.size > LARGEST:
            return None
        numbers = np.arange(before.size).reshape(before.shape)
        for one in chain:
            if one.op == "Transpose":
                numbers = numbers.transpose(one.extents("perm"))
            else:
                numbers = numbers.reshape(self.type(one.outputs[0]).shape)
        return numbers


def _ascend(numbers: np.ndarray) -> bool:
    return bool((np.diff(numbers.reshape(-1)) == 1).all())


def _is_turn(node: Node, perm: tuple[int, ...]) -> bool:
    return node.op == "Transpose" and node.extents("perm") == perm
