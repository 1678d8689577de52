"""Comparing two sweeps: what a change of compiler or hardware did to every point."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.figures import FIGURES
from vdla.explore.sweep.identity import IDENTITY
from vdla.explore.sweep.parameters import NAMES, Value, value_of
from vdla.explore.sweep.results import Results
from vdla.explore.sweep.tables import OK
from vdla.hw.spec.target_files import from_toml
from vdla.hw.spec.writing import whole_file

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pair:
    """A workload on a point of both sweeps.

    Attributes:
        values: of the parameters that both sweeps have, or that are compared at several values.
        before, after: its rows.
    """

    values: Mapping[str, Any]
    workload: str
    before: Row
    after: Row

    def ratio(self, figure: str) -> float | None:
        """Return a figure after, in parts of the figure before; None where either is unknown, or before 0."""
        before, after = self.before.get(figure), self.after.get(figure)
        return None if not before or after is None else after / before

    @property
    def changed(self) -> bool:
        """Whether the status differs, or a figure that both sweeps know."""
        both = ((self.before.get(name), self.after.get(name)) for name in (*FIGURES, "status"))
        return any(before != after for before, after in both if before is not None and after is not None)


@dataclass(frozen=True, slots=True)
class Alone:
    """A parameter that only one of two sweeps has.

    Attributes:
        value: in the other's base, at which points are compared; None: no point has it, so all are compared.
    """

    name: str
    value: Value | None


@dataclass(frozen=True, slots=True)
class Difference:
    """The comparison of two sweeps.

    Attributes:
        pairs: of points that both have, in the order of the first sweep.
        only_before, only_after: rows of points that the other has not.
        alone_before, alone_after: parameters that the other has not.
    """

    pairs: tuple[Pair, ...]
    only_before: tuple[Row, ...]
    only_after: tuple[Row, ...]
    alone_before: tuple[Alone, ...] = ()
    alone_after: tuple[Alone, ...] = ()

    @property
    def lost(self) -> tuple[Pair, ...]:
        """Pairs that had cycles before and have none after."""
        return tuple(pair for pair in self.pairs if pair.before["status"] == OK != pair.after["status"])

    @property
    def gained(self) -> tuple[Pair, ...]:
        """Pairs that have cycles after and had none before."""
        return tuple(pair for pair in self.pairs if pair.before["status"] != OK == pair.after["status"])

    def ratios(self, figure: str, workload: str | None = None) -> list[float]:
        """Return the ratios of a figure, of one workload or of all."""
        ratios = (pair.ratio(figure) for pair in self.pairs if workload in (None, pair.workload))
        return [ratio for ratio in ratios if ratio is not None]

    @property
    def workloads(self) -> tuple[str, ...]:
        """Names of the workloads of the pairs, in order."""
        return tuple(dict.fromkeys(pair.workload for pair in self.pairs))


def compare(before: Results, after: Results) -> Difference:
    """Compare two sweeps. Points are equal where the parameters of both sweeps and the workload are.

    Where one sweep alone has a parameter, its points with the value of the other's base are compared; where
    none has that value, all of its points are.

    Raises:
        SweepError: a sweep cannot be read, or the two share no parameter.
    """
    sides = _side(before), _side(after)
    names = [name for name in before.parameters if name in after.parameters]
    if not names:
        swept = [", ".join(side.parameters) or "no parameter" for side in (before, after)]
        raise SweepError(
            f"{before.folder} sweeps {swept[0]}, and {after.folder} sweeps {swept[1]}; compare sweeps that "
            "share a parameter"
        )
    alone = tuple(_alone(side, opposite) for side, opposite in (sides, sides[::-1]))
    old, new = (_by_key(_comparable(side.rows, kept), names) for side, kept in zip(sides, alone, strict=True))
    shown = [
        *names,
        *(parameter.name for parameters in alone for parameter in parameters if parameter.value is None),
    ]
    pairs = [
        Pair({name: (a if name in a else b)[name] for name in shown}, a["workload"], a, b)
        for key, rows in old.items()
        for a in rows
        for b in new.get(key, ())
    ]
    matched = {id(row) for pair in pairs for row in (pair.before, pair.after)}
    rest = [tuple(row for row in side.rows if id(row) not in matched) for side in sides]
    return Difference(tuple(pairs), rest[0], rest[1], alone[0], alone[1])


@dataclass(frozen=True, slots=True)
class _Side:
    """A sweep of a comparison.

    Attributes:
        names: of its parameters.
        base: value of every parameter in its base; empty where the folder does not tell.
        rows: of its table of points.
    """

    names: tuple[str, ...]
    base: Mapping[str, Value]
    rows: tuple[Row, ...]


def _side(results: Results) -> _Side:
    """Read a sweep; raises what `Results` raises."""
    text = results.identity.get("base_toml")
    target = None if text is None else from_toml(str(text), f"{results.folder / IDENTITY}: base_toml")
    base = {} if target is None else {name: value_of(target, name) for name in NAMES}
    return _Side(results.parameters, base, tuple(results.points().to_pylist()))


def _alone(side: _Side, opposite: _Side) -> tuple[Alone, ...]:
    """Return the parameters that only the first sweep has."""
    names = [name for name in side.names if name not in opposite.names]
    values = [(name, opposite.base.get(name)) for name in names]
    return tuple(
        Alone(name, value if any(row[name] == value for row in side.rows) else None) for name, value in values
    )


def _comparable(rows: Iterable[Row], alone: Iterable[Alone]) -> Iterable[Row]:
    """Return the rows whose unshared parameters have the values of the other sweep's base."""
    kept = [(parameter.name, parameter.value) for parameter in alone if parameter.value is not None]
    return [row for row in rows if all(row[name] == value for name, value in kept)]


def _by_key(rows: Iterable[Row], names: Iterable[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Return rows by their workload and the values of parameters."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["workload"], *(row.get(name) for name in names)), []).append(row)
    return groups


def write(difference: Difference, path: Path) -> None:
    """Write a row for each pair as Parquet: parameters, workload, and every figure before and after.

    Raises:
        OutputError: it cannot be written.
    """
    import pyarrow as pa
    from pyarrow import parquet

    rows = [
        {
            **pair.values,
            "workload": pair.workload,
            **{f"{name}_before": pair.before.get(name) for name in (*FIGURES, "status")},
            **{f"{name}_after": pair.after.get(name) for name in (*FIGURES, "status")},
        }
        for pair in difference.pairs
    ]
    with whole_file(path, "wb") as file:
        parquet.write_table(pa.Table.from_pylist(rows), file)
