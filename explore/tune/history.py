"""What a log knows of other tasks and targets, which lets a cost model start warm.

Cycles of other versions of the compiler count as well: they order choices nearly as this version's do.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

from vdla.compiler.codegen.space import ChoiceSpace, space_of
from vdla.compiler.codegen.tuned.chooser import legal_choice
from vdla.compiler.codegen.tuned.record import TuningRecord
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Task
from vdla.compiler.tasks.task_text import task_of
from vdla.explore.tune.known import cost
from vdla.hw.spec.target import TARGETS, Target

LEAST_RECORDS, MOST_RECORDS = 8, 64  # of a task
MOST_TASKS = 24


def history(
    records: Iterable[TuningRecord], target: Target, searched: Collection[Task]
) -> list[tuple[ChoiceSpace, Mapping[int, float]]]:
    """Return what was measured of tasks that are not searched now: cycles by place, inf where it is illegal.

    MOST_RECORDS records of each task are used, and at most MOST_TASKS tasks: the tasks with most records.
    Targets are known by their digests: the presets, and the target of the search.

    Args:
        target: of the search.
        searched: the tasks that are searched on it.
    """
    targets = {known.timing_digest: known for known in (*TARGETS.values(), target)}
    now = {(str(task), target.timing_digest) for task in searched}
    groups: dict[tuple[str, str, str], list[TuningRecord]] = {}
    for record in records:
        if not record.network and record.timing in targets and (record.task, record.timing) not in now:
            groups.setdefault((record.task, record.timing, record.version), []).append(record)
    ranked = sorted(groups, key=lambda key: (-len(groups[key]), key))
    histories = (
        _measured(targets[key[1]], sorted(groups[key], key=lambda each: each.order)) for key in ranked
    )
    return list(islice((measured for measured in histories if measured is not None), MOST_TASKS))


def _measured(target: Target, records: Sequence[TuningRecord]) -> tuple[ChoiceSpace, dict[int, float]] | None:
    """Return the space of a task, and cycles by place; None where too few choices are legal now."""
    task = task_of(records[0].task)
    space = None if task is None else space_of(task, target)
    if space is None or isinstance(space, Unfit):
        return None
    results: dict[int, float] = {}
    for record in records:
        choice = legal_choice(record, space)
        place = None if choice is None else space.place(choice)
        if place is not None and len(results) < MOST_RECORDS:
            results[place] = cost(record)
    return (space, results) if len(results) >= LEAST_RECORDS else None
