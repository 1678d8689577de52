"""Measuring one point: compile its workloads, run them on the cycle device, and look its area up."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from vdla.compiler.codegen.choice_cache import cached
from vdla.compiler.network.partition import place
from vdla.compiler.network.placed import OnHost
from vdla.compiler.network.stages import layers_of, parts_of, plan_of, plan_of_parts
from vdla.explore.silicon.result import Silicon
from vdla.explore.sweep.figures import ON_HOST
from vdla.explore.sweep.parameters import with_values
from vdla.explore.sweep.space import Point
from vdla.explore.sweep.tables import OK, TARGET_CLOCK, LayerRow, PointRow
from vdla.explore.sweep.workloads import Workload
from vdla.explore.tune.within import Tuning
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.limits import DRAM_BYTES, require_room
from vdla.hw.spec.memo import memoised
from vdla.hw.spec.target import Target
from vdla.hw.spec.target_files import CLOCK
from vdla.runtime.devices.registry import device_of
from vdla.runtime.module.plan import HostStep, ModuleError, Plan
from vdla.runtime.session.report import Report, report
from vdla.runtime.session.session import Session

SiliconOf = Callable[[AcceleratorConfig], Silicon]
MOST_WORKLOADS = 64


@dataclass(frozen=True)
class Job:
    """What is done with every point of a sweep. It can be pickled, and is sent to each worker once.

    Attributes:
        base: the target that points differ from.
        workloads: that run on every point.
        silicon: returns area and clock; None: they are not asked for.
        tuning: of the schedules of each point; None: they are the compiler's default choices.
    """

    base: Target
    workloads: tuple[Workload, ...]
    silicon: SiliconOf | None
    tuning: Tuning | None = None

    def measure(self, point: Point) -> "Measured":
        """Measure a point. What is wrong with it becomes the status of its rows."""
        began = time.perf_counter()
        try:
            target = with_values(self.base, dict(point.values))
        except VdlaError as error:
            rows = tuple(PointRow(workload.name, one_line(error)) for workload in self.workloads)
            return Measured(point, rows, (), time.perf_counter() - began)
        area = self._area(target.config, point)
        runs = [_run(workload, target, area, self.tuning) for workload in self.workloads]
        return Measured(
            point,
            tuple(row for row, _ in runs),
            tuple(layer for _, layers in runs for layer in layers),
            time.perf_counter() - began,
        )

    def failed(self, point: Point, reason: str) -> "Measured":
        """Return the result of a point that could not be measured."""
        return Measured(point, tuple(PointRow(workload.name, reason) for workload in self.workloads), (), 0.0)

    def _area(self, config: AcceleratorConfig, point: Point) -> "_Area":
        given = CLOCK in point.values
        if self.silicon is None:
            return _Area(None, "none", given)
        try:
            return _Area(self.silicon(config), "", given)
        except VdlaError as error:
            return _Area(None, f"unknown: {one_line(error)}", given)


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of a point.

    Attributes:
        rows: one for each workload.
        layers: of all workloads.
        seconds: that measuring took.
    """

    point: Point
    rows: tuple[PointRow, ...]
    layers: tuple[LayerRow, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class _Area:
    """The area of a point.

    Attributes:
        silicon: None where it is not known.
        why: it is not known.
        given_clock: the clock is a parameter of the sweep, and not an estimate for the silicon.
    """

    silicon: Silicon | None
    why: str
    given_clock: bool

    def row(self, workload: str, status: str, target: Target) -> PointRow:
        """Return a row with area and clock."""
        if self.silicon is None:
            return PointRow(
                workload,
                status,
                mhz=target.clock_mhz,
                area_source=self.why,
                clock_source=TARGET_CLOCK,
                digest=target.digest,
            )
        row = PointRow(
            workload,
            status,
            lut=float(self.silicon.lut),
            ff=float(self.silicon.ff),
            dsp=float(self.silicon.dsp),
            block_ram=float(self.silicon.block_ram),
            mhz=target.clock_mhz,
            area_source=self.silicon.area,
            clock_source=TARGET_CLOCK,
            digest=target.digest,
        )
        return row if self.given_clock or self.silicon.mhz is None else row.with_clock(self.silicon)


def _run(
    workload: Workload, target: Target, area: _Area, tuning: Tuning | None
) -> tuple[PointRow, list[LayerRow]]:
    """Return the rows of a workload on a target."""
    try:
        plan = plan_of(workload.graph(), target, choose=cached())
        status = why_unfit(workload, plan)
        if status:
            return area.row(workload.name, status, target), []
        best = run_best(workload, target, plan, tuning)
    except (VdlaError, MemoryError) as error:
        return area.row(workload.name, one_line(error), target), []
    except Exception as error:  # a fault of the kit at one point must not lose the others
        return area.row(workload.name, f"internal error: {one_line(error)}", target), []
    row = area.row(workload.name, OK, target).with_run(best.report)
    tuned = replace(row, default_cycles=best.default_cycles, tuned_tasks=best.tuned_tasks, trials=best.trials)
    return tuned, layer_rows(workload.name, best.report)


@dataclass(frozen=True, slots=True)
class Best:
    """The fastest plan of a workload, and what it did.

    Attributes:
        default_cycles, tuned_tasks, trials: as in a `PointRow`.
    """

    plan: Plan
    report: Report
    default_cycles: int | None = None
    tuned_tasks: int | None = None
    trials: int | None = None

    @property
    def cycles(self) -> int:
        """Cycles of the run."""
        assert self.report.cycles is not None, "the cycle device tells cycles"
        return self.report.cycles


def run_best(workload: Workload, target: Target, plan: Plan, tuning: Tuning | None) -> Best:
    """Run a workload with the compiler's default choices and with the best of tuning; return the faster plan.

    The best choices of tasks alone may be no faster together.

    Args:
        plan: with the compiler's default choices.

    Raises:
        VdlaError: as in `run` and `Tuning.tuned`.
    """
    report = run(plan)
    if tuning is None:
        return Best(plan, report)
    graph, parted = parts_of(workload.graph(), target)
    outcome = tuning.tuned(layers_of(parted), target)
    default = Best(plan, report, report.cycles, 0, outcome.trials)
    if not outcome.tasks:
        return default
    tuned_plan = plan_of_parts(graph, parted, target, choose=outcome.chooser())
    tuned = Best(tuned_plan, run(tuned_plan), report.cycles, outcome.tasks, outcome.trials)
    return min(default, tuned, key=lambda best: best.cycles)


def run(plan: Plan) -> Report:
    """Time the launches of a plan on the cycle device of its target, without data, and return the report. The
    streams are verified; operators on the host do not run.

    Raises:
        VdlaError: it does not fit, or its streams are unsafe.
    """
    require_room(plan.dram_bytes, DRAM_BYTES, f"{plan.name} on a device: its DRAM takes", ModuleError)
    device = device_of("cycle", plan.target, plan.dram_bytes, log=True, arithmetic=False)
    return report(plan, Session(device, plan).rehearse(), "cycle")


def layer_rows(workload: str, run_report: Report) -> list[LayerRow]:
    """Return the rows of a report's layers."""
    return [
        LayerRow(
            workload,
            number,
            layer.name,
            layer.op,
            layer.on,
            layer.cycles,
            layer.macs,
            layer.utilisation,
            layer.bytes_read,
            layer.bytes_written,
            layer.energy_pj,
            layer.bound,
        )
        for number, layer in enumerate(run_report.layers)
    ]


def why_unfit(workload: Workload, plan: Plan) -> str:
    """Return why a target cannot run a workload: an operator that preset `default` executes is left to the
    host, so the cycles would leave its work out. "" where there is none."""
    left = [step for step in plan.steps if isinstance(step, HostStep)]
    usual = _usually_on_host(workload)
    unfit = [step for step in left if step.outputs[0] not in usual]
    if not unfit:
        return ""
    more = f", and {len(unfit) - 1} more" if len(unfit) > 1 else ""
    return f"{unfit[0].op} {unfit[0].name}{ON_HOST}{more}: {unfit[0].reason}"


@memoised(MOST_WORKLOADS)
def _usually_on_host(workload: Workload) -> frozenset[str]:
    """Return the first outputs of the operators that preset `default` leaves to the host."""
    placed = place(workload.graph(), Target())
    return frozenset(placement.node.outputs[0] for placement in placed if isinstance(placement, OnHost))


def one_line(error: BaseException) -> str:
    """Return an error's message on one line, with its kind where it has none."""
    return " ".join(str(error).split()) or type(error).__name__
