"""Tuning of a network: which choice of which task is measured next, until the budget is spent.

What is proposed follows from the log at the start, the seed and the cycles that were measured. It depends on
neither the number of workers nor their speed. A tuning that was interrupted makes the same proposals again,
and takes what was measured from its log.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from vdla.compiler.codegen.space import ChoiceSpace, space_of
from vdla.compiler.codegen.tuned.record import TuneError, TuningRecord
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Task, choice_from_json
from vdla.explore.tune.explorers import Explorer
from vdla.explore.tune.gain import Standing, next_of
from vdla.explore.tune.known import Known, cost
from vdla.explore.tune.measure import Measured, Measuring, Start, Started, Trial
from vdla.explore.tune.settings import Settings
from vdla.explore.workers.job import Backend
from vdla.hw.spec.target import Target

TRIALS_PER_WORKER = 2000  # then a new process takes over: memos grow
SECONDS_PER_MINUTE = 60


Results = Mapping[int, float]
"""Cycles by place; inf: the choice is illegal."""


class Keeping(Protocol):
    """What keeps records, as a log does; see `vdla.compiler.codegen.tuned.log`."""

    records: list[TuningRecord]
    """All of them, in the order in which they came."""

    def append(self, records: Sequence[TuningRecord], /) -> None:
        """Add records."""


Making = Callable[[ChoiceSpace, int, Sequence[tuple[ChoiceSpace, Results]]], Explorer]
"""Makes the explorer of a space, with a seed, from what was measured of other spaces."""

Workers = Callable[[Measuring], AbstractContextManager[Backend[Trial | Start, Measured | Started]]]


@dataclass(frozen=True)
class Progress:
    """How far a tuning is.

    Attributes:
        trials: measured in all.
        total: at the end; None where time alone is limited.
        resumed: trials that the log held.
        measured: trials that were measured now.
        failed: trials whose choice was illegal.
        seconds: of this run.
        remaining_seconds: expected time to the end; None where it is not known yet.
        standings: of every task, in the order of the network.
        searched: the task that is searched now; None at the start and the end.
        parts: seconds that workers spent on lowering, verification and simulation.
    """

    trials: int
    total: int | None
    resumed: int
    measured: int
    failed: int
    seconds: float
    remaining_seconds: float | None
    standings: tuple[Standing, ...]
    searched: int | None
    parts: tuple[float, float, float]

    @property
    def cycles(self) -> tuple[int, int]:
        """Cycles of all tasks as often as they occur: by the compiler's default choices, and by the best."""
        return (
            sum(standing.default * len(standing.layers) for standing in self.standings),
            sum(standing.best * len(standing.layers) for standing in self.standings),
        )


Report = Callable[[Progress], None]


@dataclass
class Search:
    """The search of one task.

    Attributes:
        this_tuning, others: records of this tuning and of other tunings, by place.
        results: what the explorer was told.
    """

    space: ChoiceSpace
    standing: Standing
    this_tuning: dict[int, TuningRecord]
    others: dict[int, TuningRecord]
    explorer: Explorer | None = None
    results: dict[int, float] = field(default_factory=dict)

    def tell(self, results: Results) -> None:
        """Tell the explorer, and keep the best."""
        assert self.explorer is not None, "the explorer exists before it is told"
        self.explorer.tell(list(results), list(results.values()))
        self.results |= results
        best = min(results.values(), default=inf)
        if best < self.standing.best:
            self.standing.best = int(best)


