"""What the page of a tuning log is given."""

import json

import pytest

from tests.explore.report.logs import (
    EXPLORERS,
    LARGE,
    POOLING,
    REASON,
    SEEDS,
    TARGET,
    TASKS,
    changed,
    contents,
    cycles_of,
    points,
    record,
    records,
    settlement,
    slow_of,
)
from vdla.compiler.codegen.tuned.record import TuneError, best_of
from vdla.compiler.tasks.convolution import ConvolutionTask, TransposedTask
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.pooling import MeanTask, PoolingTask
from vdla.compiler.tasks.scaling import ScalingTask, SumTask
from vdla.compiler.te.operators.narrowing import AddingScale, Scale, Shift
from vdla.compiler.te.operators.sizes import Convolution, Pooling, Transposed
from vdla.explore.report.tune_page import choice_text, kind_of, page_data, sizes_of
from vdla.explore.tune.measure import lower_bound, stream_of
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.target import Target
from vdla.hw.spec.target_files import apply_settings

SIZE = Convolution(16, 9, 8, 16, padding=(1, 0, 1, 0))
NAMED_TASKS = {
    "kind Convolution, channels 16, height 9, width 8, outputs 16, kernel 3×3, padding 1/0/1/0": ConvolutionTask(SIZE),
    "kind Convolution, channels 16, height 9, width 8, outputs 16, kernel 3×3, padding 1/0/1/0, narrowing Shift amount 5 rectifies True, reads 2": ConvolutionTask(SIZE, Shift(5, True), reads=2),
    "kind Convolution, channels 16, height 9, width 8, outputs 16, kernel 3×3, padding 1/0/1/0, narrowing AddingScale": ConvolutionTask(SIZE, AddingScale()),
    "kind Convolution, channels 16, height 9, width 8, outputs 16, kernel 3×3, padding 1/0/1/0, narrowing Scale by_channel False, border -3, alike True": ConvolutionTask(SIZE, Scale(False), -3, True),
    "kind Transposed, channels 8, height 4, width 4, outputs 8, kernel 2×2, stride 2×2": TransposedTask(Transposed(8, 4, 4, 8, (2, 2), (2, 2))),
    "kind Pooling, channels 4, height 8, width 8, kernel 2×2": PoolingTask(Pooling(4, 8, 8, (2, 2))),
    "kind Elements, kind add, elements 5, constants 1/-2/3": ElementsTask(Elements.ADD, 5, (1, -2, 3)),
    "kind Sum, elements 7": SumTask(7),
    "kind Scaling, blocks 1, elements 4, parts 2, zeros -5×3": ScalingTask(1, 4, 2, (-5, 3)),
    "kind Mean, blocks 2, elements 256": MeanTask(2, 256),
}  # fmt: skip


pytest.importorskip("xgboost")


OTHER = apply_settings(Target(DEFAULT), ["memory.latency=77"])


@pytest.fixture(scope="module")
def part():
    (only_part,) = page_data(contents(), Target(DEFAULT))["parts"]
    return only_part


def test_the_table_has_the_cycles_of_the_log(part):
    tasks, best = part["tasks"], best_of(records())
    assert tasks["text"] == list(map(str, TASKS))
    assert tasks["default"] == [cycles_of(task, slow_of(task)) for task in TASKS]
    assert tasks["best"] == [best[str(task), TARGET.timing_digest].cycles for task in TASKS]
    assert all(best < default for best, default in zip(tasks["best"], tasks["default"], strict=True))
    assert sum(tasks["trials"]) == part["trials"] == len(records()) - len(TASKS)
    assert (tasks["illegal"], part["illegal"]) == ([1, 0, 0], 1)
    assert part["reasons"] == [{"why": REASON, "count": 1}]
    assert part["seeds"] == len(EXPLORERS) * SEEDS
    assert tasks["choices"] == [len(points(task)) for task in TASKS]
    assert tasks["kind"] == ["Convolution", "Pooling", "Convolution"]
    assert tasks["choice"][1].startswith("threads ")


def test_the_bound_is_that_of_the_lowered_task(part):
    for task, bound in zip(TASKS, part["tasks"]["bound"], strict=True):
        stream = stream_of(task, points(task).choice(0), TARGET.config)
        assert bound == lower_bound(stream, TARGET)


