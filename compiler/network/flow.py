"""The values of a network between its parts: which part makes each value, which values cross, and joined
channels that no instruction writes because their readers load from the tensors that hold them."""

from collections.abc import Mapping, Sequence

from vdla.compiler.network.maker import Offloaded, OnHost, View
from vdla.compiler.network.partition import Part
from vdla.compiler.operands.segments import TensorSegment, cut
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.runtime.layout import Layout


class Flow:
    """The values of a network in parts, which run in order.

    Args:
        outputs: values that leave the network.

    Attributes:
        standing: how each value stands in DRAM that the accelerator makes.
        views: the value whose bytes each result of a View has, with another shape.
        leaving: by part, the values that other parts read, or that leave the network, in order.
    """

    def __init__(self, parts: Sequence[Part], outputs: Sequence[str]) -> None:
        self.standing: dict[str, Layout] = {}
        self.views: dict[str, str] = {}
        self._origins: dict[str, str] = {}
        self._makers: dict[str, int] = {}
        read = set(outputs)
        for number, part in enumerate(parts):
            for one in part:
                read.update(name for name in one.node.inputs if self._makers.get(name) != number)
                self._makers |= dict.fromkeys(one.node.outputs, number)
                if isinstance(one, View):
                    self._add_view(one)
                elif not isinstance(one, OnHost):
                    self.standing[one.node.outputs[0]] = one.output[1]
        self.leaving = [[name for one in part for name in one.node.outputs if name in read] for part in parts]

    def _add_view(self, view: View) -> None:
        out, before = view.node.outputs[0], view.node.inputs[0]
        self.standing[out], self.views[out] = view.layout, before
        self._origins[out] = self.origin(before)

    def origin(self, name: str) -> str:
        """Return the value that shares the bytes of `name`, which no View makes."""
        return self._origins.get(name, name)

    def comes_in(self, name: str, number: int) -> bool:
        """Whether a value, or that whose bytes it shares, is made outside a part, by the part's number."""
        return self._makers.get(self.origin(name)) != number


Segments = Mapping[str, tuple[TensorSegment, ...]]


def joined(parts: Sequence[Part], flow: Flow) -> Segments:
    """Return where the values stand that need not be made, as segments of other values.

    Those are copies of whole elements that only operators of the same launch read, and that are not made as
    rows of an image.

    Args:
        flow: of the values of `parts`.
    """
    found: dict[str, tuple[TensorSegment, ...]] = {}
    stacked = {
        one.output[0] for part in parts for one in part if isinstance(one, Offloaded) and one.output[1].stack
    }
    for part, leaving in zip(parts, flow.leaving, strict=True):
        kept = {
            *leaving,
            *(name for one in part if not isinstance(one, Offloaded) for name in one.node.inputs),
        }
        for one in part:
            if not isinstance(one, Offloaded) or not is_copy(one) or one.output[0] in kept:
                continue
            if stacked.isdisjoint(flow.origin(name) for name, _ in one.inputs.values()):
                found[one.output[0]] = _copied(one, flow, found)
    return found


def is_copy(one: Offloaded) -> bool:
    """Whether an operator only copies elements."""
    return all(
        isinstance(piece.task, ElementsTask) and piece.task.kind is Elements.COPY for piece in one.pieces
    )


def _copied(one: Offloaded, flow: Flow, known: Segments) -> tuple[TensorSegment, ...]:
    """Return where the elements stand that an operator copies, in order."""
    found: list[TensorSegment] = []
    for piece in one.pieces:
        assert isinstance(piece.task, ElementsTask), f"{one} copies"
        name, first = flow.origin(one.inputs[piece.names.get("A", "A")][0]), piece.begins.get("A", 0)
        count = piece.task.elements
        whole = known.get(name) or (TensorSegment(name, 0, first + count),)
        found += cut(whole, first, count)
    return cut(found, 0, sum(segment.count for segment in found))
