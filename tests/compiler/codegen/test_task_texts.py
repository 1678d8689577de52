"""Tasks are read back from their texts."""

import pytest

from vdla.compiler.codegen import tasks
from vdla.compiler.codegen.task_texts import TASKS, task_of
from vdla.compiler.te.operators.narrowing import AddingScale, Scale, Shift
from vdla.compiler.te.operators.sizes import Convolution, Pooling, Transposed

CONVOLUTION, POOLING = Convolution(16, 8, 8, 16, padding=(1, 1, 1, 1)), Pooling(4, 8, 8, (2, 2))
EXAMPLES = [
    tasks.ConvolutionTask(CONVOLUTION),
    tasks.ConvolutionTask(CONVOLUTION, Shift(3, rectifies=True), -5, alike=True, reads=2),
    tasks.ConvolutionTask(CONVOLUTION, AddingScale(by_channel=False), slides=True),
    tasks.TransposedTask(Transposed(8, 4, 4, 8, (2, 2)), Scale(by_channel=False), writes=2),
    tasks.PoolingTask(POOLING),
    *(tasks.ElementsTask(kind, 64, (3, -4)) for kind in tasks.Elements),
    tasks.SumTask(9),
    tasks.MaximumTask(POOLING),
    tasks.FactorsTask(1, 2, 3, 4),
    tasks.ScalingTask(1, 2, 3, (4, -5)),
    tasks.DiagonalTask(1),
    tasks.MeanTask(1, 2),
    tasks.RepeatTask(1, 2, 3, (4, 5)),
    tasks.RowsTask(1, 2, 3),
    tasks.TurnTask(1, 2, 3),
]


@pytest.mark.parametrize("task", EXAMPLES, ids=lambda task: type(task).__name__)
def test_a_task_is_read_back(task):
    assert task_of(str(task)) == task


def test_there_is_an_example_of_each_task():
    assert {type(task) for task in EXAMPLES} == set(TASKS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SumTask",
        "SumTask(9)",
        "SumTask(elements=9, more=1)",
        "SumTask( elements=9)",
        "Convolution(channels=1)",
        "__import__('os').getpid()",
        "SumTask(elements=__import__('os').getpid())",
        "ElementsTask(kind=<Elements.NONE: 'none'>, elements=1, constants=())",
        str(EXAMPLES[0]).replace("height=8", "height=-8"),
        str(EXAMPLES[0]).replace("height=8", f"height={10**30}"),
        str(EXAMPLES[0]).replace("outputs=16", "outputs=0"),
        str(EXAMPLES[0]).replace("stride=(1, 1)", "stride=(0, 1)"),
        "(" * 5000,
    ],
)
def test_what_is_no_text_of_a_task_is_none(text):
    assert task_of(text) is None
