"""The rows of a comparison of two runs: layers that compute the same operators, and what is in no layer."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vdla.explore.runs.matching import match_layers
from vdla.explore.runs.record import LayerRecord, RunRecord

Number = int | float
LAYER_FIGURES = ("cycles", "seconds", "bytes_read", "bytes_written", "bytes_moved", "energy_pj")
ROUNDING = 1e-9  # of a total, which the sum of its parts may be off by
MOST_NAMES = 3  # of layers in the name of a row
NO_LAYER = "in no layer"


@dataclass(frozen=True, slots=True)
class Change:
    """A figure of two runs.

    Attributes:
        a, b: the figure; None where the run has no such layer, or does not tell the figure.
    """

    a: Number | None
    b: Number | None

    @property
    def difference(self) -> Number | None:
        """B's figure less A's, where a figure that is not there counts as 0; None where neither is."""
        return None if self.a is None and self.b is None else (self.b or 0) - (self.a or 0)

    @property
    def ratio(self) -> float | None:
        """B's figure in parts of A's; None where either is not there, or A's is 0."""
        return None if not self.a or self.b is None else self.b / self.a

    def to_json(self) -> dict[str, object]:
        """Return it as plain JSON values."""
        return {"a": self.a, "b": self.b, "difference": self.difference, "ratio": self.ratio}


class RowKind(StrEnum):
    """What a row of a comparison stands for.

    Attributes:
        LAYER: a layer of each run; both compute the same operators.
        GROUP: layers of both runs that compute the same operators, several in one of them at least.
        ONLY_A, ONLY_B: layers whose operators the other run does not have.
        REST: what belongs to no layer.
        OTHERS: the sum of rows that are not listed.
    """

    LAYER = "layer"
    GROUP = "group"
    ONLY_A = "only_a"
    ONLY_B = "only_b"
    REST = "rest"
    OTHERS = "others"


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """A row of a comparison. Its figures are the sums over its layers.

    Attributes:
        a, b: the layers of each run.
        changes: by the names in LAYER_FIGURES.
    """

    kind: RowKind
    name: str
    a: tuple[LayerRecord, ...]
    b: tuple[LayerRecord, ...]
    changes: Mapping[str, Change]

    @property
    def bounds(self) -> tuple[str, str]:
        """What bounds the layers in A and in B; the bound of the longest layer first."""
        return _bound(self.a), _bound(self.b)

    @property
    def differs(self) -> bool:
        """Whether a figure, a bound, or what the layers are differs."""
        layers = [
            [(layer.name, layer.op, layer.on, layer.bound) for layer in side] for side in (self.a, self.b)
        ]
        return layers[0] != layers[1] or any(change.a != change.b for change in self.changes.values())

    def to_json(self) -> dict[str, object]:
        """Return it as plain JSON values."""
        a, b = ([_layer_values(layer) for layer in layers] for layers in (self.a, self.b))
        return {
            "name": self.name,
            "kind": self.kind.value,
            **{name: change.to_json() for name, change in self.changes.items()},
            "bound": dict(zip("ab", self.bounds, strict=True)),
            "layers": {"a": a, "b": b},
        }


def rows_of(a: RunRecord, b: RunRecord, totals: Mapping[str, Change]) -> tuple[DifferenceRow, ...]:
    """Return the rows of a comparison in the order of A's layers, and last the row of what is in no layer.

    Args:
        totals: of the runs, by the names in LAYER_FIGURES; the sum of the rows is equal to them.
    """
    rows = [
        _row(_picked(a, match.a), _picked(b, match.b), (a, b)) for match in match_layers(a.layers, b.layers)
    ]
    return (*rows, *_rest(totals, rows))


def ranked(rows: Sequence[DifferenceRow], by_difference: bool, most: int | None) -> list[DifferenceRow]:
    """Return rows in the order in which they are listed; the row of what is in no layer stays last.

    Args:
        by_difference: the rows whose cycles differ most come first, then the rows whose bytes differ most.
        most: rows of layers that are kept; a row with the sum of all others follows. None: all are kept.
    """
    layers = [row for row in rows if row.kind is not RowKind.REST]
    if by_difference:
        layers.sort(
            key=lambda row: (-_size(row, "cycles"), -_size(row, "bytes_moved"), -_size(row, "energy_pj"))
        )
    kept, folded = layers[:most], [] if most is None else layers[most:]
    others = f"{len(folded)} other row{'s' * (len(folded) != 1)}"
    rest = [row for row in rows if row.kind is RowKind.REST]
    return [
        *kept,
        *([DifferenceRow(RowKind.OTHERS, others, (), (), _summed(folded))] if folded else []),
        *rest,
    ]


