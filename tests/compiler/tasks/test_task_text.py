"""Tasks are read back from their texts."""

import pytest

from vdla.compiler.tasks.chain import ChainTask
from vdla.compiler.tasks.chain_plan import Chain
from vdla.compiler.tasks.convolution import ConvolutionTask, GatheredTask, TransposedTask
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.normalised_convolution import NormalisedTask
from vdla.compiler.tasks.normalising import NormalisingTask, ProductSoftmaxTask
from vdla.compiler.tasks.pooled_convolution import PooledTask
from vdla.compiler.tasks.pooling import MaximumTask, MeanTask, PoolingTask
from vdla.compiler.tasks.rearranging import RepeatTask, RowsTask, TurnTask
from vdla.compiler.tasks.scaled_convolution import ScaledTask
from vdla.compiler.tasks.scaling import DiagonalTask, FactorsTask, ScalingTask, SumTask
from vdla.compiler.tasks.task_text import TASKS, task_of
from vdla.compiler.te.operators.narrowing import AddingScale, Scale, Shift
from vdla.compiler.te.operators.sizes import Convolution, Pooling, Transposed

CONVOLUTION, POOLING = Convolution(16, 8, 8, 16, padding=(1, 1, 1, 1)), Pooling(4, 8, 8, (2, 2))
EXAMPLES = [
    ConvolutionTask(CONVOLUTION),
    ConvolutionTask(CONVOLUTION, Shift(3, rectifies=True), -5, alike=True, reads=2),
    ConvolutionTask(CONVOLUTION, AddingScale(by_channel=False), slides=True),
    GatheredTask(CONVOLUTION, writes=2, step=3, pitch=64),
    ConvolutionTask(CONVOLUTION, writes=2).narrowed(1),
    TransposedTask(Transposed(8, 4, 4, 8, (2, 2)), Scale(by_channel=False), writes=2),
    PoolingTask(POOLING),
    PooledTask(ConvolutionTask(CONVOLUTION), Pooling(16, 8, 8, (2, 2))),
    *(ElementsTask(kind, 64, (3, -4)) for kind in Elements),
    ScaledTask(1, 2, 3, 4, 5, adds_residual=True),
    ChainTask(
        Chain(ConvolutionTask(CONVOLUTION, Scale(), slides=True), projection=ConvolutionTask(CONVOLUTION))
    ),
    SumTask(9),
    MaximumTask(POOLING),
    FactorsTask(1, 2, 3, 4),
    ScalingTask(1, 2, 3, (4, -5)),
    DiagonalTask(1),
    MeanTask(1, 2),
    RepeatTask(1, 2, 3, (4, 5)),
    RowsTask(1, 2, 3),
    TurnTask(1, 2, 3),
    NormalisingTask(2, 3, 9, True, True),
    ProductSoftmaxTask(9, 2, 3, False),
    NormalisedTask(ConvolutionTask(CONVOLUTION), 1),
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
