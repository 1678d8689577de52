"""Spaces: the legal choices for a task on a target."""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.tiles import KEEPS, USUAL, TileTable, Work, fitting_tiles, short_memories
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Choice, PartedTask, Task
from vdla.compiler.tasks.convolution import TiledTask
from vdla.hw.spec.target import Target
from vdla.runtime.module.reasons import reason_of

MORE_THREADS = 4  # of convolutions that the bus bounds: several tiles wait for loads and stores at once
SEARCHED_THREADS = (1, 2, 3, 4, 6, 8)
SEARCHED_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
KNOBS = ("threads", "outputs", "rows", "columns", "inputs", "keeps", "threads_over", "parts")
IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Family:
    """The choices of a space with one number of virtual threads.

    Attributes:
        work: the convolution that is tiled; None for other tasks.
        table: its tiles.
        parts: of a task that is no convolution.
    """

    threads: int
    work: Work | None = None
    table: TileTable | None = None
    parts: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.parts) if self.table is None else len(self.table)

    def choice(self, place: int) -> Choice:
        """Return one of the choices."""
        if self.table is None:
            return Choice(self.threads, parts=self.parts[place])
        return Choice(self.threads, self.table.tiles(place))

    def place(self, choice: Choice) -> int | None:
        """Return the place of a choice; None where it is not one of them."""
        if choice.threads != self.threads or (choice.tiles is None) != (self.table is None):
            return None
        if self.table is not None and choice.tiles is not None:
            return self.table.place(choice.tiles) if choice.parts == 1 else None
        return self.parts.index(choice.parts) if choice.parts in self.parts else None

    @property
    def knobs(self) -> IntArray:
        """int64[n, KNOBS]: the choices as numbers; what a task does not have is 0."""
        if self.table is None:
            columns = {"parts": np.array(self.parts, np.int64)}
        else:
            columns = {name: getattr(self.table, name) for name in TileTable.__dataclass_fields__}
        columns["threads"] = np.full(len(self), self.threads, np.int64)
        none = np.zeros(len(self), np.int64)
        return np.stack([columns.get(name, none) for name in KNOBS], axis=1)


@dataclass(frozen=True, eq=False)
class Space:
    """The legal choices for a task: what is chosen by default, and what a search may choose beside it.

    Attributes:
        usual: the choices among which the default is made: those with the preferred virtual threads that fit.
        more: tiles with MORE_THREADS that the default may have as well; None where there are none.
    """

    task: Task
    target: Target
    usual: Family
    more: Family | None = None

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """All choices, by their virtual threads."""
        return tuple(family for family in map(self.family, SEARCHED_THREADS) if len(family))

    def family(self, threads: int) -> Family:
        """Return the choices with so many virtual threads; it may be empty."""
        return _family(self.task, self.target, threads)

    @property
    def threads(self) -> int:
        """The preferred virtual threads."""
        return self.usual.threads

    def __len__(self) -> int:
        return sum(map(len, self.families))

    def __contains__(self, choice: Choice) -> bool:
        return choice.threads in SEARCHED_THREADS and self.family(choice.threads).place(choice) is not None

    def __str__(self) -> str:
        return f"{self.task} on {self.target.name}: {len(self)} choices, {self.threads} threads preferred"

    def choice(self, place: int) -> Choice:
        """Return the choice in a place from 0 to len - 1."""
        for family in self.families:
            if place < len(family):
                return family.choice(place)
            place -= len(family)
        raise IndexError(place)

    def place(self, choice: Choice) -> int | None:
        """Return the place of a choice; None where it is not legal."""
        before = 0
        for family in self.families:
            found = family.place(choice)
            if found is not None:
                return before + found
            before += len(family)
        return None

    @cached_property
    def knobs(self) -> IntArray:
        """int64[len, KNOBS]: the choices as numbers; what the task does not have is 0."""
        return np.concatenate([family.knobs for family in self.families])


def space_of(task: Task, target: Target) -> Space | Unfit:
    """Return the choices for `task` on `target`, or Unfit with the reason if there are none."""
    for threads in task.THREADS:
        family = _family(task, target, threads, usual=True)
        if not len(family):
            continue
        more = None if family.work is None else _family(task, target, MORE_THREADS, usual=True)
        return Space(task, target, family, more if more is not None and len(more) else None)
    if isinstance(task, TiledTask):
        return _no_tile(task, target)
    assert isinstance(task, PartedTask), f"{task} is of one of the two kinds"
    return Unfit(f"{task.smallest} does not fit the accumulators of {target.name}")


def _no_tile(task: TiledTask, target: Target) -> Unfit:
    """Return why no tile of a task fits: the scratchpads that are too small, and what the nearest tile
    takes."""
    found = f"no tile of {task.size} fits the memories of {target.name}"
    short = {
        f"{memory.name.lower()}_buffer_bytes": taken
        for memory, taken in short_memories(task.work(target, task.THREADS[-1])).items()
    }
    if not short:
        return Unfit(found)
    takes = " and ".join(
        f"{taken:,} bytes where {name} = {getattr(target.config, name):,}" for name, taken in short.items()
    )
    return Unfit(reason_of(f"{found}: the smallest takes {takes}", f"use larger {' and '.join(short)}"))


def _family(task: Task, target: Target, threads: int, *, usual: bool = False) -> Family:
    """Return the choices with `threads` virtual threads; `usual`: only the candidates of the default
    choice."""
    if isinstance(task, TiledTask):
        work = task.work(target, threads)
        return Family(threads, work, fitting_tiles(work, USUAL if usual else KEEPS))
    assert isinstance(task, PartedTask), f"{task} is of one of the two kinds"
    parts, tiles = [], set[object]()
    for count in (1,) if usual else SEARCHED_PARTS:
        tile = task.tile(target.config, threads * count)
        if tile is not None and tile not in tiles:
            tiles.add(tile)
            parts.append(count)
    return Family(threads, parts=tuple(parts))
