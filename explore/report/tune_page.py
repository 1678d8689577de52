"""The page of a tuning log."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from vdla.compiler.codegen.choose import stream_of
from vdla.compiler.codegen.space import ChoiceSpace, space_of
from vdla.compiler.codegen.tuned.log import LogContents
from vdla.compiler.codegen.tuned.record import TuneError, TuningRecord, best_of, settled_of
from vdla.compiler.codegen.version import task_version
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Task, choice_from_json
from vdla.compiler.tasks.task_text import task_of
from vdla.explore.report.numbers import short
from vdla.explore.report.page import write_page
from vdla.explore.report.tune_curves import BestSoFar, Curve, best_so_far, curves_of, mean_curves
from vdla.explore.tune.known import DEFAULT
from vdla.explore.tune.measure import lower_bound
from vdla.explore.tune.model import Ranks, ranks_of, trials_of
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.target import TARGETS, Target

SCRIPTS = ("curves.js", "standings.js", "tune.js")
MOST_REASONS = 8  # for which choices were illegal
DIGITS = 8  # of the digest of a network whose file is not known
Say = Callable[[str], object]
SUFFIX = "Task"
PLAIN = {0, 1}  # sizes that need no mention where they are as usual


def write_tune_report(
    output: Path, contents: LogContents, given: Target, say: Say = lambda text: None
) -> Path:
    """Write the page of a tuning log.

    Args:
        output: file to write.
        contents: of the log.
        given: a target that the log may be of, beside the presets.
        say: is told what is done.

    Returns:
        The file.

    Raises:
        TuneError: the log holds no record.
        OutputError: the page cannot be written.
        ToolError: a package that writes pages, or that learns, is not installed.
    """
    title = f"Tuning log {contents.path.name}"
    return write_page(output, title, "tune.html", SCRIPTS, page_data(contents, given, say))


@dataclass(frozen=True, eq=False)
class Shown:
    """A task of a log on one target.

    Attributes:
        text: of the task.
        records: of its trials.
        space: None where the target or the task is not known here.
        layers: in which it occurs, of all networks in the log.
        default: cycles of the compiler's default choice; None where the log has none.
        best: the record with the fewest cycles; None where every choice is illegal.
    """

    text: str
    records: Sequence[TuningRecord]
    layers: Sequence[str]
    space: ChoiceSpace | None
    default: int | None
    best: TuningRecord | None

    @property
    def trials(self) -> Sequence[TuningRecord]:
        """The records of explorers."""
        return [record for record in self.records if record.explorer != DEFAULT]

    @property
    def bound(self) -> int | None:
        """Cycles below which no choice gets; None where it is not known."""
        if self.space is None or self.best is None:
            return None
        try:
            choice = choice_from_json(self.best.choice)
            stream = stream_of(self.space.task, choice, self.space.target.config)
        except (VdlaError, KeyError, TypeError, ValueError):  # a choice of another version
            return None
        return lower_bound(stream, self.space.target)


def page_data(contents: LogContents, given: Target, say: Say = lambda text: None) -> dict[str, Any]:
    """Return everything that the page of a log shows, as JSON values.

    Args:
        contents: of the log.
        given: a target that the log may be of, beside the presets.
        say: is told what is done.

    Raises:
        TuneError: the log holds no record.
        ToolError: xgboost is not installed.
    """
    if not contents.records:
        raise TuneError(f"{contents.path} holds no records; `vdla tune MODEL -o {contents.path}` writes some")
    targets = {target.timing_digest: target for target in (*TARGETS.values(), given)}
    parts: dict[tuple[str, str], list[TuningRecord]] = defaultdict(list)
    for record in contents.records:
        parts[record.timing, record.version].append(record)
    order = sorted(parts, key=lambda key: (key[1] != task_version(), -len(parts[key]), key))
    return {
        "name": contents.path.name,
        "records": len(contents.records),
        "torn": contents.torn,
        "parts": [_part(parts[key], targets.get(key[0]), say) for key in order],
    }


def _part(records: Sequence[TuningRecord], target: Target | None, say: Say) -> dict[str, Any]:
    """Return what the page shows of the records of one target and version."""
    first, tasks = records[0], _tasks(records, target)
    say(f"{first.target}: how the cost model orders {len(tasks)} tasks")
    trials = [record for task in tasks for record in task.trials]
    return {
        "target": first.target,
        "timing": first.timing,
        "version": first.version,
        "current": first.version == task_version(),
        "known": target is not None,
        "trials": len(trials),
        "illegal": sum(record.cycles is None for record in trials),
        "seeds": len({(record.explorer, record.seed) for record in trials}),
        "reasons": _reasons(trials),
        "settled": _settled(records, tasks),
        "tasks": _columns(tasks),
        "curves": list(_curves(tasks)),
    }


def _tasks(records: Sequence[TuningRecord], target: Target | None) -> list[Shown]:
    """Return the tasks of one target and version, in the order in which they occur first."""
    groups: dict[str, list[TuningRecord]] = defaultdict(list)
    layers: dict[str, dict[str, None]] = defaultdict(dict)
    for record in records:
        layers[record.task] |= dict.fromkeys(record.layers)
        if not record.network:
            groups[record.task].append(record)
    best = {text: record for (text, _), record in best_of(records).items()}
    return [
        _shown(text, group, tuple(layers[text]), best.get(text), target) for text, group in groups.items()
    ]


def _shown(
    text: str,
    records: Sequence[TuningRecord],
    layers: Sequence[str],
    best: TuningRecord | None,
    target: Target | None,
) -> Shown:
    default = next((record.cycles for record in records if record.explorer == DEFAULT), None)
    task = None if target is None else task_of(text)
    space = None if task is None or target is None else space_of(task, target)
    return Shown(text, records, layers, None if isinstance(space, Unfit) else space, default, best)


def _columns(tasks: Sequence[Shown]) -> dict[str, list[Any]]:
    """Return the table of tasks as columns."""
    ranks = _ranks(tasks)
    known = [task_of(task.text) for task in tasks]
    return {
        "text": [task.text for task in tasks],
        "layers": [list(task.layers) for task in tasks],
        "kind": [kind_of(task.text) for task in tasks],
        "sizes": [
            task.text if known_task is None else sizes_of(known_task)
            for task, known_task in zip(tasks, known, strict=True)
        ],
        "default": [task.default for task in tasks],
        "best": [None if task.best is None else task.best.cycles for task in tasks],
        "bound": [task.bound for task in tasks],
        "trials": [len(task.trials) for task in tasks],
        "illegal": [sum(record.cycles is None for record in task.trials) for task in tasks],
        "choices": [None if task.space is None else len(task.space) for task in tasks],
        "choice": [None if task.best is None else choice_text(task.best.choice) for task in tasks],
        "explorer": [None if task.best is None else task.best.explorer for task in tasks],
        "points": [None if rank is None else rank.count for rank in ranks],
        "learned": [None if rank is None else short(rank.learned) for rank in ranks],
        "analytic": [None if rank is None else short(rank.analytic) for rank in ranks],
    }


def _ranks(tasks: Sequence[Shown]) -> list[Ranks | None]:
    """Return the rank correlations of each task; None where it is not known here, or has too few trials."""
    known = {
        place: trials_of(task.records, task.space)
        for place, task in enumerate(tasks)
        if task.space is not None
    }
    ranks = dict(zip(known, ranks_of(list(known.values())), strict=True))
    return [ranks.get(place) for place in range(len(tasks))]


def _curves(tasks: Sequence[Shown]) -> Iterator[dict[str, Any]]:
    """Yield the curves of all tasks together, whose `task` is None, and then of each."""
    best_by_place: dict[int, BestSoFar] = {
        place: best_so_far(task.records, task.default)
        for place, task in enumerate(tasks)
        if task.default is not None
    }
    if best_by_place:
        yield from (_curve(None, curve) for curve in mean_curves(list(best_by_place.values())))
    for place, task in best_by_place.items():
        yield from (_curve(place, curve) for curve in curves_of(task))


def _curve(place: int | None, curve: Curve) -> dict[str, Any]:
    values = asdict(curve)
    for name in ("middle", "least", "most"):
        values[name] = [short(value) for value in values[name]]
    return {"task": place, **values}


def _settled(records: Iterable[TuningRecord], tasks: Sequence[Shown]) -> list[dict[str, Any]]:
    """Return the best settlement of each network: its cycles before and after, and in how many tasks it
    differs from the compiler's default choices."""
    defaults = {
        task.text: {record.choice_text for record in task.records if record.explorer == DEFAULT}
        for task in tasks
    }
    return [
        {
            "network": together[0].model or network[:DIGITS],
            "before": together[0].before,
            "cycles": together[0].cycles,
            "tasks": len(together),
            "changed": sum(record.choice_text not in defaults.get(record.task, ()) for record in together),
        }
        for (network, _), together in settled_of(records).items()
    ]


