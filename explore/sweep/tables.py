"""The rows of a sweep's two tables, and their columns in Arrow's types."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

from vdla.explore.silicon.result import Silicon
from vdla.explore.sweep.parameters import Value
from vdla.runtime.session.report import Report
from vdla.sim.energy import COMPONENTS

if TYPE_CHECKING:
    import pyarrow as pa

OK = "ok"
TARGET_CLOCK = "target"


@dataclass(frozen=True, slots=True)
class PointRow:
    """A workload on a point.

    Attributes:
        status: OK, or why there are no cycles.
        cycles: of the whole workload.
        seconds: `cycles` at `mhz`.
        utilisation: of the multipliers.
        bytes_read, bytes_written: from and to DRAM.
        energy_pj: of the run.
        energy: of each component, as in a `Report`.
        lut, ff, dsp, block_ram: area.
        mhz: clock.
        mhz_low, mhz_high: interval of `mhz`; both `mhz` where it was routed, None where it is the target's.
        mhz_limited_by: units of the slowest path; "" where the clock is the target's.
        area_source: "estimated" or "synthesised"; or why the area is not known.
        clock_source: "estimated", "extrapolated" or "routed"; TARGET_CLOCK where the clock is the target's.
        digest: of the target.
        default_cycles: with the compiler's default choices; None where the sweep does not tune.
        tuned_tasks: tasks for which tuning saved cycles, whose choices `cycles` are of.
        trials: that tuning measured.
    """

    workload: str
    status: str
    cycles: int | None = None
    seconds: float | None = None
    utilisation: float | None = None
    macs: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    energy_pj: float | None = None
    lut: float | None = None
    ff: float | None = None
    dsp: float | None = None
    block_ram: float | None = None
    mhz: float | None = None
    mhz_low: float | None = None
    mhz_high: float | None = None
    mhz_limited_by: str = ""
    area_source: str = ""
    clock_source: str = ""
    digest: str = ""
    default_cycles: int | None = None
    tuned_tasks: int | None = None
    trials: int | None = None
    energy: Mapping[str, float] | None = None

    def with_clock(self, silicon: Silicon) -> "PointRow":
        """Return the row with the clock of the silicon."""
        return replace(
            self,
            mhz=silicon.mhz,
            mhz_low=silicon.mhz_low,
            mhz_high=silicon.mhz_high,
            mhz_limited_by=silicon.limited_by,
            clock_source=silicon.clock,
        )

    def with_run(self, run_report: Report) -> "PointRow":
        """Return the row with the figures of a run."""
        assert run_report.cycles is not None, "the cycle device tells cycles"
        assert self.mhz is not None, "every target has a clock"
        return replace(
            self,
            cycles=run_report.cycles,
            seconds=run_report.cycles / (self.mhz * 1e6),
            utilisation=run_report.utilisation,
            macs=run_report.macs,
            bytes_read=sum(layer.bytes_read for layer in run_report.layers),
            bytes_written=sum(layer.bytes_written for layer in run_report.layers),
            energy_pj=run_report.energy_pj,
            energy=run_report.energy,
        )


@dataclass(frozen=True, slots=True)
class LayerRow:
    """A layer of a workload on a point; as `LayerReport`."""

    workload: str
    layer: int
    name: str
    op: str
    on: str
    cycles: int | None
    macs: int
    utilisation: float | None
    bytes_read: int
    bytes_written: int
    energy_pj: float | None
    bound: str


TUNING = ("default_cycles", "tuned_tasks", "trials")
"""Columns of the table of points that only a sweep with tuning has, before `status`."""

_OTHERS = ("workload", "status", "energy", *TUNING)
MEASURES = tuple(field.name for field in fields(PointRow) if field.name not in _OTHERS)
"""Columns of the table of points between `workload` and `status`; the columns ENERGY stand behind them."""

ENERGY = {f"energy_{name}_pj": name for name in COMPONENTS}
"""Columns of the energy of each component, with its name."""

LIMITS = ("limits", "limits_why")
"""Columns of the table of points that only a sweep with limits has, at the end: a `Verdict`, or nothing for a
row without a result; and the figures that are not within their limits."""


class Judged(Protocol):
    """Where a row stands to limits."""

    @property
    def verdict(self) -> str | None:
        """The text of a `Verdict`; None for a row without a result."""

    @property
    def why(self) -> str:
        """The figures that are not within their limits; "" where all are."""


def points_table(
    names: Sequence[str],
    rows: Iterable[tuple[int, Mapping[str, Value], PointRow]],
    *,
    tuned: bool = False,
    judged: Callable[[PointRow], Judged] | None = None,
) -> "pa.Table":
    """Return the table of points: number, parameters by name, and the fields of `PointRow`.

    Args:
        tuned: with the columns TUNING.
        judged: returns what the columns LIMITS hold; None: there are no limits.
    """
    import pyarrow as pa

    entries = list(rows)
    columns: dict[str, Any] = {"point": pa.array([number for number, _, _ in entries], pa.int64())}
    for name in names:
        columns[name] = _of_parameter([values[name] for _, values, _ in entries])
    for name in ("workload", *MEASURES):
        columns[name] = pa.array([getattr(row, name) for _, _, row in entries], _arrow(PointRow, name))
    for name, component in ENERGY.items():
        columns[name] = pa.array([_energy(row, component) for _, _, row in entries], pa.float64())
    for name in (*(TUNING if tuned else ()), "status"):
        columns[name] = pa.array([getattr(row, name) for _, _, row in entries], _arrow(PointRow, name))
    if judged is not None:
        judgements = [judged(row) for _, _, row in entries]
        columns[LIMITS[0]] = pa.array([judgement.verdict for judgement in judgements], pa.string())
        columns[LIMITS[1]] = pa.array([judgement.why for judgement in judgements], pa.string())
    return pa.table(columns)


def _energy(row: PointRow, component: str) -> float | None:
    """Return the energy of a component; None where nothing ran."""
    return None if row.energy is None else row.energy.get(component, 0.0)


def layers_table(rows: Iterable[tuple[int, LayerRow]]) -> "pa.Table":
    """Return the table of layers: number of the point, and the fields of `LayerRow`."""
    import pyarrow as pa

    entries = list(rows)
    columns: dict[str, Any] = {"point": pa.array([number for number, _ in entries], pa.int64())}
    for field in fields(LayerRow):
        columns[field.name] = pa.array(
            [getattr(row, field.name) for _, row in entries], _arrow(LayerRow, field.name)
        )
    return pa.table(columns)


def _of_parameter(values: list[Value]) -> "pa.Array":
    """Return the column of a parameter: of texts, of integers, or of real numbers."""
    import pyarrow as pa

    if any(isinstance(value, str) for value in values):
        return pa.array([str(value) for value in values], pa.string())
    kind = pa.float64() if any(isinstance(value, float) for value in values) else pa.int64()
    return pa.array(values, kind)


def _arrow(kind: type, name: str) -> "pa.DataType":
    """Return Arrow's type for a field of a row."""
    import pyarrow as pa

    declared = str(kind.__annotations__[name])
    if "str" in declared:
        return pa.string()
    return pa.float64() if "float" in declared else pa.int64()
