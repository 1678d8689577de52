"""What is said about how records served."""

import pytest

from vdla.compiler.codegen.tuned.best_records import KIT, Tuning
from vdla.compiler.codegen.tuned.chooser import RecordUse
from vdla.compiler.network.tuning import tuning_of
from vdla.compiler.tasks.elementwise import Elements, ElementsTask

TASKS = [ElementsTask(Elements.COPY, number) for number in range(1, 5)]
LAYERS = {task: [f"layer{number}", "later"] for number, task in enumerate(TASKS)}


def test_each_task_is_called_by_its_first_layer():
    uses = dict(
        zip(
            map(str, TASKS),
            [RecordUse.APPLIED, RecordUse.NONE, RecordUse.REMEASURED, RecordUse.WORSE],
            strict=True,
        )
    )
    assert tuning_of(uses, LAYERS) == Tuning(4, 2, 1, ("layer3",), ("layer1",))
    assert tuning_of({}, LAYERS) == Tuning(0, 0, 0, (), ())


@pytest.mark.parametrize(
    ("tuning", "said"),
    [
        (Tuning(2, 2, 0, (), ()), "tuned: 2 of 2 tasks by log"),
        (
            Tuning(9, 3, 2, ("a",), tuple("bcdef")),
            "tuned: 3 of 9 tasks by log, 2 of them measured again for this version of the kit, "
            "no longer better: a, none for: b, c, d, e, f",
        ),
        (Tuning(6, 0, 0, (), tuple("abcdef")), "tuned: 0 of 6 tasks by log, none for: a, b, c, d and 2 more"),
    ],
)
def test_it_is_said_in_a_line_with_a_cut(tuning, said):
    assert tuning.report("log") == said


def test_layers_without_records_of_the_kit_are_not_listed():
    assert Tuning(6, 2, 0, (), tuple("abcd")).report(KIT) == "tuned: 2 of 6 tasks by the kit's records"


@pytest.mark.parametrize(
    ("tuning", "applied"),
    [
        (Tuning(2, 0, 0, (), ("a", "b")), False),
        (Tuning(2, 1, 0, (), ("b",)), True),
        (Tuning(1, 0, 0, ("a",), ()), True),
    ],
)
def test_records_apply_where_there_was_one_for_a_task(tuning, applied):
    assert tuning.applied is applied
