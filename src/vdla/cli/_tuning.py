"""What `vdla tune` prints."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.cli._live import duration
from vdla.hw.spec.target import Target

if TYPE_CHECKING:
    from vdla.explore.tune.gain import Standing
    from vdla.explore.tune.session import Progress


def described(progress: "Progress") -> str:
    """Return progress as a line."""
    total = "" if progress.total is None else f" of {progress.total:,}"
    parts = [f"{progress.trials:,}{total} trials", f"{_change(*progress.cycles)} cycles"]
    if progress.failed:
        parts.append(f"{progress.failed:,} illegal")
    if progress.measured:
        parts.append(f"{progress.measured / progress.seconds:.1f} trials/s")
    if progress.remaining_seconds is not None:
        parts.append(f"{duration(progress.remaining_seconds)} left")
    return ", ".join(parts)


def table(progress: "Progress") -> list[str]:
    """Return the best choice of each task so far; tasks with most cycles come first."""
    standings = list(progress.standings)
    searched = None if progress.searched is None else standings[progress.searched]
    return _rows(sorted(standings, key=lambda standing: -standing.best * len(standing.layers)), searched)


def conclusion(
    model: Path,
    log: Path,
    done: "Progress",
    target: Target,
    settled: tuple[int, int] | None,
    use: str,
) -> str:
    """Return what a finished tuning prints.

    Args:
        settled: cycles of the whole network by the compiler's default choices, and by the settled choices;
            None where no choices were settled.
        use: the command that compiles the network with the log.
    """
    before, after = done.cycles
    lines = _rows([standing for standing in done.standings if standing.best < standing.default], None)
    if settled is not None:
        lines.append(f"{model.name} on {target.name}: {_gain(*settled)}")
    alone = "sum of the layers, each alone" if len(done.standings) > 1 else "the layer alone"
    lines.append(f"{alone}: {_gain(before, after)}")
    parts = [f"{done.trials:,} trials", f"{done.measured:,} of them measured now in {duration(done.seconds)}"]
    if done.measured:
        seconds = [f"{1e3 * part / done.measured:.1f} ms {name}" for name, part in _parts(done)]
        parts.append(f"{done.measured / done.seconds:.1f} a second ({', '.join(seconds)})")
    if done.failed:
        parts.append(f"{done.failed:,} illegal")
    lines += [f"{log}: {', '.join(parts)}", f"use it: {use}"]
    return "\n".join(lines)


def _parts(done: "Progress") -> Iterator[tuple[str, float]]:
    return zip(("lowering", "verification", "simulation"), done.parts, strict=True)


def _rows(standings: "list[Standing]", searched: "Standing | None") -> list[str]:
    """Return a line for each task with its cycles, and a head; none where there are no tasks."""
    if not standings:
        return []
    cells = [["layer", "default", "best", "change", "bound", "trials"]]
    cells += [
        [
            ("> " if standing is searched else "  ") + standing.name,
            f"{standing.default:,}",
            f"{standing.best:,}",
            _change(standing.default, standing.best),
            f"{standing.bound:,}",
            f"{standing.trials:,}",
        ]
        for standing in standings
    ]
    cells[0][0] = "  layer"
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(map(str.rjust, row[1:], widths[1:]))]).rstrip() for row in cells
    ]


def _gain(before: int, after: int) -> str:
    change = _change(before, after)
    return f"{before:,} cycles by the default choices, {after:,} by the best ({change})"


def _change(before: int, after: int) -> str:
    return f"{(after / before - 1) * 100:+.2f}%" if before else "+0.00%"
