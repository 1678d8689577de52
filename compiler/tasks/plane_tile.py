"""Tiles of a tensor of planes: several whole planes, or part of a single plane."""

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType


@dataclass(frozen=True, slots=True)
class PlaneTile:
    """Some whole planes, or some elements of a single plane. The sizes divide the tensor.

    Attributes:
        blocks: number of planes. A plane holds a single block of channels.
        elements: number of elements of each plane.
    """

    blocks: int
    elements: int

    def loops(self, blocks: int, elements: int, threads: int) -> tuple[dict[str, int], str, str]:
        """Return the loops over the tiles (extents by name), and the first plane and the first element of a
        tile as expressions. The loop that `threads` virtual threads share is split."""
        block_trips, element_trips = blocks // self.blocks, elements // self.elements
        shared = f"(outer * {threads} + thread)"
        if self.elements == elements:
            return {"outer": block_trips // threads, "thread": threads}, f"{shared} * {self.blocks}", "0"
        loops = {"plane": block_trips, "outer": element_trips // threads, "thread": threads}
        return loops, "plane", f"{shared} * {self.elements}"


def plane_tile(blocks: int, elements: int, room: int, threads: int) -> PlaneTile | None:
    """Return the largest tile of which `threads` copies fit `room` elements and whose trip count `threads`
    divides, or None."""
    whole = [PlaneTile(count, elements) for count in divisors(blocks) if blocks // count % threads == 0]
    cut = [PlaneTile(1, count) for count in divisors(elements) if elements // count % threads == 0]
    fits = [tile for tile in (*whole, *cut) if tile.blocks * tile.elements * threads <= room]
    return max(fits, key=lambda tile: (tile.elements, tile.blocks), default=None)


def fit_memories(taken: Mapping[MemoryType, int], config: AcceleratorConfig) -> bool:
    """Whether the elements `taken` of each memory fit the scratchpads of `config`."""
    return all(count <= config.depth(memory) for memory, count in taken.items())


def divisors(number: int) -> list[int]:
    """Return the divisors of a positive number in ascending order."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
