"""Joined channels and parts of them that no instruction makes: their readers load from the tensors that hold
them."""

from collections.abc import Mapping, Sequence

from vdla.compiler.network.flow import Flow
from vdla.compiler.network.maker import Offloaded
from vdla.compiler.network.partition import Part
from vdla.compiler.operands.segments import Segment, cut
from vdla.compiler.tasks.elements import Elements, ElementsTask

Segments = Mapping[str, tuple[Segment, ...]]


def joined(parts: Sequence[Part], flow: Flow) -> Segments:
    """Return where the values stand that need not be made, as segments of other values.

    Those are copies of whole elements that only operators of the same launch read, and that are not made as
    rows of an image.

    Args:
        flow: of the values of `parts`.
    """
    found: dict[str, tuple[Segment, ...]] = {}
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


def _copied(one: Offloaded, flow: Flow, known: Segments) -> tuple[Segment, ...]:
    """Return where the elements stand that an operator copies, in order."""
    found: list[Segment] = []
    for piece in one.pieces:
        assert isinstance(piece.task, ElementsTask), f"{one} copies"
        name, first = flow.origin(one.inputs[piece.names.get("A", "A")][0]), piece.begins.get("A", 0)
        count = piece.task.elements
        whole = known.get(name) or (Segment(name, 0, first + count),)
        found += cut(whole, first, count)
    return cut(found, 0, sum(segment.count for segment in found))
