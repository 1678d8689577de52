"""Tuning within another job: in its process, with so many trials for each task, and no log."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vdla.compiler.codegen.choice_cache import cached
from vdla.compiler.codegen.choose import Chooser
from vdla.compiler.codegen.tuned.best_records import TuningRecords, best_records
from vdla.compiler.codegen.tuned.chooser import RecordChooser
from vdla.compiler.codegen.tuned.record import TuningRecord
from vdla.compiler.tasks.base import Task
from vdla.explore.tune.features import SpacePoints
from vdla.explore.tune.history import history
from vdla.explore.tune.model import Measured
from vdla.explore.tune.proposals import making
from vdla.explore.tune.session import Session
from vdla.explore.tune.settings import Settings
from vdla.explore.workers.backends import here
from vdla.hw.spec.target import Target

SOURCE = "tuning within a job"
BATCH = 8  # trials of a task that are proposed together: the model learns even where trials are few


def taught(records: Iterable[TuningRecord], base: Target) -> tuple[Measured, ...]:
    """Return what records of presets and of one more target teach a model, see `history`."""
    measurements = (Measured.of(SpacePoints(space), cycles) for space, cycles in history(records, base, ()))
    return tuple(measured for measured in measurements if measured is not None)


@dataclass
class Kept:
    """Records in memory, in the place of a log."""

    records: list[TuningRecord] = field(default_factory=list)

    def append(self, records: Sequence[TuningRecord]) -> None:
        """Add records."""
        self.records += records


@dataclass(frozen=True)
class Tuned:
    """The result of tuning.

    Attributes:
        records: the best of every task.
        tasks: for which it saved cycles, compared with the compiler's default choice.
        trials: that it measured.
    """

    records: TuningRecords
    tasks: int
    trials: int

    def chooser(self) -> Chooser:
        """Return a chooser that takes the best choices; for other tasks the compiler chooses."""
        return RecordChooser(self.records, cached())


@dataclass(frozen=True, eq=False)
class Tuning:
    """How the tasks of a network are tuned. It can be pickled.

    The result follows from these, the tasks and the target alone.

    Attributes:
        explorer, seed: as in `Settings`.
        trials: for each task on the average; tasks that promise more get more.
        warm: what a model that learns knows from the beginning.
    """

    explorer: str
    seed: int
    trials: int
    warm: tuple[Measured, ...] = ()

    def tuned(self, layers: Mapping[Task, Sequence[str]], target: Target) -> Tuned:
        """Tune tasks, which occur in the layers of these names.

        Raises:
            TuneError: the compiler's default choice for a task cannot be measured.
            ToolError: xgboost is not installed and the explorer learns, or the cache of choices cannot be
                used.
        """
        log = Kept()
        settings = Settings(self.explorer, self.seed, self.trials * len(layers), batch=BATCH)
        done = Session(layers, target, log, settings, making(self.explorer, self.warm)).run(here)
        better = sum(standing.best < standing.default for standing in done.standings)
        return Tuned(best_records(SOURCE, log.records), better, done.trials)
