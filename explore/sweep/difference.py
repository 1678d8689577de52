"""Comparing two sweeps: what a change of compiler or hardware did to every point."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.figures import FIGURES
from vdla.explore.sweep.results import Results
from vdla.explore.sweep.tables import OK
from vdla.hw.spec.writing import whole_file

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pair:
    """A workload on a point of both sweeps.

    Attributes:
        values: of the parameters.
        before, after: its rows.
    """

    values: Mapping[str, Any]
    workload: str
    before: Row
    after: Row

    def ratio(self, figure: str) -> float | None:
        """Return a figure after in parts of the one before; None where one is not known, or before is 0."""
        before, after = self.before.get(figure), self.after.get(figure)
        return None if not before or after is None else after / before

    @property
    def changed(self) -> bool:
        """Whether the status differs, or a figure that both sweeps know."""
        both = ((self.before.get(name), self.after.get(name)) for name in (*FIGURES, "status"))
        return any(before != after for before, after in both if before is not None and after is not None)


@dataclass(frozen=True, slots=True)
class Difference:
    """The comparison of two sweeps.

    Attributes:
        pairs: of points that both have, in the order of the first sweep.
        only_before, only_after: rows of points that the other has not.
    """

    pairs: tuple[Pair, ...]
    only_before: tuple[Row, ...]
    only_after: tuple[Row, ...]

    @property
    def lost(self) -> tuple[Pair, ...]:
        """Pairs that had cycles before and have none after."""
        return tuple(one for one in self.pairs if one.before["status"] == OK != one.after["status"])

    @property
    def gained(self) -> tuple[Pair, ...]:
        """Pairs that have cycles after and had none before."""
        return tuple(one for one in self.pairs if one.before["status"] != OK == one.after["status"])

    def ratios(self, figure: str, workload: str | None = None) -> list[float]:
        """Return the ratios of a figure, of one workload or of all."""
        found = (pair.ratio(figure) for pair in self.pairs if workload in (None, pair.workload))
        return [ratio for ratio in found if ratio is not None]

    @property
    def workloads(self) -> tuple[str, ...]:
        """Names of the workloads of the pairs, in order."""
        return tuple(dict.fromkeys(pair.workload for pair in self.pairs))


def compare(before: Results, after: Results) -> Difference:
    """Compare two sweeps. Points are equal where all parameters of both sweeps and the workload are.

    Raises:
        SweepError: a sweep cannot be read, or the two have different parameters.
    """
    names = before.parameters
    if set(names) != set(after.parameters):
        raise SweepError(
            f"{before.folder} sweeps {', '.join(names)}, and {after.folder} {', '.join(after.parameters)}; "
            "compare sweeps of the same parameters"
        )
    old, new = (_by_key(results.points().to_pylist(), names) for results in (before, after))
    pairs = (
        Pair({name: row[name] for name in names}, row["workload"], row, new[key])
        for key, row in old.items()
        if key in new
    )
    return Difference(
        tuple(pairs),
        tuple(row for key, row in old.items() if key not in new),
        tuple(row for key, row in new.items() if key not in old),
    )


def _by_key(rows: Iterable[Row], names: tuple[str, ...]) -> dict[tuple[Any, ...], Row]:
    return {(*(row.get(name) for name in names), row["workload"]): row for row in rows}


def write(found: Difference, path: Path) -> None:
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
        for pair in found.pairs
    ]
    with whole_file(path, "wb") as file:
        parquet.write_table(pa.Table.from_pylist(rows), file)
