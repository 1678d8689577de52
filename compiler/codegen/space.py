"""Spaces: the legal choices for a task on a target."""

from dataclasses import dataclass
from typing import assert_never

from vdla.compiler.codegen.after import After
from vdla.compiler.codegen.heads import rows_at_a_time, turn_tile
from vdla.compiler.codegen.maxima import maxima_tile
from vdla.compiler.codegen.planes import (
    diagonal_tile,
    factors_tile,
    mean_tile,
    repeat_tile,
    scaling_tile,
)
from vdla.compiler.codegen.schedules import elements_at_a_time, pooling_tile
from vdla.compiler.codegen.sums import elements_of_a_sum
from vdla.compiler.codegen.tasks import (
    ConvolutionTask,
    DiagonalTask,
    Elements,
    ElementsTask,
    FactorsTask,
    MaximumTask,
    MeanTask,
    PlaneTask,
    PoolingTask,
    RepeatTask,
    RowsTask,
    ScalingTask,
    SumTask,
    Task,
    TransposedTask,
    TurnTask,
)
from vdla.compiler.codegen.tiles import Tiles, TileTable, Work, fitting_tiles
from vdla.compiler.rules import Unfit
from vdla.compiler.te.operators.narrowing import AddingScale, Scale
from vdla.compiler.te.operators.sizes import Convolution
from vdla.compiler.te.operators.transposed import one_phase
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.target import Target

THREADS = (2, 1)  # virtual threads, in order of preference
MORE_THREADS = (
    4  # of convolutions that the bus bounds: loads and stores of several tiles are waited for at once
)
SUM_THREADS = (3, 2, 1)  # of sums, which the bus bounds: a load, sums and a store go on at once
OPERANDS = {Elements.ADD: 2, Elements.COPY: 1, Elements.MULTIPLY: 2, Elements.REQUANTISE: 1}


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of a space; `tiles` is None if the task has no tiles to choose."""

    threads: int
    tiles: Tiles | None = None


@dataclass(frozen=True, eq=False)
class Space:
    """The legal choices for a task: the preferred virtual threads that fit, and every tile that fits them.

    Attributes:
        work: the convolution that is tiled; None where there are no tiles to choose.
        table: its tiles; None likewise.
        more: choices with more virtual threads; None where there are none.
    """

    task: Task
    target: Target
    threads: int
    work: Work | None = None
    table: TileTable | None = None
    more: "Space | None" = None

    def __len__(self) -> int:
        own = 1 if self.table is None else len(self.table)
        return own if self.more is None else own + len(self.more)

    def __contains__(self, choice: Choice) -> bool:
        if self.more is not None and choice in self.more:
            return True
        if self.table is None or choice.tiles is None or choice.threads != self.threads:
            return choice == Choice(self.threads) and self.table is None
        return self.table.holds(choice.tiles)

    def __str__(self) -> str:
        return f"{self.task} on {self.target.name}: {len(self)} choices with {self.threads} virtual threads"

    def choice(self, place: int) -> Choice:
        """Return one of the choices."""
        return Choice(self.threads, None if self.table is None else self.table.tiles(place))


def space_of(task: Task, target: Target) -> Space | Unfit:
    """Return the choices for `task` on `target`, or Unfit with the reason if there are none."""
    match task:
        case ConvolutionTask(size):
            return _tiled(task, target, size, alike=task.alike, slides=task.slides)
        case TransposedTask(size):
            return _tiled(task, target, one_phase(size), alike=False)
        case PoolingTask(size):
            fits = [threads for threads in THREADS if pooling_tile(size, target.config, threads) is not None]
            what = f"a window of {size.kernel}"
        case ElementsTask(kind):
            sets = 0 if kind is Elements.COPY else 1
            fits = [
                threads
                for threads in THREADS
                if elements_at_a_time(target.config, sets, OPERANDS[kind], threads) > 0
            ]
            what = f"one element of {kind}"
        case MaximumTask(size):
            fits = [threads for threads in THREADS if maxima_tile(size, target.config, threads) is not None]
            what = f"a window of {size.kernel}"
        case SumTask():
            fits = [threads for threads in SUM_THREADS if elements_of_a_sum(target.config, threads) > 0]
            what = "one element of a sum"
        case FactorsTask() | ScalingTask() | DiagonalTask() | MeanTask() | RepeatTask():
            fits, what = _of_planes(task, target.config)
        case RowsTask(count):
            fits = [
                threads
                for threads in THREADS
                if rows_at_a_time(target.config, threads) and count % threads == 0
            ]
            what = "one block of rows"
        case TurnTask():
            fits = [threads for threads in THREADS if turn_tile(task, target.config, threads) is not None]
            what = "one block of weights"
        case _:
            assert_never(task)
    return _preferred(task, target, fits, what)


def _preferred(task: Task, target: Target, fits: list[int], what: str) -> Space | Unfit:
    """Return the choice with the first number of virtual threads that fits; `what` does not if none does."""
    if not fits:
        return Unfit(f"{what} does not fit the accumulators of {target.name}")
    return Space(task, target, fits[0])


def _of_planes(task: PlaneTask, config: AcceleratorConfig) -> tuple[list[int], str]:
    """Return the numbers of virtual threads for which a task over planes fits, the best first, and what must
    fit."""
    match task:
        case FactorsTask():
            fits = [threads for threads in SUM_THREADS if factors_tile(task, config, threads) is not None]
            return fits, "one element of a product"
        case ScalingTask():
            fits = [threads for threads in THREADS if scaling_tile(task, config, threads) is not None]
            return fits, "one element of a product"
        case DiagonalTask():
            fits = [threads for threads in THREADS if diagonal_tile(task, config, threads) is not None]
            return fits, "one block of factors"
        case MeanTask():
            fits = [threads for threads in THREADS if mean_tile(task, config, threads) is not None]
            return fits, "one sum for each channel"
        case RepeatTask():
            fits = [threads for threads in SUM_THREADS if repeat_tile(task, config, threads) is not None]
            return fits, "one row of a repeated image"
        case _:
            assert_never(task)


def _tiled(
    task: ConvolutionTask | TransposedTask,
    target: Target,
    size: Convolution,
    *,
    alike: bool,
    slides: bool = False,
) -> Space | Unfit:
    reserved = After(adds=isinstance(task.narrowing, AddingScale)).reserved
    scales = isinstance(task.narrowing, Scale)

    def with_threads(threads: int, more: Space | None = None) -> Space | None:
        """Return the space of the tiles that fit with `threads` virtual threads; None if there are none."""
        alternating = task.reads, task.writes
        work = Work(
            size, target.config, threads, scales, alike, slides, target.memory, reserved, *alternating
        )
        table = fitting_tiles(work)
        return Space(task, target, threads, work, table, more) if len(table) else None

    more = with_threads(MORE_THREADS)
    for threads in THREADS:
        found = with_threads(threads, more)
        if found is not None:
            return found
    return Unfit(f"no tile of {size} fits the memories of {target.name}")
