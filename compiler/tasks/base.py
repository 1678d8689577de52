"""The interface of tasks: tiles, loop program, and address maps of operands.

A task is an operator with its sizes. A schedule is chosen per task. Equal tasks have equal programs.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from vdla.compiler.codegen.tiles import Tiles
from vdla.compiler.ir.nodes import Func, IrError
from vdla.compiler.operands.address_map import AddressMap
from vdla.hw.spec.config import AcceleratorConfig

BUS_BOUND_THREADS = (3, 2, 1)
"""Virtual threads of a task that the bus bounds: a load, the computation and a store overlap."""


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
