"""Static memory planning: tensors that are never live at the same time share DRAM."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

from vdla.runtime.layout import SpaceToDepth
from vdla.runtime.windows import Windows


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
