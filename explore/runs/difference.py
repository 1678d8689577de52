"""The comparison of two runs of a network, layer by layer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vdla.explore.runs.matching import shared_operators
from vdla.explore.runs.record import RunRecord
from vdla.explore.runs.rows import Change, DifferenceRow, layer_figures, rows_of
from vdla.hw.spec.errors import FileFormatError

FIGURES = (
    "cycles",
    "seconds",
    "bytes_read",
    "bytes_written",
    "bytes_moved",
    "energy_pj",
    "launches",
    "instructions",
)


@dataclass(frozen=True, slots=True)
class RunDifference:
    """The comparison of two runs.

    Attributes:
        names: of the files of both.
        a, b: the runs.
        changed: what differs between the targets and the circumstances of the runs, by name: the values in
            A and in B.
        totals: by the names in FIGURES.
        rows: in the order of A's layers. For each figure their sum is the total.
    """

    names: tuple[str, str]
    a: RunRecord
    b: RunRecord
    changed: Mapping[str, tuple[object, object]]
    totals: Mapping[str, Change]
    rows: tuple[DifferenceRow, ...]

    @property
    def differs(self) -> bool:
        """Whether anything differs that is compared."""
        return bool(
            self.changed
            or any(change.a != change.b for change in self.totals.values())
            or any(row.differs for row in self.rows)
        )


def compare_runs(a: RunRecord, b: RunRecord, names: tuple[str, str]) -> RunDifference:
    """Compare two runs of a network.

    Args:
        names: of the files of both, for messages.

    Raises:
        FileFormatError: the runs are of different networks, or share no operator.
    """
    _check_network(a, b, names)
    totals = _totals(a, b)
    return RunDifference(names, a, b, _changed(a, b), totals, rows_of(a, b, totals))


def difference_values(difference: RunDifference, rows: Iterable[DifferenceRow]) -> dict[str, Any]:
    """Return a comparison with the given rows as plain JSON values."""
    sides = zip("ab", (difference.a, difference.b), difference.names, strict=True)
    return {
        **{side: _run_values(run, name) for side, run, name in sides},
        "differs": difference.differs,
        "changed": {name: {"a": a, "b": b} for name, (a, b) in difference.changed.items()},
        "totals": {name: change.to_json() for name, change in difference.totals.items()},
        "layers": [row.to_json() for row in rows],
    }


def _run_values(run: RunRecord, name: str) -> dict[str, object]:
    summary = run.summary
    return {
        "file": name,
        "network": summary.network,
        "target": summary.target,
        "device": run.device,
        "clock_hz": summary.clock_hz,
    }


def _check_network(a: RunRecord, b: RunRecord, names: tuple[str, str]) -> None:
    """Refuse runs whose networks differ in name and MACs, or that share no operator."""
    macs = [run.macs + run.host_macs for run in (a, b)]
    networks = [run.summary.network for run in (a, b)]
    if networks[0] != networks[1] and macs[0] != macs[1]:
        of = [f"{network} ({count:,} MACs)" for network, count in zip(networks, macs, strict=True)]
        raise FileFormatError(
            f"{names[0]} is a run of {of[0]}, and {names[1]} of {of[1]}; layers are compared by name, so "
            "give two runs of one network"
        )
    if not shared_operators(a.layers, b.layers):
        of_both = " and ".join(dict.fromkeys(networks))
        raise FileFormatError(
            f"{names[0]} and {names[1]} are runs of {of_both} without an operator of the same name; layers "
            "are compared by name, so compile both from one file"
        )


def _totals(a: RunRecord, b: RunRecord) -> dict[str, Change]:
    sides = []
    for run in (a, b):
        figures = layer_figures(run.layers, run)
        sides.append(
            {
                **figures,
                "cycles": run.cycles,
                "seconds": (run.cycles or 0) / run.summary.clock_hz,
                "energy_pj": run.energy_pj,
                "launches": run.summary.launches,
                "instructions": run.summary.instructions,
            }
        )
    return {name: Change(*(side[name] for side in sides)) for name in FIGURES}


def _changed(a: RunRecord, b: RunRecord) -> dict[str, tuple[object, object]]:
    """Return the settings and circumstances that differ."""
    sides = [{**_circumstances(run), **run.target.parameters} for run in (a, b)]
    names = dict.fromkeys(name for side in sides for name in side)
    pairs = {name: (sides[0].get(name), sides[1].get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _circumstances(run: RunRecord) -> dict[str, object]:
    return {
        "network": run.summary.network,
        "MACs": run.macs + run.host_macs,
        "target": run.summary.target,
        "device": run.device,
        "runs": run.runs,
    }
