"""What `vdla sweep` prints."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.cli._live import duration
from vdla.explore.sweep.figures import FIGURES, Verdict, geometric_mean, in_short

MOST_REASONS = 5

if TYPE_CHECKING:
    from vdla.explore.sweep.difference import Alone, Difference, Pair
    from vdla.explore.sweep.run import Progress


def reasons(progress: "Progress") -> list[str]:
    """Return why points have no cycles, a line for each of the most frequent reasons."""
    statuses = list(progress.reasons.items())
    lines = [f"{count:6,}  {in_short(status)}" for status, count in statuses[:MOST_REASONS]]
    rest = sum(count for _, count in statuses[MOST_REASONS:])
    return [*lines, *([f"{rest:6,}  for other reasons: the column status has them"] if rest else [])]


def described(progress: "Progress") -> str:
    """Return progress as a line."""
    parts = [f"{progress.done:,} of {progress.total:,} points"]
    if progress.failed:
        parts.append(f"{progress.failed:,} without cycles")
    if progress.remaining_seconds is not None:
        parts.append(f"{progress.rate:.2f} points/s, {duration(progress.remaining_seconds)} left")
    first = [f"{count:,}: {in_short(status)}" for status, count in list(progress.reasons.items())[:1]]
    return "; ".join([", ".join(parts), *first])


def _points(count: int) -> str:
    return f"{count:,} point{'s' * (count != 1)}"


def conclusion(output: Path, done: "Progress") -> str:
    """Return what a finished sweep prints."""
    measured = done.done - done.resumed
    lines = [
        f"{output}: {_points(done.total)}, {measured:,} of them measured now in {duration(done.seconds)}"
    ]
    if done.left_out:
        are = "earlier point is" if done.left_out == 1 else "earlier points are"
        lines.append(f"{done.left_out:,} {are} not in the specification; the journal keeps them")
    if done.failed:
        lines.append(
            f"{_points(done.failed)} {'lacks' if done.failed == 1 else 'lack'} cycles of some workload:"
        )
        lines += reasons(done)
    if done.verdicts:
        within, perhaps, beyond = (done.verdicts.get(verdict, 0) for verdict in Verdict)
        lines.append(f"limits: {_points(within)} within, {perhaps:,} may or may not be, {beyond:,} beyond")
    lines.append(f"{output / 'report.html'}: open it in a browser; tables: points.parquet, layers.parquet")
    return "\n".join(lines)


def difference_values(difference: "Difference") -> dict[str, object]:
    """Return a comparison as plain JSON values."""
    return {
        "points": len(difference.pairs),
        "changed": sum(pair.changed for pair in difference.pairs),
        "only_before": len(difference.only_before),
        "only_after": len(difference.only_after),
        "alone_before": {parameter.name: parameter.value for parameter in difference.alone_before},
        "alone_after": {parameter.name: parameter.value for parameter in difference.alone_after},
        "lost": [_values(pair) for pair in difference.lost],
        "gained": [_values(pair) for pair in difference.gained],
        "ratios": {
            figure: _spread(difference.ratios(figure)) for figure in FIGURES if difference.ratios(figure)
        },
        "pairs": [
            _values(pair) | {figure: [pair.before[figure], pair.after[figure]] for figure in FIGURES}
            for pair in difference.pairs
            if pair.changed
        ],
    }


def _values(pair: "Pair") -> dict[str, object]:
    return {**pair.values, "workload": pair.workload}


def _spread(ratios: list[float]) -> dict[str, float]:
    return {"mean": geometric_mean(ratios), "least": min(ratios), "greatest": max(ratios)}


def described_difference(difference: "Difference", most: int | None) -> str:
    """Return a comparison as text.

    Args:
        most: points that are listed, by the change of their cycles, the largest first; None: all.
    """
    changed = [pair for pair in difference.pairs if pair.changed]
    lines = [
        f"{len(difference.pairs):,} row{'s' * (len(difference.pairs) != 1)} in both sweeps, "
        f"{len(changed):,} of them differ{'s' * (len(changed) == 1)}; "
        f"{len(difference.only_before):,} only in the first, "
        f"{len(difference.only_after):,} only in the second"
    ]
    lines += [_alone(parameter, "first", "second") for parameter in difference.alone_before]
    lines += [_alone(parameter, "second", "first") for parameter in difference.alone_after]
    lines += (
        [_table([_summary(difference, workload) for workload in difference.workloads])] if changed else []
    )
    for title, pairs in (
        ("without cycles in the second", difference.lost),
        ("without cycles in the first", difference.gained),
    ):
        lines += [f"{title}: {_named(pair)}: {_reason(pair)}" for pair in pairs[:most]]
    ranked = sorted(changed, key=lambda pair: abs(math.log(pair.ratio("cycles") or 1)), reverse=True)
    shown = [pair for pair in ranked if pair.ratio("cycles") not in (None, 1)][:most]
    lines += [_table([_row(pair) for pair in shown])] if shown else []
    return "\n".join(lines)


def _alone(parameter: "Alone", here: str, there: str) -> str:
    """Say how points are compared whose parameter the other sweep does not have."""
    if parameter.value is None:
        return f"only the {here} sweeps {parameter.name}: every value is compared with the {there}'s points"
    return (
        f"only the {here} sweeps {parameter.name}: compared at {parameter.value}, "
        f"the value of the {there}'s base"
    )


def _summary(difference: "Difference", workload: str) -> dict[str, str]:
    """Return the row of a workload: the mean change of each figure, and the least and greatest of cycles."""
    row = {"workload": workload}
    for figure in FIGURES:
        ratios = difference.ratios(figure, workload)
        if ratios:
            row[figure] = _percent(geometric_mean(ratios))
            if figure == "cycles":
                row["best"], row["worst"] = _percent(min(ratios)), _percent(max(ratios))
    return row


def _row(pair: "Pair") -> dict[str, str]:
    ratio = pair.ratio("cycles")
    assert ratio is not None, "only pairs with cycles are listed"
    values = {name: str(value) for name, value in pair.values.items()}
    cycles = {"cycles A": f"{pair.before['cycles']:,}", "cycles B": f"{pair.after['cycles']:,}"}
    return {**values, "workload": pair.workload, **cycles, "change": _percent(ratio)}


def _named(pair: "Pair") -> str:
    values = ", ".join(f"{name} = {value}" for name, value in pair.values.items())
    return f"{values}, {pair.workload}"


def _reason(pair: "Pair") -> str:
    return str(next(row["status"] for row in (pair.after, pair.before) if row["status"] != "ok"))


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.2f}%"


def _table(rows: list[dict[str, str]]) -> str:
    """Return rows of one kind as aligned columns; what a row lacks stays blank."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    widths = {name: max(len(name), *(len(row.get(name, "")) for row in rows)) for name in names}
    cells = [dict(zip(names, names, strict=True)), *rows]
    return "\n".join("  ".join(row.get(name, "").rjust(widths[name]) for name in names) for row in cells)