class Session:
    """A tuning.

    Args:
        layers: names of the layers in which each task occurs.
        log: keeps what is measured.
        make: makes explorers.
        report: called at the start and after each trial.
        history: what was measured of spaces that are not searched now.
    """

    def __init__(
        self,
        layers: Mapping[Task, Sequence[str]],
        target: Target,
        log: Keeping,
        settings: Settings,
        make: Making,
        report: Report = lambda progress: None,
        history: Sequence[tuple[ChoiceSpace, Results]] = (),
    ) -> None:
        self._layers, self._target, self._log, self._settings = layers, target, log, settings
        self._make, self._report, self._history = make, report, history
        self._known = Known(log.records, target, settings.explorer, settings.seed)
        self._searches: list[Search] = []
        self._searched: int | None = None
        self._trials = self._resumed = self._measured = self._failed = 0
        self._parts = (0.0, 0.0, 0.0)
        self._began = time.monotonic()

    def run(self, workers: Workers) -> Progress:
        """Tune until the budget is spent or nothing is left to search for.

        Args:
            workers: makes what measures.

        Raises:
            TuneError: a default choice of the compiler cannot be measured, or the log cannot be written.
        """
        with workers(Measuring(self._target)) as backend:
            self._report(self.progress())
            self._start(backend)
            self._report(self.progress())
            while not self._is_over():
                place = next_of([search.standing for search in self._searches])
                if place is None:
                    break
                self._searched = place
                self._search(self._searches[place], backend)
        self._searched = None
        return self.progress()

    def progress(self) -> Progress:
        """Return how far the tuning is."""
        return Progress(
            self._trials,
            self._settings.budget(len(self._layers)),
            self._resumed,
            self._measured,
            self._failed,
            time.monotonic() - self._began,
            self._remaining(),
            tuple(search.standing for search in self._searches),
            self._searched,
            self._parts,
        )

    def _start(self, backend: Backend[Trial | Start, Measured | Started]) -> None:
        """Measure the compiler's default choice for every task."""
        known = [self._known.default_of(task) for task in self._layers]
        starts = [
            Start(number, task)
            if record is None or record.cycles is None
            else Start(number, task, choice_from_json(record.choice), record.cycles)
            for number, (task, record) in enumerate(zip(self._layers, known, strict=True))
        ]
        defaults: dict[int, Started] = {}
        for started in backend.measure(starts):
            assert isinstance(started, Started), "a start starts"
            defaults[started.number] = started
            if starts[started.number].choice is None:
                self._keep_default(starts[started.number].task, started)
        self._searches = [self._search_of(task, defaults[place]) for place, task in enumerate(self._layers)]

    def _keep_default(self, task: Task, started: Started) -> None:
        measured = started.measured
        if started.choice is None or measured.cycles is None:
            raise TuneError(
                f"layer {self._layers[task][0]}: the default choice cannot be measured: {measured.status}"
            )
        self._log.append(
            [self._known.default_record(task, started.choice, measured.cycles, self._layers[task])]
        )

    def _search_of(self, task: Task, started: Started) -> Search:
        """Return the search of a task, which begins with its default choice and what others have measured."""
        space = space_of(task, self._target)
        assert not isinstance(space, Unfit), "an operator without choices stays on the host"
        cycles = started.measured.cycles
        assert started.choice is not None, "the start was checked"
        assert cycles is not None, "the start was checked"
        this_tuning, others = self._known.of(space)
        standing = Standing(self._layers[task], cycles, min(started.bound, cycles), cycles)
        search = Search(space, standing, this_tuning, others)
        search.results = {place: cost(others[place]) for place in sorted(others)}
        place = space.place(started.choice)
        if place is not None:
            search.results[place] = float(cycles)
        standing.best = int(min([cycles, *search.results.values()]))
        return search

    def _search(self, search: Search, backend: Backend[Trial | Start, Measured | Started]) -> None:
        """Let the explorer of a task propose a batch; measure what is not known of it."""
        if search.explorer is None:
            self._open(search)
        assert search.explorer is not None, "`_open` creates it"
        search.standing.history.append(search.standing.best)
        places = search.explorer.ask(self._next_batch())
        if not places:
            search.standing.exhausted = True
            return
        results = {place: cost(search.others[place]) for place in places if place in search.others}
        fresh = [place for place in places if place not in results]
        first, self._trials = self._trials, self._trials + len(fresh)
        missing = []
        for number, place in enumerate(fresh, first + 1):
            if place in search.this_tuning:
                results[place] = cost(search.this_tuning[place])
                self._resumed += 1
                self._failed += results[place] == inf
            else:
                choice = search.space.choice(place)
                missing.append(Trial(number, search.space.task, place, choice))
        search.standing.trials += len(fresh)
        for trial, measured in self._results(missing, backend):
            results[trial.place] = inf if measured.cycles is None else float(measured.cycles)
        search.tell({place: results[place] for place in places})
        self._report(self.progress())

    def _open(self, search: Search) -> None:
        """Make the explorer of a task, which learns from what was measured of other tasks before."""
        others = [*self._history]
        others += [
            (other.space, other.results) for other in self._searches if other is not search and other.results
        ]
        search.explorer = self._make(search.space, self._settings.seed, others)
        search.tell(dict(search.results))

    def _results(
        self, missing: Sequence[Trial], backend: Backend[Trial | Start, Measured | Started]
    ) -> Iterator[tuple[Trial, Measured]]:
        """Yield what trials measure; each is in the log before the next is taken."""
        trials = {trial.number: trial for trial in missing}
        for measured in backend.measure(missing):
            assert isinstance(measured, Measured), "a trial measures"
            trial = trials[measured.number]
            record = self._known.record(
                trial.task, trial.choice, measured.cycles, measured.status, trial.number
            )
            self._log.append([record])
            self._measured += 1
            self._failed += measured.cycles is None
            times = measured.lowering, measured.verification, measured.simulation
            lowering, verification, simulation = (a + b for a, b in zip(self._parts, times, strict=True))
            self._parts = lowering, verification, simulation
            self._report(self.progress())
            yield trial, measured

    def _next_batch(self) -> int:
        total = self._settings.budget(len(self._layers))
        return self._settings.batch if total is None else min(self._settings.batch, total - self._trials)

    def _is_over(self) -> bool:
        minutes = self._settings.minutes
        if minutes is not None and time.monotonic() - self._began >= minutes * SECONDS_PER_MINUTE:
            return True
        return self._next_batch() <= 0

    def _remaining(self) -> float | None:
        """Return the expected time to the end; None where it is not known yet."""
        seconds = time.monotonic() - self._began
        limits = []
        if self._settings.minutes is not None:
            limits.append(max(self._settings.minutes * SECONDS_PER_MINUTE - seconds, 0.0))
        total = self._settings.budget(len(self._layers))
        if total is not None and self._measured:
            limits.append((total - self._trials) * seconds / self._measured)
        return min(limits, default=None)
