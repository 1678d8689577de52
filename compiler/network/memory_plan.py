"""Static memory planning for the values of a network.

`Flow` tells which part makes each value, which values cross between host and accelerator, and which copies
need no instruction because their readers load from the source tensors. `share` lets tensors that are never
live at the same time share DRAM.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from vdla.compiler.network.partition import Part
from vdla.compiler.network.placed import Offloaded, OnHost, View
from vdla.compiler.operands.segments import TensorSegment, cut
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.runtime.layout import Layout, SpaceToDepth
from vdla.runtime.windows import Windows


class Flow:
    """The values of a network.

    Args:
        parts: the parts of the network, in the order in which they run.
        outputs: outputs of the network.

    Attributes:
        layouts: layout in DRAM of each value that the accelerator makes.
        views: for each result of a View, its input, which has the same bytes.
        leaving: for each part, its values that other parts read or that are outputs of the network, in order.
    """

    def __init__(self, parts: Sequence[Part], outputs: Sequence[str]) -> None:
        self.layouts: dict[str, Layout] = {}
        self.views: dict[str, str] = {}
        self._origins: dict[str, str] = {}
        self._makers: dict[str, int] = {}
        read = set(outputs)
        for number, part in enumerate(parts):
            for placed in part:
                read.update(name for name in placed.node.inputs if self._makers.get(name) != number)
                self._makers |= dict.fromkeys(placed.node.outputs, number)
                if isinstance(placed, View):
                    self._add_view(placed)
                elif not isinstance(placed, OnHost):
                    self.layouts[placed.node.result] = placed.output[1]
        self.leaving = [
            [name for placed in part for name in placed.node.outputs if name in read] for part in parts
        ]

    def _add_view(self, view: View) -> None:
        out, source = view.node.result, view.node.inputs[0]
        self.layouts[out], self.views[out] = view.layout, source
        self._origins[out] = self.origin(source)

    def origin(self, name: str) -> str:
        """Return the value that is not a View's result and has the bytes of `name`."""
        return self._origins.get(name, name)

    def comes_in(self, name: str, number: int) -> bool:
        """Whether the bytes of a value are written outside part `number`."""
        return self._makers.get(self.origin(name)) != number


Segments = Mapping[str, tuple[TensorSegment, ...]]


def segments_of_copies(parts: Sequence[Part], flow: Flow) -> Segments:
    """Return the segments of other tensors that hold the values which need no instruction.

    Such a value is a copy of whole elements, only operators of the same launch read it, and its sources are
    not stacks of matrices.

    Args:
        flow: the values of `parts`.
    """
    segments: dict[str, tuple[TensorSegment, ...]] = {}
    stacked = {
        placed.output[0]
        for part in parts
        for placed in part
        if isinstance(placed, Offloaded) and placed.output[1].stack
    }
    for part, leaving in zip(parts, flow.leaving, strict=True):
        kept = {
            *leaving,
            *(name for placed in part if not isinstance(placed, Offloaded) for name in placed.node.inputs),
        }
        for placed in part:
            if not isinstance(placed, Offloaded) or not is_copy(placed) or placed.output[0] in kept:
                continue
            if stacked.isdisjoint(flow.origin(name) for name, _ in placed.inputs.values()):
                segments[placed.output[0]] = _copied_segments(placed, flow, segments)
    return segments


def is_copy(operator: Offloaded) -> bool:
    """Whether an operator only copies elements."""
    return all(
        isinstance(piece.task, ElementsTask) and piece.task.kind is Elements.COPY for piece in operator.pieces
    )


def _copied_segments(operator: Offloaded, flow: Flow, known: Segments) -> tuple[TensorSegment, ...]:
    """Return the segments that hold the elements of a copy, in order."""
    segments: list[TensorSegment] = []
    for piece in operator.pieces:
        assert isinstance(piece.task, ElementsTask), f"{operator} copies"
        name, first = flow.origin(operator.inputs[piece.names.get("A", "A")][0]), piece.begins.get("A", 0)
        count = piece.task.elements
        whole = known.get(name) or (TensorSegment(name, 0, first + count),)
        segments += cut(whole, first, count)
    return cut(segments, 0, sum(segment.count for segment in segments))


@dataclass(frozen=True, slots=True)
class Stored:
    """A value in one of its layouts in the accelerator's DRAM; it prints.

    Attributes:
        value: name of the value.
        block: channels of an element.
        space_to_depth: gathered pixels; None if no pixels are gathered.
        windows: windows over packed pixels; None if pixels are stored in blocks.
        stack: matrices that are stored one after the other; 0 for images.
    """

    value: str
    block: int
    space_to_depth: SpaceToDepth | None = None
    windows: Windows | None = None
    stack: int = 0

    def __str__(self) -> str:
        if self.stack:
            return f"{self.value} in blocks of {self.block}, {self.stack} matrices"
        if self.windows is not None:
            return f"{self.value} packed, in windows {self.windows.step} bytes apart"
        if self.space_to_depth is None:
            return f"{self.value} in blocks of {self.block}"
        rows, columns = self.space_to_depth.stride
        return f"{self.value} in blocks of {self.block}, {rows}x{columns} pixels gathered"


@dataclass(frozen=True, slots=True)
class Life:
    """The size of a tensor in bytes, and the first and last step that access it."""

    tensor: Stored
    size: int
    first: int
    last: int


def share(lives: Iterable[Life]) -> tuple[dict[Stored, str], dict[str, int]]:
    """Return the place of each tensor, and the bytes of each place.

    Tensors are placed in the order of their first step. Each takes the free place of the nearest size.
    """
    numbers: dict[Stored, int] = {}
    sizes: list[int] = []
    free: list[tuple[int, int]] = []  # sizes and numbers of places, in order
    busy: list[tuple[int, int]] = []  # last step and number of each place, as a heap
    for life in sorted(lives, key=lambda life: (life.first, -life.size)):
        while busy and busy[0][0] < life.first:
            number = heappop(busy)[1]
            insort(free, (sizes[number], number))
        number = _nearest(free, life.size) if free else len(sizes)
        sizes += [0] * (number == len(sizes))
        sizes[number] = max(sizes[number], life.size)
        numbers[life.tensor] = number
        heappush(busy, (life.last, number))
    places = [f"place{number}" for number in range(len(sizes))]
    return {tensor: places[number] for tensor, number in numbers.items()}, dict(
        zip(places, sizes, strict=True)
    )


def _nearest(free: list[tuple[int, int]], size: int) -> int:
    """Take the free place that is large enough and nearest to a size, else the largest; return its number."""
    place = bisect_left(free, (size, -1))
    if place == len(free):
        place = bisect_left(free, (free[-1][0], -1))
    return free.pop(place)[1]
