"""Limits on results: which rows are surely within them, which may be, and which are beyond them.

A figure that is exact is within a limit or beyond it. An estimated figure has an interval: an area by the
worst error of the designs that were measured, a clock and the time at it by `mhz_low` and `mhz_high`. A limit
inside the interval decides nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from math import inf

from vdla.explore.silicon.estimate import EstimateError, area_errors
from vdla.explore.silicon.families import RESOURCES
from vdla.explore.silicon.result import ESTIMATED
from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.figures import Verdict
from vdla.explore.sweep.specification import LEAST, Specification
from vdla.explore.sweep.tables import OK, PointRow

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a row.

    Attributes:
        verdict: None for a row without a result.
        why: the figures that are not within their limits, each with its interval; "" where all are.
    """

    verdict: Verdict | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a sweep.

    Attributes:
        values: by figure, the most; for the figures of LEAST, the least.
        errors: of estimated areas, by figure.
    """

    values: Mapping[str, float]
    errors: Mapping[str, EstimateError]

    def to_json(self) -> list[dict[str, object]]:
        """Return each limit as plain JSON values: name, value, whether it is the least, and the fields of its
        `EstimateError`, if any."""
        return [self._values(name) for name in self.values]

    def _values(self, name: str) -> dict[str, object]:
        values = {"name": name, "value": self.values[name], "least": name in LEAST}
        return values | (asdict(self.errors[name]) if name in self.errors else {})

    def judged(self, row: PointRow) -> Judgement:
        """Return the verdict on a row."""
        if row.status != OK:
            return Judgement(None)
        verdicts = {name: self._verdict(row, name) for name in self.values}
        why = "; ".join(
            self._reason(row, name) for name, verdict in verdicts.items() if verdict is not Verdict.WITHIN
        )
        return Judgement(worst(verdicts.values()), why)

    def interval(self, row: PointRow, name: str) -> Interval:
        """Return the least and the greatest value that a figure may have; any value if it is not known."""
        value = getattr(row, name)
        if value is None:
            return (0.0, inf)
        if name in RESOURCES and row.area_source == ESTIMATED:
            error = self.errors[name].worst if name in self.errors else inf
            return (max(0.0, value * (1 - error)), value * (1 + error))
        if name in ("mhz", "seconds") and row.mhz and row.mhz_low and row.mhz_high:
            low, high = row.mhz_low / row.mhz, row.mhz_high / row.mhz
            return (value * low, value * high) if name == "mhz" else (value / high, value / low)
        return (float(value), float(value))

    def _verdict(self, row: PointRow, name: str) -> Verdict:
        (low, high), limit = self.interval(row, name), self.values[name]
        if name in LEAST:
            return Verdict.WITHIN if low >= limit else Verdict.BEYOND if high < limit else Verdict.PERHAPS
        return Verdict.WITHIN if high <= limit else Verdict.BEYOND if low > limit else Verdict.PERHAPS

    def _reason(self, row: PointRow, name: str) -> str:
        low, high = self.interval(row, name)
        bound = f"{'least' if name in LEAST else 'most'} {_text(self.values[name])}"
        if getattr(row, name) is None:
            return f"{name} is not known, at {bound}"
        between = "" if low == high else f" ({_text(low)} to {_text(high)} by the error of the estimate)"
        return f"{name} {_text(getattr(row, name))}{between}, at {bound}"


def _text(value: float) -> str:
    """Return a figure as text: figures of 1,000 and more without decimals."""
    return f"{value:,.0f}" if 1000 <= value < inf else f"{value:.4g}"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of verdicts; WITHIN where there are none."""
    order = list(Verdict)
    return max(verdicts, key=order.index, default=Verdict.WITHIN)


def limits_of(specification: Specification) -> Limits:
    """Return the limits of a specification, with the errors of the estimates of its family.

    Raises:
        SweepError: a limit is on an area, and no areas are asked for.
    """
    areas = [name for name in specification.limits if name in RESOURCES]
    if areas and specification.area == "none":
        raise SweepError(
            f'limit {areas[0]} is not known with area = "none"; leave it out, or area = "estimate"'
        )
    return Limits(specification.limits, area_errors(specification.family) if areas else {})