def _reasons(trials: Iterable[TuningRecord]) -> list[dict[str, Any]]:
    """Return why choices were illegal, the most frequent first."""
    counts = Counter(record.status for record in trials if record.cycles is None)
    return [{"why": why, "count": count} for why, count in counts.most_common(MOST_REASONS)]


def kind_of(text: str) -> str:
    """Return the kind of a task from its text, as in "Convolution"."""
    return text.partition("(")[0].removesuffix(SUFFIX)


def sizes_of(task: Task) -> str:
    """Return what a task has beside its kind, as in "channels 16, kernel 5×1"."""
    return ", ".join(_words(task))


def choice_text(choice: Mapping[str, Any]) -> str:
    """Return a choice as people read it: "threads 2, outputs 4, keeps weights"."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in _leaves(choice))


def _words(value: Any) -> Iterator[str]:
    for field in fields(value):
        part = getattr(value, field.name)
        if _is_plain(part, field):
            continue
        if is_dataclass(part):
            inner = list(_words(part))
            yield from (
                inner if field.name == "size" else [" ".join([field.name, type(part).__name__, *inner])]
            )
        else:
            yield f"{field.name} {_numbers(part) if isinstance(part, tuple) else part}"


def _is_plain(value: Any, field: "Field[Any]") -> bool:
    """Return whether a value is as usual, and nothing but zeros and ones, or settings of a part."""
    if field.default is MISSING or value != field.default:
        return False
    return is_dataclass(value) or set(value if isinstance(value, tuple) else [value]) <= PLAIN


def _numbers(values: tuple[Any, ...]) -> str:
    """Return "5×1" for the extents of a window, else "1" or "1/0/1" for equal and different numbers."""
    if len(values) == 2:
        return f"{values[0]}×{values[1]}"
    return str(values[0]) if len(set(values)) == 1 else "/".join(map(str, values))


def _leaves(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value)
        elif value is not None:
            yield name, value