def test_curves_end_at_the_best_of_their_explorers(part):
    curves, tasks = part["curves"], part["tasks"]
    assert [curve["explorer"] for curve in curves if curve["task"] is None] == list(EXPLORERS)
    for place, (best, default) in enumerate(zip(tasks["best"], tasks["default"], strict=True)):
        reached = min(curve["least"][-1] for curve in curves if curve["task"] == place)
        assert reached == pytest.approx(best / default, rel=1e-4)


def test_ranks_are_numbers_where_there_are_points(part):
    tasks = part["tasks"]
    assert all(-1 <= value <= 1 for value in (*tasks["learned"], *tasks["analytic"]))
    assert tasks["learned"][0] > 0.5
    assert tasks["analytic"][1] == 0  # the compiler estimates no poolings


def test_a_target_that_is_no_preset_is_known_when_it_is_given():
    log = contents(records(timing=OTHER.timing_digest, target="default"))
    (without,) = page_data(log, Target(DEFAULT))["parts"]
    assert not without["known"]
    for name in ("bound", "learned", "analytic", "choices"):
        assert without["tasks"][name] == [None] * len(TASKS)
    assert len(without["curves"]) == len(EXPLORERS) * (1 + len(TASKS))
    (given,) = page_data(log, OTHER)["parts"]
    assert given["known"]
    assert None not in given["tasks"]["bound"]


def test_parts_are_told_apart_and_this_version_comes_first():
    other = [*records(version="0" * 64), record(LARGE, 0, "random", version="0" * 64)]
    data = page_data(contents([*other, *records()], torn=True), Target(DEFAULT))
    assert [part["current"] for part in data["parts"]] == [True, False]
    assert [part["trials"] for part in data["parts"]] == [len(records()) - 3, len(records()) - 2]
    assert (data["torn"], data["records"]) == (True, 2 * len(records()) + 1)


def test_settlements_are_no_trials(part):
    log = contents([*settlement(6000), *records(), *settlement(5000), *settlement(7, "cd" * 32)])
    (again,) = page_data(log, Target(DEFAULT))["parts"]
    figures = [{"network": "net.onnx", "before": 6250, "cycles": cycles} for cycles in (7, 5000)]
    assert again["settled"] == [figure | {"tasks": len(TASKS), "changed": 1} for figure in figures]
    assert part["settled"] == []
    assert again["tasks"]["layers"] == [[f"conv{number}", "again"] for number in range(len(TASKS))]
    unnamed = {**again["tasks"], "layers": part["tasks"]["layers"]}
    assert again | {"settled": [], "tasks": unnamed} == part
    (alone,) = page_data(contents(settlement()), Target(DEFAULT))["parts"]
    assert (alone["trials"], alone["tasks"]["text"], alone["curves"]) == (0, [], [])
    assert [settled["cycles"] for settled in alone["settled"]] == [5000]


def test_unusual_logs_have_what_is_known():
    odd = [
        record(LARGE, 0, "random", 0, 1, cycles=None, status="no"),
        record(POOLING, 0, "random", 0, 2, choice={"of": {"another": 1}, "none": None}),
        changed(record(POOLING, 0, "random", 0, 3), task="Unheard(of=1)"),
    ]
    (part,) = page_data(contents(odd), Target(DEFAULT))["parts"]
    tasks = part["tasks"]
    assert tasks["default"] == [None] * 3
    assert tasks["best"] == [None, odd[1].cycles, odd[2].cycles]
    assert tasks["bound"] == [None] * 3
    assert tasks["choice"][:2] == [None, "another 1"]
    assert tasks["sizes"][2] == "Unheard(of=1)"
    assert part["curves"] == []
    json.dumps(part, allow_nan=False)


def test_an_empty_log_is_refused():
    with pytest.raises(TuneError, match=r"net\.jsonl holds no records; `vdla tune MODEL -o net\.jsonl`"):
        page_data(contents([]), Target(DEFAULT))


@pytest.mark.parametrize("said", NAMED_TASKS)
def test_a_task_says_its_kind_and_sizes(said):
    task = NAMED_TASKS[said]
    assert f"kind {kind_of(str(task))}, {sizes_of(task)}" == said


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({}, ""),
        ({"parts": 3, "threads": 2, "tiles": None}, "parts 3, threads 2"),
        (
            {"threads": 1, "tiles": {"rows": 4, "threads_over": "rows"}},
            "threads 1, rows 4, threads over rows",
        ),
    ],
)
def test_a_choice_says_all_that_it_has(choice, said):
    assert choice_text(choice) == said