def _size(row: DifferenceRow, figure: str) -> float:
    return abs(row.changes[figure].difference or 0)


def _picked(run: RunRecord, numbers: Iterable[int]) -> tuple[LayerRecord, ...]:
    return tuple(run.layers[number] for number in numbers)


def _row(
    a: tuple[LayerRecord, ...], b: tuple[LayerRecord, ...], runs: tuple[RunRecord, RunRecord]
) -> DifferenceRow:
    figures = [layer_figures(layers, run) for layers, run in zip((a, b), runs, strict=True)]
    changes = {name: Change(*(side[name] for side in figures)) for name in LAYER_FIGURES}
    match len(a), len(b):
        case 1, 1:
            kind = RowKind.LAYER
        case _, 0:
            kind = RowKind.ONLY_A
        case 0, _:
            kind = RowKind.ONLY_B
        case _:
            kind = RowKind.GROUP
    return DifferenceRow(kind, _name(a, b), a, b, changes)


def _name(a: Sequence[LayerRecord], b: Sequence[LayerRecord]) -> str:
    """Return the name of a row: the layers of the run that has more of them."""
    names = [layer.name for layer in (b if len(b) > len(a) else a)]
    shown = names if len(names) <= MOST_NAMES else names[: MOST_NAMES - 1]
    more = [f"{len(names) - len(shown)} more"] if len(shown) < len(names) else []
    return " + ".join([*shown, *more])


def layer_figures(layers: Sequence[LayerRecord], run: RunRecord) -> dict[str, Number | None]:
    """Return the figures of some layers of a run."""
    cycles = _sum(layer.cycles for layer in layers)
    moved = [(layer.bytes_read, layer.bytes_written) for layer in layers]
    return {
        "cycles": cycles,
        "seconds": None if cycles is None else cycles / run.summary.clock_hz,
        "bytes_read": _sum(read for read, _ in moved),
        "bytes_written": _sum(written for _, written in moved),
        "bytes_moved": _sum(read + written for read, written in moved),
        "energy_pj": _sum(layer.energy_pj for layer in layers),
    }


def _sum(values: Iterable[Number | None]) -> Number | None:
    """Return the sum of the values that are known; None where none is."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return sum(known) if all(isinstance(value, int) for value in known) else math.fsum(known)


def _summed(rows: Sequence[DifferenceRow]) -> dict[str, Change]:
    return {
        name: Change(
            _sum(row.changes[name].a for row in rows),
            _sum(row.changes[name].b for row in rows),
        )
        for name in LAYER_FIGURES
    }


def _rest(totals: Mapping[str, Change], rows: Sequence[DifferenceRow]) -> Iterator[DifferenceRow]:
    """Yield the row of what belongs to no layer, if there is anything."""
    sums = _summed(rows)
    changes = {
        name: Change(_left(totals[name].a, sums[name].a), _left(totals[name].b, sums[name].b))
        for name in LAYER_FIGURES
    }
    if any(change.a or change.b for change in changes.values()):
        yield DifferenceRow(RowKind.REST, NO_LAYER, (), (), changes)


def _left(total: Number | None, part: Number | None) -> Number | None:
    """Return what a sum leaves of a total; a rounding error is 0."""
    if total is None:
        return None
    left = total - (part or 0)
    return 0 if isinstance(left, float) and abs(left) <= ROUNDING * abs(total) else left


def _bound(layers: Sequence[LayerRecord]) -> str:
    longest = sorted(layers, key=lambda layer: -(layer.cycles or 0))
    bounds = ("host" if layer.on == "host" else layer.bound for layer in longest)
    return ", ".join(dict.fromkeys(bound for bound in bounds if bound))


def _layer_values(layer: LayerRecord) -> dict[str, object]:
    return {
        "name": layer.name,
        "op": layer.op,
        "on": layer.on,
        "cycles": layer.cycles,
        "bytes_read": layer.bytes_read,
        "bytes_written": layer.bytes_written,
        "energy_pj": layer.energy_pj,
        "bound": layer.bound,
        "reason": layer.reason,
        "operators": list(layer.operators),
    }
