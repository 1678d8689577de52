"""Static memory planning: where the values of a network lie in the accelerator's DRAM.

`DramValues` gives each stored value its operand: a tensor, the tensor of another value with the same bytes,
or segments of other tensors. `share` lets tensors that are never live at the same time share DRAM.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from vdla.compiler.network.partition import Part
from vdla.compiler.network.placed import Offloaded, OnHost, Piece, Stored, View
from vdla.compiler.operands.address_map import Joined, Operand, TensorSegment, cut
from vdla.compiler.tasks.elementwise import Elements, ElementsTask


class DramValues:
    """The values of a network in DRAM.

    Args:
        parts: the parts of the network, in the order in which they run.
        outputs: outputs of the network.
        joins: operators may read segments of several tensors.

    Attributes:
        written: each value that the accelerator makes, in the layout in which it makes it.
        assembled: results of copies whose sources are written into the place of the result.
        leaving: for each part, its values that other parts read or that are outputs of the network, in order.
    """

    def __init__(self, parts: Sequence[Part], outputs: Sequence[str], *, joins: bool) -> None:
        self.written: dict[str, Stored] = {}
        self.assembled: set[Stored] = set()
        self._makers: dict[str, int] = {}
        self._operands: dict[Stored, Operand] = {}
        read = set(outputs)
        for number, part in enumerate(parts):
            for placed in part:
                read.update(name for name in placed.node.inputs if self._makers.get(name) != number)
                self._makers |= dict.fromkeys(placed.node.outputs, number)
        self.leaving = [
            [name for placed in part for name in placed.node.outputs if name in read] for part in parts
        ]
        for part, leaving in zip(parts, self.leaving, strict=True):
            self._add(part, leaving, joins)

    def _add(self, part: Part, leaving: Iterable[str], joins: bool) -> None:
        """Add the values of a part. A View has the operand of its input. A copy of whole elements that only
        operators of the same launch read has segments of its sources. The sources of another copy, if only
        operators of the launch read them, lie in its result."""
        views = (name for placed in part if isinstance(placed, View) for name in placed.node.inputs)
        kept = {*leaving, *views}
        made = {placed.output: placed for placed in part if isinstance(placed, Offloaded)}
        movable = [each for each, maker in made.items() if each.value not in kept and not is_copy(maker)]
        for copy in made.values():
            if joins and is_copy(copy) and copy.output.value in kept:
                self._assemble(copy, movable)
        for placed in part:
            if isinstance(placed, OnHost):
                continue
            stored = self.written[placed.output.value] = placed.output
            if isinstance(placed, View):
                self._operands[stored] = self.operand(self.written[placed.node.inputs[0]])
            elif joins and is_copy(placed) and stored.value not in kept:
                self._operands[stored] = self._joined(placed)

    def _assemble(self, copy: Offloaded, movable: Collection[Stored]) -> None:
        """Put the sources of a copy into the place of its result, if they are distinct, copied whole, among
        the `movable`, and not yet in the result of another copy."""
        placed = {*movable} - {*self._operands}
        sources = [each for piece in copy.pieces if (each := _whole_source(copy, piece)) in placed]
        if len({*sources}) < len(copy.pieces):
            return
        self.assembled.add(copy.output)
        result = self.operand(copy.output)
        for piece, source in zip(copy.pieces, sources, strict=True):
            self._operands[source] = result.after(piece.operands.get("Z", ("Z", 0))[1])

    def _joined(self, copy: Offloaded) -> Operand:
        """Return the operand of the result of a copy: the segments that hold its elements, in order."""
        segments: list[TensorSegment] = []
        for piece in copy.pieces:
            assert isinstance(piece.task, ElementsTask), f"{copy} copies"
            name, first = piece.operands.get("A", ("A", 0))
            source, count = self.operand(copy.inputs[name]), piece.task.elements
            known = source.address_map
            whole = (TensorSegment(source.tensor, source.begin, first + count),)
            segments += cut(known.segments if isinstance(known, Joined) else whole, first, count)
        joined = Joined(cut(segments, 0, sum(segment.count for segment in segments)))
        return Operand(joined.segments[0].tensor, address_map=joined)

    def operand(self, stored: Stored) -> Operand:
        """Return where a value lies in a layout. A layout that no operator writes has a tensor of its own."""
        if stored not in self._operands:
            self._operands[stored] = Operand(f"tensor{len(self._operands)}")
        return self._operands[stored]

    def is_written(self, stored: Stored) -> bool:
        """Whether instructions, or the host, write a value, and not only its segments."""
        return not isinstance(self.operand(stored).address_map, Joined)

    def takes_instructions(self, operator: Offloaded) -> bool:
        """Whether an operator needs instructions. A copy needs none if its result is a list of segments of
        other values, or if other operators write its sources directly into its result."""
        return self.is_written(operator.output) and operator.output not in self.assembled

    def comes_in(self, name: str, number: int) -> bool:
        """Whether the bytes of a value are written outside part `number`."""
        return self._makers.get(name) != number


def is_copy(operator: Offloaded) -> bool:
    """Whether an operator only copies elements."""
    return all(
        isinstance(piece.task, ElementsTask) and piece.task.kind is Elements.COPY for piece in operator.pieces
    )


def _whole_source(copy: Offloaded, piece: Piece) -> Stored | None:
    """Return the value that a piece of a copy copies; None if it copies a part."""
    assert isinstance(piece.task, ElementsTask), f"{copy} copies"
    name, first = piece.operands.get("A", ("A", 0))
    source = copy.inputs[name]
    whole = piece.task.elements * source.layout.batch * source.layout.block == source.layout.size
    return source if whole and not first else None


@dataclass(frozen=True, slots=True)
class Life:
    """The size of a tensor in bytes, and the first and last step that access it."""

    tensor: str
    size: int
    first: int
    last: int


def share(lives: Iterable[Life]) -> tuple[dict[str, str], dict[str, int]]:
    """Return the place of each tensor, and the bytes of each place.

    Tensors are placed in the order of their first step. Each takes the free place of the nearest size.
    """
    numbers: dict[str, int] = {}
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
