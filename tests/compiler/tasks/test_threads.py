"""Virtual threads have separate tiles, so that one thread can load while another computes."""

import pytest

from vdla.compiler.ir.nodes import Alloc
from vdla.compiler.ir.rewrite import walk_statements
from vdla.compiler.ir.text import print_func
from vdla.compiler.tasks.base import Choice, Task
from vdla.compiler.tasks.chain import ChainTask
from vdla.compiler.tasks.convolution import ConvolutionTask, GatheredTask, TransposedTask
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.normalised_convolution import NormalisedTask
from vdla.compiler.tasks.normalising import NormalisingTask, ProductSoftmaxTask
from vdla.compiler.tasks.pooled_convolution import PooledTask
from vdla.compiler.tasks.pooling import MaximumTask, MeanTask, PoolingTask
from vdla.compiler.tasks.rearranging import RepeatTask, RowsTask, TurnTask
from vdla.compiler.tasks.scaled_convolution import ScaledTask
from vdla.compiler.tasks.scaling import DiagonalTask, FactorsTask, ScalingTask, SumTask
from vdla.compiler.tasks.task_text import TASKS
from vdla.compiler.te.operators.narrowing import Scale, Shift
from vdla.compiler.te.operators.sizes import Convolution, Pooling, Transposed
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.vocabulary import Extension

CONVOLUTION, POOLING = Convolution(16, 8, 8, 16), Pooling(32, 8, 8, (2, 2), (2, 2))
OF_THREADS: dict[Task, str] = {
    ConvolutionTask(CONVOLUTION): "Y XL",
    ConvolutionTask(CONVOLUTION, Shift(3)): "Y XL rounded shifted raised lowered",
    GatheredTask(CONVOLUTION, Shift(3), step=3, pitch=64): "Y XL rounded shifted raised lowered",
    ConvolutionTask(CONVOLUTION, Shift(3)).narrowed(1): "Y XL rounded shifted raised lowered",
    TransposedTask(Transposed(8, 4, 4, 8, (2, 2)), Scale(by_channel=False)): "Y XP",
    PoolingTask(POOLING): "XW Y",
    ElementsTask(Elements.ADD, 64, (3, -4)): "AL AS BL BS S",
    ElementsTask(Elements.COPY, 64): "AL",
    ElementsTask(Elements.MULTIPLY, 64, (3, -4)): "AL AS BL BS S",
    ElementsTask(Elements.REQUANTISE, 64): "AL",
    SumTask(64): "SA SB S",
    MaximumTask(POOLING): "XL L00 L01 L10 L11",
    FactorsTask(2, 2, 3, 4): "DL AL S",
    ScalingTask(2, 2, 3, (4, -5)): "FL S",
    DiagonalTask(2): "FL S",
    MeanTask(2, 2): "XL",
    RepeatTask(2, 2, 3, (4, 5)): "XL S",
    RowsTask(2, 600): "MA MS RA RS",
    TurnTask(2, 2): "WL S",
    NormalisingTask(2, 3, 9, True): "S",
    ProductSoftmaxTask(9, 2, 3, False): "SX S",
}  # the buffers of each thread; the others hold constants for all tiles, or what is left behind them


def buffers_of_threads(task: Task) -> str:
    """Return the buffers that stand in loops over virtual threads, in the order of the program."""
    depth, buffers = -1, []
    for line in print_func(task.program(Choice(2), DEFAULT)).splitlines():
        indent = len(line) - len(line.lstrip())
        if indent <= depth:
            depth = -1
        if "in vthread(2)" in line:
            depth = indent
        name, is_alloc, _ = line.strip().partition(" = alloc(")
        if is_alloc and depth >= 0:
            buffers.append(name)
    return " ".join(buffers)


@pytest.mark.parametrize("task", OF_THREADS, ids=lambda task: type(task).__name__)
def test_each_thread_has_its_own_tile(task):
    assert buffers_of_threads(task) == OF_THREADS[task]


def test_there_is_an_example_of_each_task():
    """But of tasks whose rows, units or steps take turns with numbered buffers, without a loop over threads."""
    assert {type(task) for task in OF_THREADS} == set(TASKS) - {
        ChainTask,
        NormalisedTask,
        PooledTask,
        ScaledTask,
    }


@pytest.mark.parametrize("turns", [1, 2])
def test_each_row_of_pooled_sums_in_a_turn_has_its_own_tile(turns):
    task = PooledTask(ConvolutionTask(CONVOLUTION), Pooling(16, 6, 6, (2, 2), (2, 2)))
    text = print_func(task.program(Choice(turns), DEFAULT))
    buffers = {line.split()[0] for line in text.splitlines() if " = alloc(" in line}
    assert buffers == {"PL", "WL"} | {f"{kind}{turn}" for kind in "XS" for turn in range(turns)}


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_scaled_convolution_has_a_tile_more_than_threads(threads):
    config = DEFAULT.with_changes(extensions=tuple(Extension))
    program = ScaledTask(4, 2, 3136).program(Choice(threads), config)
    turns = {
        part.buffer.name: part.buffer.shape[0]
        for part in walk_statements(program.body)
        if isinstance(part, Alloc)
    }
    assert {turns[name] for name in ("XL", "S", "Y")} == {threads + 1}


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_inputs_of_a_normalised_convolution_take_turns(turns):
    config = DEFAULT.with_changes(extensions=tuple(Extension))
    program = NormalisedTask(ConvolutionTask(CONVOLUTION), 1).program(Choice(turns), config)
    shapes = {
        part.buffer.name: part.buffer.shape
        for part in walk_statements(program.body)
        if isinstance(part, Alloc)
    }
    assert shapes["XL"][0] == turns
