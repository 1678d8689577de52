"""Static memory planning: tensors that are never live at the same time share DRAM."""

from collections.abc import Iterable
from dataclasses import dataclass

from vdla.runtime.layout import SpaceToDepth
from vdla.runtime.windows import Windows


@dataclass(frozen=True, slots=True)
class Stored:
    """A value in one of the ways in which it stands in the accelerator's DRAM; it prints.

    Attributes:
        value: whose bytes these are.
        block: channels of an element.
        space_to_depth: the pixels that are gathered; None where none are.
        windows: how packed pixels are read; None where they stand in blocks.
        stack: matrices that stand one behind another; 0 where none do.
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
    places: dict[Stored, str] = {}
    sizes: dict[str, int] = {}
    busy_until: dict[str, int] = {}
    for life in sorted(lives, key=lambda life: (life.first, -life.size)):
        free = [place for place, last in busy_until.items() if last < life.first]
        place = min(free, key=lambda place: _waste(sizes[place], life.size), default=None)
        if place is None:
            place = f"place{len(sizes)}"
            sizes[place] = 0
        places[life.tensor] = place
        sizes[place], busy_until[place] = max(sizes[place], life.size), life.last
    return places, sizes


def _waste(place: int, size: int) -> tuple[bool, int]:
    """Return a sort key for places: large enough ones first, then the nearest size."""
    return place < size, abs(place - size)
