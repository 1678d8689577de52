"""Running a sweep: its points are measured, kept as they end, and written as tables; [tune] tunes each."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from os.path import isfile
from pathlib import Path

from vdla.compiler.codegen.tuned.log import read_log
from vdla.compiler.codegen.tuned.record import TuneError
from vdla.explore.report.sweep_page import write_sweep_report
from vdla.explore.silicon.estimate import silicon_of
from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.figures import Verdict, alike
from vdla.explore.sweep.folder import Folder, Identity, opened
from vdla.explore.sweep.limits import Limits, limits_of
from vdla.explore.sweep.measure import Job, Measured, SiliconOf
from vdla.explore.sweep.parameters import Value
from vdla.explore.sweep.search import Search, require_known
from vdla.explore.sweep.space import Point, Space, space_of
from vdla.explore.sweep.specification import Specification, Tune
from vdla.explore.sweep.tables import OK
from vdla.explore.sweep.workloads import Workload, located, workloads_of
from vdla.explore.tune.history import LEAST_RECORDS
from vdla.explore.tune.proposals import require_library
from vdla.explore.tune.within import Tuning, taught
from vdla.explore.workers import backends
from vdla.explore.workers.job import Backend
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.config import PARAMETER_NAMES
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.extras import require_package
from vdla.hw.spec.target import TARGETS, Target
from vdla.hw.spec.target_files import load, to_toml

LEAST_SECONDS_BETWEEN_TABLES = 20.0
POINTS_PER_WORKER = 250  # then a new process takes over: what memos keep takes about a megabyte per point
TUNED_POINTS_PER_WORKER = 50
SHARE_OF_TABLES = 20  # writing tables takes at most one part in so many of the time
Measuring = Backend[Point, Measured]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep is.

    Attributes:
        done, total: points.
        failed: points without cycles on some workload.
        reasons: why, as the status of the first such point, with how many there are of the kind.
        resumed: points that were measured by an earlier run.
        left_out: points that were measured by an earlier run, and that the specification has no more.
        seconds: of this run.
        verdicts: how many points stand where to the limits, once a sweep with limits has ended.
    """

    done: int
    total: int
    failed: int
    resumed: int
    left_out: int
    seconds: float
    verdicts: Mapping[Verdict, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Points per second of this run."""
        return (self.done - self.resumed) / self.seconds if self.seconds else 0.0

    @property
    def remaining_seconds(self) -> float | None:
        """Expected time to the end; None where no point of this run has ended."""
        return (self.total - self.done) / self.rate if self.rate else None


Report = Callable[[Progress], None]


@dataclass(frozen=True)
class Plan:
    """A sweep that is ready to run.

    Attributes:
        specification: what it does.
        space: its combinations.
        job: what is done with each point.
        base_name: of the target that points differ from.
        limits: on results.
    """

    specification: Specification
    space: Space
    job: Job
    base_name: str
    limits: Limits

    def identity(self) -> Identity:
        """Return what tells this sweep from others."""
        return Identity(
            self.specification.to_json(),
            {"name": self.base_name, "digest": self.job.base.digest},
            to_toml(self.job.base),
            {workload.name: workload.digest for workload in self.job.workloads},
            self.space.names,
            self.limits,
            "" if self.job.tuning is None else warm_digest(self.job.tuning),
        )


def planned(specification: Specification, folder: Path, silicon: SiliconOf | None) -> Plan:
    """Read what a specification names, and import its workloads.

    Args:
        folder: of the specification, where relative names of files start.
        silicon: returns area and clock of a configuration; None: they are not asked for.

    Raises:
        SweepError: naming what is wrong.
        ToolError: the specification needs a package that is not installed.
    """
    if specification.budget != "all":
        require_package("optuna", "a sweep with a budget")
        require_known(specification)
    base = _base(specification.base.name, folder)
    space = space_of(specification, base)
    workloads: tuple[Workload, ...] = workloads_of(specification, folder, base)
    tuning = None if specification.tune is None else tuning_of(specification.tune, folder, base)
    job = Job(base, workloads, silicon, tuning)
    return Plan(specification, space, job, specification.base.name, limits_of(specification))


def silicon_for(specification: Specification) -> SiliconOf | None:
    """Return what finds area and clock as a specification says; None where it asks for neither.

    The result can be pickled.
    """
    if specification.area == "none":
        return None
    return partial(silicon_of, family=specification.family, exact=specification.area == "exact")


def _base(name: str, folder: Path) -> Target:
    path = folder / name
    try:
        return load(name if name in TARGETS or not isfile(path) else path)
    except ConfigError as error:
        raise SweepError(f"base: {error}") from error


def sweep(
    plan: Plan,
    output: Path,
    backend: Callable[[Job], AbstractContextManager[Measuring]],
    report: Report = lambda progress: None,
) -> Progress:
    """Measure every point that `output` does not hold yet, and write the tables and the report.

    Args:
        backend: makes what measures points.
        report: called at the start and after each point.

    Raises:
        SweepError: the folder is in use, holds another sweep, or cannot be written.
    """
    search = None if plan.specification.budget == "all" else Search(plan.space, plan.specification)
    points = plan.space.points() if search is None else []
    with opened(output, plan.identity(), plan.space.key) as folder:
        keeper = _Keeper(folder, len(points) if search is None else search.budget, report)
        try:
            with backend(plan.job) as measures:
                keeper.run(measures, points)
                if search is not None:
                    keeper.search(measures, search)
        finally:
            folder.write_tables()
        write_sweep_report(output)
        verdicts = folder.verdicts() if plan.limits.values else {}
        return replace(keeper.progress(), verdicts=verdicts)


class _Keeper:
    """Keeps what is measured, and reports.

    Args:
        folder: of the sweep.
        total: points that the sweep has.
        report: called after each point.
    """

    def __init__(self, folder: Folder, total: int, report: Report) -> None:
        self._folder, self._total, self._report = folder, total, report
        self._failed = 0
        self._reasons: dict[str, tuple[str, int]] = {}
        self._began = self._written = time.monotonic()
        self._pause = LEAST_SECONDS_BETWEEN_TABLES

    def run(self, backend: Measuring, points: Iterable[Point]) -> None:
        """Measure the points that the folder does not hold."""
        points, known = list(points), self._folder.measured
        missing = self._folder.include(points)
        for point in points:
            if point.number in known:
                self._count(known[point.number])
        self._report(self.progress())
        for measured in backend.measure(missing):
            self._folder.add(measured)
            self._count(measured)
            self._report(self.progress())
            self._write_sometimes()

    def search(self, backend: Measuring, search: Search) -> None:
        """Measure the points that a search chooses.

        Raises:
            SweepError: no point satisfies the constraints.
        """
        while points := search.ask():
            self.run(backend, points)
            for point in points:
                search.tell(point, self._folder.measured[point.number].rows)
        self._total = len(self._folder.measured)
        if not self._total:
            raise SweepError("the sampler found no point that satisfies the constraints; relax them")

    def progress(self) -> Progress:
        """Return how far the sweep is."""
        folder, seconds = self._folder, time.monotonic() - self._began
        done = len(folder.measured)
        return Progress(
            done,
            self._total,
            self._failed,
            folder.resumed,
            folder.left_out,
            seconds,
            reasons=dict(sorted(self._reasons.values(), key=lambda reason: -reason[1])),
        )

    def _count(self, measured: Measured) -> None:
        """Count a point that has no cycles on some workload, under each of its reasons."""
        statuses = {alike(row.status): row.status for row in measured.rows if row.status != OK}
        self._failed += bool(statuses)
        for kind, status in statuses.items():
            first, count = self._reasons.get(kind, (status, 0))
            self._reasons[kind] = first, count + 1

    def _write_sometimes(self) -> None:
        """Write the tables where the last time is long enough ago."""
        began = time.monotonic()
        if began - self._written >= self._pause:
            self._folder.write_tables()
            self._written = time.monotonic()
            self._pause = max(LEAST_SECONDS_BETWEEN_TABLES, SHARE_OF_TABLES * (self._written - began))


def backend_of(
    processes: int | None, cluster: str | None, resource: str | None = None
) -> Callable[[Job], AbstractContextManager[Measuring]]:
    """Return what measures points; arguments and errors are as in `vdla.explore.workers.backends`."""
    usual = backends.backend_of(processes, cluster, POINTS_PER_WORKER, resource, _accelerator)
    tuning = backends.backend_of(processes, cluster, TUNED_POINTS_PER_WORKER, resource, _accelerator)
    return lambda job: (usual if job.tuning is None else tuning)(job)


def _accelerator(point: Point) -> tuple[tuple[str, Value], ...]:
    """Return the parameters of a point's accelerator. Points that only differ in memory, clock or energy
    simulate the same streams."""
    return tuple((name, value) for name, value in point.values.items() if name in PARAMETER_NAMES)


def tuning_of(tune: Tune, folder: Path, base: Target) -> Tuning:
    """Return the tuning that a table asks for, with what its log teaches the model.

    Args:
        folder: of the specification, where the relative name of a log starts.
        base: the target that points differ from.

    Raises:
        SweepError: the log does not exist, is damaged, or teaches nothing.
        ToolError: the explorer learns, and xgboost is not installed.
    """
    require_library(tune.explorer, "give another tune.explorer")
    if tune.log is None:
        return Tuning(tune.explorer, tune.seed, tune.trials)
    path = located(tune.log, "tune.log", folder)
    try:
        records = read_log(path).records
    except TuneError as error:
        raise SweepError(f"tune.log: {error}") from error
    warm = taught(records, base)
    if not warm:
        raise SweepError(
            f"tune.log: {path} teaches nothing: no task has {LEAST_RECORDS} of its {len(records):,} records "
            "on a preset or on the base; make a log with `vdla tune`, or leave the key out"
        )
    return Tuning(tune.explorer, tune.seed, tune.trials, warm)


def warm_digest(tuning: Tuning) -> str:
    """Return a digest of what the log of a tuning teaches; "" where that is nothing."""
    if not tuning.warm:
        return ""
    arrays = (
        array
        for measured in tuning.warm
        for array in (measured.features, measured.estimates, measured.cycles)
    )
    return digest_of(part for array in arrays for part in (str(array.shape), array.tobytes()))
