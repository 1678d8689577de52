"""What tasks and choices are called."""

import pytest

from vdla.compiler.tasks.convolution import ConvolutionTask, TransposedTask
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.pooling import MeanTask, PoolingTask
from vdla.compiler.tasks.scaling import ScalingTask, SumTask
from vdla.compiler.te.operators.narrowing import AddingScale, Scale, Shift
from vdla.compiler.te.operators.sizes import Convolution, Pooling, Transposed
from vdla.explore.report.tune_words import choice_text, kind_of, sizes_of

SIZE = Convolution(16, 9, 8, 16, padding=(1, 0, 1, 0))
TASKS = {
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


@pytest.mark.parametrize("said", TASKS)
def test_a_task_says_its_kind_and_sizes(said):
    task = TASKS[said]
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
