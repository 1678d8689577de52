"""What a log knows of other tasks and targets."""

from dataclasses import replace
from math import inf

from tests.compiler.codegen.tuned.records import TARGET, TASK, record
from tests.explore.tune.networks import SMALL
from vdla.compiler.codegen.space import space_of
from vdla.compiler.tasks.base import choice_to_json
from vdla.explore.tune import history as module
from vdla.explore.tune.history import LEAST_RECORDS, history
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import SMALL as SMALL_CONFIG
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target

OTHER = Target(TINY, MemoryParameters(65))


def records(task=TASK, target=TARGET, count=12, **changes):
    """Return records of a task's first choices; the first is illegal."""
    space = space_of(task, target)
    task_records = [
        record(
            1000 + place if place else None,
            task=str(task),
            timing=target.timing_digest,
            choice=choice_to_json(space.choice(place)),
            trial=place,
        )
        for place in range(count)
    ]
    return [replace(task_record, **changes) for task_record in task_records]


def known(histories):
    """Return tasks, targets and how many results each has."""
    return [(space.task, space.target.timing_digest, len(results)) for space, results in histories]


def test_other_tasks_and_other_targets_are_known_and_not_what_is_searched():
    log = records() + records(SMALL, count=9) + records(target=Target(SMALL_CONFIG), count=10)
    histories = history(log, TARGET, [TASK])
    small = Target(SMALL_CONFIG).timing_digest
    assert known(histories) == [(TASK, small, 10), (SMALL, TARGET.timing_digest, 9)]
    assert histories[1][1] == {0: inf} | {place: 1000.0 + place for place in range(1, 9)}
    assert known(history(log, TARGET, [SMALL]))[0] == (TASK, TARGET.timing_digest, 12)


def test_the_target_of_the_search_is_known_and_others_only_if_they_are_presets():
    log = records(target=OTHER)
    assert known(history(log, OTHER, [])) == [(TASK, OTHER.timing_digest, 12)]
    assert history(log, TARGET, []) == []


def test_what_is_too_little_or_cannot_be_read_is_left_out(monkeypatch):
    assert history(records(count=LEAST_RECORDS - 1), TARGET, []) == []
    assert len(history(records(count=LEAST_RECORDS), TARGET, [])) == 1
    assert history([replace(record, task="gone") for record in records()], TARGET, []) == []
    assert history(records(choice={"threads": 64}), TARGET, []) == []
    monkeypatch.setattr(module, "MOST_RECORDS", 9)
    assert known(history(records(), TARGET, [])) == [(TASK, TARGET.timing_digest, 9)]
    monkeypatch.setattr(module, "MOST_TASKS", 1)
    assert len(history(records() + records(SMALL), TARGET, [])) == 1


def test_versions_are_apart_and_the_order_of_the_log_does_not_matter():
    log = records() + records(version="old", count=10)
    assert [len(results) for _, results in history(log, TARGET, [])] == [12, 10]
    turned = history(log[::-1], TARGET, [])
    assert [results for _, results in turned] == [results for _, results in history(log, TARGET, [])]
