"""Static memory planning: tensors that are never needed at the same time share their place in DRAM."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Life:
    """A tensor's size in bytes, and the first and last step that touches it."""

    name: str
    size: int
    first: int
    last: int


def share(lives: Iterable[Life]) -> tuple[dict[str, str], dict[str, int]]:
    """Return the place of each tensor, and the bytes of each place.

    Tensors are placed in the order in which they come to life; each takes the free place whose size is
    nearest to its own.
    """
    places: dict[str, str] = {}
    sizes: dict[str, int] = {}
    busy_until: dict[str, int] = {}
    for life in sorted(lives, key=lambda life: (life.first, -life.size)):
        free = [place for place, last in busy_until.items() if last < life.first]
        place = min(free, key=lambda place: _waste(sizes[place], life.size), default=None)
        if place is None:
            place = f"place{len(sizes)}"
            sizes[place] = 0
        places[life.name] = place
        sizes[place], busy_until[place] = max(sizes[place], life.size), life.last
    return places, sizes


def _waste(place: int, size: int) -> tuple[bool, int]:
    """Order places: those that are large enough first, and then the nearest."""
    return place < size, abs(place - size)
