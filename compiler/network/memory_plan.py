"""Static memory planning: where the values of a network lie in the accelerator's DRAM.

`DramValues` gives each stored value its operand: a tensor, the tensor of another value with the same bytes,
or segments of other tensors. `share` lets tensors that are never live at the same time share DRAM.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush

from vdla.compiler.discovery import declared
from vdla.compiler.layouts.joined import copied, joins, sources_in
from vdla.compiler.network.partition import Part
from vdla.compiler.network.placed import InnerValue, LayoutRule, Offloaded, OnHost, Stored, View
from vdla.compiler.operands.address_map import DENSE, Operand
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
        leaving: for each part, its values that other parts read or that are outputs of the network, in order.
    """

    def __init__(self, parts: Sequence[Part], outputs: Sequence[str], config: AcceleratorConfig) -> None:
        self.config = config
        self.written: dict[str, Stored] = {}
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
        """Add the values of a part. A View has the operand of its input. A copy that leaves the launch lies
        where its sources lie, if these can be arranged. Other values that only operators of the launch read
        have the first of `LAYOUTS` that they can have, else a dense tensor."""
        launch = _Launch.of(part, leaving)
        self.written |= launch.written
        leaving_copies = [copy for copy in launch.makers.values() if launch.is_kept(copy) and copy.copied]
        for copy in leaving_copies if joins(self.config) else ():
            self._assemble(copy, launch)
        incoming = {self.operand(each).tensor for each in launch.readers if each not in launch.outputs}
        for placed in launch.operators:
            stored = placed.output
            if isinstance(placed, View):
                self._operands[stored] = self.operand(launch.written[placed.node.inputs[0]])
            elif stored in self._operands:
                continue
            elif not launch.is_kept(placed):
                value = InnerValue(placed, tuple(launch.readers.get(stored, ())), self.config, self.operand)
                operands = (rule(value) for rule in LAYOUTS.values())
                operand = next((each for each in operands if each is not None), None)
                if operand is not None:
                    self._operands[stored] = operand
            elif placed.copied and joins(self.config):
                operand = copied(placed, self.operand)
                if operand.address_map == DENSE and operand.tensor not in incoming:
                    self._operands[stored] = operand

    def _assemble(self, copy: Offloaded, launch: "_Launch") -> None:
        """Put the sources of a copy, or the values whose views they are, into the place of its result. They
        must be distinct, copied whole, read in the launch alone, no copies, and not yet in the result of
        another copy. A source must be contiguous in the result if the STOREs of its epilogue cannot be
        split."""
        places = _places(copy, Operand(""), launch)

        def can_move(source: Stored) -> bool:
            maker = launch.makers.get(source)
            if maker is None or launch.is_kept(maker) or maker.copied or source in self._operands:
                return False
            return maker.epilogue.splits or places[source].address_map == DENSE

        if len(places) == len({*copy.inputs.values()}) and all(map(can_move, places)):
            self._operands |= _places(copy, self.operand(copy.output), launch)

    def operand(self, stored: Stored) -> Operand:
        """Return where a value lies in a layout. A layout that no operator writes has a separate tensor."""
        if stored not in self._operands:
            self._operands[stored] = Operand(f"tensor{len(self._operands)}")
        return self._operands[stored]

    def size(self, stored: Stored) -> int:
        """Return the bytes of a value in its tensor; 0 if it consists of segments of other values."""
        return self.operand(stored).address_map.size(stored.layout.size)

    def takes_instructions(self, operator: Offloaded) -> bool:
        """Whether an operator needs instructions. A copy needs none if its result lies where its sources
        lie."""
        return not operator.copied or copied(operator, self.operand) != self.operand(operator.output)

    def comes_in(self, name: str, number: int) -> bool:
        """Whether the bytes of a value are written outside part `number`."""
        return self._makers.get(name) != number


@dataclass(frozen=True)
class _Launch:
    """The operators of a part on the accelerator, and the uses of their values.

    Attributes:
        kept: values that leave the launch, directly or as views.
        readers: the operators that read each value, directly or through views.
    """

    operators: tuple[Offloaded | View, ...]
    kept: Collection[str]
    readers: Mapping[Stored, Sequence[Offloaded]]

    @classmethod
    def of(cls, part: Part, leaving: Iterable[str]) -> "_Launch":
        """Return the launch of a part.

        Args:
            leaving: values of the part that other parts read or that are outputs of the network.
        """
        operators = tuple(placed for placed in part if not isinstance(placed, OnHost))
        written = {placed.output.value: placed.output for placed in operators}
        kept, readers = {*leaving}, dict[Stored, list[Offloaded]]()
        for placed in reversed(operators):
            if isinstance(placed, Offloaded):
                for stored in dict.fromkeys(placed.inputs.values()):
                    readers.setdefault(stored, []).insert(0, placed)
                continue
            source = written[placed.node.inputs[0]]
            kept |= {source.value} if placed.output.value in kept else set()
            readers.setdefault(source, []).extend(readers.get(placed.output, ()))
        return cls(operators, kept, readers)

    @cached_property
    def written(self) -> dict[str, Stored]:
        """Each value that the launch makes, in the layout in which it makes it."""
        return {placed.output.value: placed.output for placed in self.operators}

    @cached_property
    def outputs(self) -> set[Stored]:
        """The values of `written`."""
        return {*self.written.values()}

    @cached_property
    def makers(self) -> dict[Stored, Offloaded]:
        """The operator that makes each value that is no view."""
        return {placed.output: placed for placed in self.operators if isinstance(placed, Offloaded)}

    @cached_property
    def _views(self) -> dict[Stored, Stored]:
        return {
            placed.output: self.written[placed.node.inputs[0]]
            for placed in self.operators
            if isinstance(placed, View)
        }

    def viewed(self, stored: Stored) -> Stored:
        """Return the value whose view a value is; a value that is no view itself."""
        while stored in self._views:
            stored = self._views[stored]
        return stored

    def is_kept(self, operator: Offloaded) -> bool:
        """Whether the result of an operator leaves the launch."""
        return operator.output.value in self.kept


def _places(copy: Offloaded, result: Operand, launch: _Launch) -> dict[Stored, Operand]:
    """Return where the sources of a copy lie in its result, by the values whose views they are."""
    return {launch.viewed(source): place for source, place in sources_in(copy, result).items()}


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
