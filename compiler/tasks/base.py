"""The interface of tasks: tiles, loop program, and address maps of operands; tiles of a tensor of planes.

A task is an operator with its sizes. A schedule is chosen per task. Equal tasks have equal programs.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Generic, TypeVar

from vdla.compiler.codegen.epilogue import Epilogue
from vdla.compiler.codegen.tiles import KEEPS, LOOPS, Tiles
from vdla.compiler.ir.nodes import Func, IrError
from vdla.compiler.operands.address_map import AddressMap
from vdla.compiler.te.operators.sizes import blocks
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType

BUS_BOUND_THREADS = (3, 2, 1)
"""Virtual threads of a task that the bus bounds: a load, the computation and a store overlap."""
WEIGHTS, PARAMETERS = "W", "P"
"""Operand names of the weights and of the parameters of requantisation, which are constants of a task."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of a task's schedule.

    Attributes:
        threads: number of virtual threads.
        tiles: tile sizes of a convolution; None for other tasks.
        parts: for other tasks, the tile is the largest of which `threads * parts` copies fit the scratchpads.
    """

    threads: int
    tiles: Tiles | None = None
    parts: int = 1

    @property
    def copies(self) -> int:
        """The number of tiles that must fit the scratchpads at once, for tasks other than convolutions."""
        return self.threads * self.parts


def choice_to_json(choice: Choice) -> dict[str, object]:
    """Return a choice as plain JSON values."""
    return asdict(choice)


def choice_from_json(values: Mapping[str, Any]) -> Choice:
    """Restore a choice from the values that `choice_to_json` returns.

    Raises:
        KeyError, TypeError, ValueError: the values are not a choice.
    """
    tiles = None if values["tiles"] is None else Tiles(**values["tiles"])
    numbers = [
        values["threads"],
        values["parts"],
        *([] if tiles is None else (tiles.outputs, tiles.rows, tiles.columns, tiles.inputs)),
    ]
    if not all(type(number) is int and number > 0 for number in numbers) or (
        tiles is not None and (tiles.threads_over not in LOOPS or tiles.keeps not in KEEPS)
    ):
        raise ValueError(f"{values} is not a choice")
    return Choice(values["threads"], tiles, values["parts"])


class Task(ABC):
    """An operator with its sizes.

    Attributes:
        THREADS: numbers of virtual threads to try, in order of preference.
    """

    __slots__ = ()
    THREADS: ClassVar[tuple[int, ...]] = (2, 1)

    @property
    def adds_residual(self) -> bool:
        """Whether the STOREs of results add a residual."""
        return False

    @property
    def epilogue(self) -> Epilogue:
        """The part of the epilogue that decides the task's cycles: addition of residuals, normalisation."""
        return Epilogue(adds=self.adds_residual)

    @abstractmethod
    def program(self, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program for a choice.

        Raises:
            IrError: the choice is not in the task's space.
        """

    def address_maps(self, config: AcceleratorConfig) -> dict[str, AddressMap]:
        """Return the address maps of the program's parameters that are not dense."""
        return {}


TileT = TypeVar("TileT")


class PartedTask(Task, Generic[TileT]):
    """A task whose tile is the largest of which a number of copies fit the scratchpads.

    Attributes:
        SMALLEST: the smallest tile, as error messages name it.
    """

    __slots__ = ()
    SMALLEST: ClassVar[str]

    @property
    def smallest(self) -> str:
        """The smallest tile, which must fit the scratchpads."""
        return self.SMALLEST

    @abstractmethod
    def tile(self, config: AcceleratorConfig, copies: int) -> TileT | None:
        """Return the largest tile of which `copies` fit the scratchpads, where that many virtual threads can
        share the tiles; None if there is none. Tiles are hashable."""

    def program(self, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program for a choice; see `Task.program`."""
        tile = self.tile(config, choice.copies)
        if tile is None:
            raise IrError(
                f"{self.smallest} does not fit the scratchpads of {config.name} {choice.copies} times; use "
                "fewer virtual threads or parts"
            )
        return self.tiled(tile, choice, config)

    @abstractmethod
    def tiled(self, tile: TileT, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program with a tile size."""


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


def rounds_of_tiles(elements: int, most: int, threads: int) -> tuple[int, int]:
    """Return the number of rounds of `threads` equal tiles of at most `most` elements, and the elements of a
    tile (0 if there are too few). The remaining elements, at most `most`, form a last tile."""
    rounds = blocks(elements, most * threads)
    tile = elements // (rounds * threads)
    if elements - rounds * threads * tile > most:
        return elements // (most * threads), most
    return rounds, tile


def divisors(number: int) -> list[int]:
    """Return the divisors of a positive number in ascending order."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
