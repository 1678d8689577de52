"""Spaces of choices: all legal choices for a task on a target."""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.tiles import (
    DEFAULT_KEEPS,
    KEEPS,
    TileTable,
    TilingProblem,
    fitting_tiles,
    short_memories,
)
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Choice, PartedTask, Task
from vdla.compiler.tasks.convolution import TiledTask
from vdla.hw.spec.target import Target
from vdla.runtime.module.reasons import reason_of

MORE_THREADS = 4  # for convolutions that the bus bounds: several tiles wait for loads and stores at once
SEARCHED_THREADS = (1, 2, 3, 4, 6, 8)
SEARCHED_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
KNOBS = ("threads", "outputs", "rows", "columns", "inputs", "keeps", "threads_over", "parts")
IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ChoiceFamily:
    """The choices of a space with a given number of virtual threads.

    Attributes:
        threads: number of virtual threads.
        work: tiling problem of a convolution; None for other tasks.
        table: tile sizes of a convolution; None for other tasks.
        parts: values of `Choice.parts` for other tasks.
    """

    threads: int
    work: TilingProblem | None = None
    table: TileTable | None = None
    parts: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.parts) if self.table is None else len(self.table)

    def choice(self, place: int) -> Choice:
        """Return the choice at index `place`."""
        if self.table is None:
            return Choice(self.threads, parts=self.parts[place])
        return Choice(self.threads, self.table.tiles(place))

    def place(self, choice: Choice) -> int | None:
        """Return the index of a choice, or None."""
        if choice.threads != self.threads or (choice.tiles is None) != (self.table is None):
            return None
        if self.table is not None and choice.tiles is not None:
            return self.table.place(choice.tiles) if choice.parts == 1 else None
        return self.parts.index(choice.parts) if choice.parts in self.parts else None

    @property
    def knobs(self) -> IntArray:
        """int64[n, KNOBS]: the choices as numbers; knobs that a task lacks are 0."""
        if self.table is None:
            columns = {"parts": np.array(self.parts, np.int64)}
        else:
            columns = {name: getattr(self.table, name) for name in TileTable.__dataclass_fields__}
        columns["threads"] = np.full(len(self), self.threads, np.int64)
        zeros = np.zeros(len(self), np.int64)
        return np.stack([columns.get(name, zeros) for name in KNOBS], axis=1)


@dataclass(frozen=True, eq=False)
class ChoiceSpace:
    """The legal choices for a task: candidates of the default choice, and further choices of a search.

    Attributes:
        usual: candidates of the default choice, with the preferred number of virtual threads that fits.
        more: further candidates of the default choice, with MORE_THREADS; None if there are none.
        lasting: the weights stay on chip from run to run of the task, if the choice loads them at once.
    """

    task: Task
    target: Target
    usual: ChoiceFamily
    more: ChoiceFamily | None = None
    lasting: bool = False

    @cached_property
    def families(self) -> tuple[ChoiceFamily, ...]:
        """All choices, grouped by virtual threads."""
        return tuple(family for family in map(self.family, SEARCHED_THREADS) if len(family))

    def family(self, threads: int) -> ChoiceFamily:
        """Return the choices with `threads` virtual threads; the family may be empty."""
        return _family(self.task, self.target, threads)

    @property
    def threads(self) -> int:
        """Preferred number of virtual threads."""
        return self.usual.threads

    def __len__(self) -> int:
        return sum(map(len, self.families))

    def __contains__(self, choice: Choice) -> bool:
        return choice.threads in SEARCHED_THREADS and self.family(choice.threads).place(choice) is not None

    def __str__(self) -> str:
        return f"{self.task} on {self.target.name}: {len(self)} choices, {self.threads} threads preferred"

    def choice(self, place: int) -> Choice:
        """Return the choice at index `place`.

        Raises:
            IndexError: the index is not in 0..len - 1.
        """
        for family in self.families:
            if place < len(family):
                return family.choice(place)
            place -= len(family)
        raise IndexError(place)

    def place(self, choice: Choice) -> int | None:
        """Return the index of a choice; None if it is not legal."""
        preceding = 0
        for family in self.families:
            place = family.place(choice)
            if place is not None:
                return preceding + place
            preceding += len(family)
        return None

    @cached_property
    def knobs(self) -> IntArray:
        """int64[len, KNOBS]: the choices as numbers; knobs that the task lacks are 0."""
        return np.concatenate([family.knobs for family in self.families])


def space_of(task: Task, target: Target) -> ChoiceSpace | Unfit:
    """Return the space of `task` on `target`, or Unfit with the reason if it is empty."""
    for threads in task.THREADS:
        family = _family(task, target, threads, usual=True)
        if not len(family):
            continue
        more = None if family.work is None else _family(task, target, MORE_THREADS, usual=True)
        return ChoiceSpace(task, target, family, more if more is not None and len(more) else None)
    if isinstance(task, TiledTask):
        return _no_tile(task, target)
    assert isinstance(task, PartedTask), f"{task} is of one of the two kinds"
    return Unfit(f"{task.smallest} does not fit the accumulators of {target.name}")


def _no_tile(task: TiledTask, target: Target) -> Unfit:
    """Return the reason why no tile of a task fits: the scratchpads that are too small, and the sizes that
    the nearest tile requires."""
    reason = f"no tile of {task.size} fits the memories of {target.name}"
    short = {
        f"{memory.name.lower()}_buffer_bytes": taken
        for memory, taken in short_memories(task.work(target, task.THREADS[-1])).items()
    }
    if not short:
        return Unfit(reason)
    takes = " and ".join(
        f"{taken:,} bytes where {name} = {getattr(target.config, name):,}" for name, taken in short.items()
    )
    return Unfit(reason_of(f"{reason}: the smallest takes {takes}", f"use larger {' and '.join(short)}"))


def _family(task: Task, target: Target, threads: int, *, usual: bool = False) -> ChoiceFamily:
    """Return the choices with `threads` virtual threads; with `usual`, only candidates of the default
    choice."""
    if isinstance(task, TiledTask):
        work = task.work(target, threads)
        return ChoiceFamily(threads, work, fitting_tiles(work, DEFAULT_KEEPS if usual else KEEPS))
    assert isinstance(task, PartedTask), f"{task} is of one of the two kinds"
    parts, tiles = [], set[object]()
    for count in (1,) if usual else SEARCHED_PARTS:
        tile = task.tile(target.config, threads * count)
        if tile is not None and tile not in tiles:
            tiles.add(tile)
            parts.append(count)
    return ChoiceFamily(threads, parts=tuple(parts))
