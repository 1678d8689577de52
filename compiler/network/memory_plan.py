"""Static memory planning: where the values of a network lie in the accelerator's DRAM.

`DramValues` gives each stored value its operand: a tensor, the tensor of another value with the same bytes,
or segments of other tensors. `share` lets tensors that are never live at the same time share DRAM.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from vdla.compiler.discovery import declared
from vdla.compiler.layouts.joined import is_copy, joins
from vdla.compiler.network.partition import Part
from vdla.compiler.network.placed import InnerValue, LayoutRule, Offloaded, OnHost, Piece, Stored, View
from vdla.compiler.operands.address_map import Operand
from vdla.compiler.tasks.elementwise import ElementsTask
from vdla.hw.spec.config import AcceleratorConfig

LAYOUTS: Mapping[str, LayoutRule] = declared("vdla.compiler.layouts", "LAYOUTS")


class DramValues:
    """The values of a network in DRAM.

    Args:
        parts: the parts of the network, in the order in which they run.
        outputs: outputs of the network.
        config: configuration of the accelerator.

    Attributes:
        written: each value that the accelerator makes, in the layout in which it makes it.
        assembled: results of copies whose sources are written into the place of the result.
        leaving: for each part, its values that other parts read or that are outputs of the network, in order.
    """

    def __init__(self, parts: Sequence[Part], outputs: Sequence[str], config: AcceleratorConfig) -> None:
        self.config = config
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
            self._add(part, leaving)

    def _add(self, part: Part, leaving: Iterable[str]) -> None:
        """Add the values of a part. A View has the operand of its input. If a copy leaves the launch, its
        sources lie in its result, unless they leave the launch, too. Other values that only operators of the
        launch read have the first of `LAYOUTS` that they can have, else a dense tensor."""
        views = (name for placed in part if isinstance(placed, View) for name in placed.node.inputs)
        kept = {*leaving, *views}
        made = {placed.output: placed for placed in part if isinstance(placed, Offloaded)}
        readers: dict[Stored, list[Offloaded]] = {}
        for operator in made.values():
            for stored in dict.fromkeys(operator.inputs.values()):
                readers.setdefault(stored, []).append(operator)
        movable = [each for each, maker in made.items() if each.value not in kept and not is_copy(maker)]
        for copy in made.values():
            if joins(self.config) and is_copy(copy) and copy.output.value in kept:
                self._assemble(copy, movable)
        for placed in part:
            if isinstance(placed, OnHost):
                continue
            stored = self.written[placed.output.value] = placed.output
            if isinstance(placed, View):
                self._operands[stored] = self.operand(self.written[placed.node.inputs[0]])
            elif stored.value not in kept and stored not in self._operands:
                value = InnerValue(placed, tuple(readers.get(stored, ())), self.config, self.operand)
                operands = (rule(value) for rule in LAYOUTS.values())
                operand = next((each for each in operands if each is not None), None)
                if operand is not None:
                    self._operands[stored] = operand

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

    def operand(self, stored: Stored) -> Operand:
        """Return where a value lies in a layout. A layout that no operator writes has a tensor of its own."""
        if stored not in self._operands:
            self._operands[stored] = Operand(f"tensor{len(self._operands)}")
        return self._operands[stored]

    def size(self, stored: Stored) -> int:
        """Return the bytes of a value in its tensor; 0 if it consists of segments of other values."""
        return self.operand(stored).address_map.size(stored.layout.size)

    def takes_instructions(self, operator: Offloaded) -> bool:
        """Whether an operator needs instructions. A copy needs none if its result is a list of segments of
        other values, or if other operators write its sources directly into its result."""
        return self.size(operator.output) > 0 and operator.output not in self.assembled

    def comes_in(self, name: str, number: int) -> bool:
        """Whether the bytes of a value are written outside part `number`."""
        return self._makers.get(name) != number


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
