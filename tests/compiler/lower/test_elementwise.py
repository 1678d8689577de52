"""Tasks of pooling, elementwise operators and concatenated channels."""

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.network.graphs import Net
from tests.compiler.network.shuffles import table
from vdla.compiler.codegen.epilogue import Epilogue
from vdla.compiler.lower.moves import IN_RUNS
from vdla.compiler.network.offload import offload
from vdla.compiler.network.placed import Offloaded, Run
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Task
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.pooling import PoolingTask
from vdla.compiler.tasks.scaling import DiagonalTask, FactorsTask, ScalingTask, SumTask
from vdla.compiler.te.operators.narrowing import blocked_parameters
from vdla.compiler.te.operators.sizes import Pooling
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.layout import Layout

EVERY = TINY.with_changes(extensions=tuple(Extension))
WIDE_IN, WIDE_OUT = EVERY.with_changes(block_in=8), EVERY.with_changes(block_out=8)
PAIRS = EVERY.with_changes(batch=2)
SHAPE = (1, 10, 3, 5)  # of 3 blocks of 4 channels, or 2 of 8


def offload_last(net: Net, y: str, config=EVERY) -> Offloaded | Unfit:
    graph = net.graph(y)
    return offload(graph, graph.nodes[-1], Target(config))


def tasks(net: Net, y: str, config=EVERY) -> list[Task]:
    """Return the tasks of the last operator."""
    offloaded = offload_last(net, y, config)
    assert isinstance(offloaded, Offloaded), offloaded
    return [piece.task for piece in offloaded.pieces]


COUNTS = [(EVERY, 3 * 15), (WIDE_IN, 4 * 15), (WIDE_OUT, 2 * 15), (PAIRS, 3 * 15)]


@pytest.mark.parametrize(("config", "count"), COUNTS)
def test_operators_on_elements_take_all_blocks(config, count):
    """Of several images in one element, or blocks of several elements, too."""
    net = Net()
    x, other = net.input(*SHAPE), net.input(*SHAPE)
    factors, zeros = (3, -70), (9, -128)
    summed = net.op("Int8Add", (x, other, net.words(1, 999.0)), factors=factors)
    sum_tasks = tasks(net, summed, config)
    assert sum_tasks in ([SumTask(count)], [ElementsTask(Elements.ADD, count, factors)])
    assert (sum_tasks == [SumTask(count)]) == (config.block_in == config.block_out)
    product = net.op("Int8Mul", (x, other, net.words(1, 999.0)), zeros=zeros)
    assert tasks(net, product, config) == [ElementsTask(Elements.MULTIPLY, count, zeros)]
    assert tasks(net, net.requantise(x), config) == [ElementsTask(Elements.REQUANTISE, count)]
    looked_up = offload_last(net, table(net, x), config)
    assert isinstance(looked_up, Offloaded)
    assert [piece.task for piece in looked_up.pieces] == [ElementsTask(Elements.REQUANTISE, count)]
    assert looked_up.epilogue == Epilogue(table=1)
    assert looked_up.inputs.keys() == {"A"}


def test_a_table_follows_a_requantisation_that_changes_nothing():
    net = Net()
    offloaded = offload_last(net, table(net, net.input(*SHAPE)))
    assert isinstance(offloaded, Offloaded)
    words = np.array([[0], [1], [0], [(-128 & 255) | 127 << 8]])
    parameters = offloaded.constants["P"].astype(np.int64)
    np.testing.assert_array_equal(parameters[0, :3, 0], np.repeat(words[:3], 4, 1))
    np.testing.assert_array_equal(parameters[0, 3, 0] & 0xFFFF, np.repeat(words[3] & 0xFFFF, 4))
    entries = net.constants[offloaded.node.inputs[1]]
    np.testing.assert_array_equal(
        offloaded.constants["T"].reshape(-1), np.concatenate((entries[128:], entries[:128]))
    )


def test_sums_name_their_operands_in_order():
    net = Net()
    a, b = net.input(*SHAPE), net.input(*SHAPE)
    offloaded = offload_last(net, net.add(b, a), WIDE_OUT)
    assert isinstance(offloaded, Offloaded)
    layout = Layout(SHAPE, 8, 1)
    assert offloaded.inputs == {"A": (b, layout), "B": (a, layout)}
    words = net.constants[offloaded.node.inputs[2]].repeat(8, 1)
    np.testing.assert_array_equal(offloaded.constants["P"], blocked_parameters(words, WIDE_OUT))


@pytest.mark.parametrize("swapped", [False, True])
def test_factors_of_channels_become_diagonals_or_go_to_the_alu(swapped):
    """The zero points go with their operands; their product is added to the bias."""
    net = Net()
    image, factors = net.input(*SHAPE), net.input(1, 10, 1, 1)
    operands, zeros = ((factors, image), (-5, 3)) if swapped else ((image, factors), (3, -5))
    words = net.words(1, 999.0)
    y = net.op("Int8Mul", (*operands, words), zeros=zeros)
    offloaded = offload_last(net, y)
    assert isinstance(offloaded, Offloaded)
    assert [piece.task for piece in offloaded.pieces] == [DiagonalTask(3), FactorsTask(3, 15, 1, 1)]
    assert offloaded.inputs == {
        "A": (image, Layout(SHAPE, 4, 1)),
        "F": (factors, Layout((1, 10, 1, 1), 4, 1)),
    }
    assert offloaded.scratch == {"D": 3 * 16}
    biased = net.constants[words].copy()
    biased[0] -= 15
    np.testing.assert_array_equal(offloaded.constants["P"], blocked_parameters(biased.repeat(4, 1), EVERY))
    np.testing.assert_array_equal(
        offloaded.constants["K"], 5 * np.eye(4)[None]
    )  # for the factors' zero point
    np.testing.assert_array_equal(
        offloaded.constants["C"], np.full((1, 1, 4), -3)
    )  # for the image's zero point
    by_alu = offload_last(net, y, WIDE_IN)
    assert isinstance(by_alu, Offloaded)
    assert [piece.task for piece in by_alu.pieces] == [ScalingTask(2, 15, 2, (3, -5))]
    assert by_alu.inputs == {"A": (image, Layout(SHAPE, 8, 1)), "F": (factors, Layout((1, 10, 1, 1), 8, 1))}
    plain = net.op("Int8Mul", (*operands, words), zeros=(0, 0))
    assert tasks(net, plain)[1] == FactorsTask(3, 15, 0, 0)


@pytest.mark.parametrize(("config", "parts"), [(WIDE_IN, 2), (WIDE_OUT, 1)])
def test_a_pooling_of_planes(config, parts):
    net = Net()
    y = net.pool(net.input(3, 10, 7, 9), (2, 3), strides=(1, 2), pads=(1, 0, 0, 2))
    size = Pooling(10, 7, 9, (2, 3), (1, 2), (1, 0, 0, 2), 3)
    assert tasks(net, y, config) == [PoolingTask(size, parts, parts)]


@pytest.mark.parametrize(
    ("shapes", "axis", "config", "counts"),
    [
        ([(1, 8, 3, 5), (1, 4, 3, 5), (1, 6, 3, 5)], 1, EVERY, [30, 15, 30]),
        ([(1, 8, 3, 5), (1, 6, 3, 5)], -3, WIDE_IN, [30, 30]),
        ([(5, 8), (5, 3)], 1, EVERY, [10, 5]),
        ([(2, 3, 4), (2, 3, 8)], -1, EVERY, [6, 12]),
        ([(2, 8, 3, 5), (2, 4, 3, 5)], 1, PAIRS, [30, 15]),
        ([(5, 8), (5, 3)], 1, PAIRS, [6, 3]),
    ],
)
def test_joined_channels_are_copied_one_behind_another(shapes, axis, config, counts):
    net = Net()
    names = [net.input(*shape) for shape in shapes]
    offloaded = offload_last(net, net.join(*names, axis=axis), config)
    assert isinstance(offloaded, Offloaded)
    assert [piece.task for piece in offloaded.pieces] == [ElementsTask(Elements.COPY, sum(counts))]
    assert offloaded.copied == tuple(Run(f"A{place}", 0, count) for place, count in enumerate(counts))
    assert [offloaded.inputs[f"A{place}"][0] for place in range(len(names))] == names


@pytest.mark.parametrize(
    ("shapes", "axis", "config", "runs"),
    [
        ([(2, 4), (3, 4)], 0, EVERY, ["A0:0+2", "A1:0+3"]),
        ([(2, 8), (1, 8)], -2, EVERY, ["A0:0+2", "A1:0+1", "A0:2+2", "A1:1+1"]),
        ([(2, 1, 4), (2, 2, 4)], 1, EVERY, ["A0:0+1", "A1:0+2", "A0:1+1", "A1:2+2"]),
        ([(1, 16), (2, 16)], 0, WIDE_IN, ["A0:0+2", "A1:0+4", "A0:2+2", "A1:4+4"]),
        ([(1, 16), (2, 16)], 0, WIDE_OUT, ["A0:0+1", "A1:0+2", "A0:1+1", "A1:2+2"]),
        ([(2, 8), (3, 8)], 0, PAIRS, ["A0:0+1", "A1:0+2", "A0:1+1", "A1:2+2"]),
        ([(2, 4, 1, 3), (1, 4, 1, 3)], 0, EVERY, ["A0:0+6", "A1:0+3"]),
        ([(2, 4, 1, 3), (2, 8, 1, 3)], 1, EVERY, ["A0:0+3", "A1:0+6", "A0:3+3", "A1:6+6"]),
        ([(1, 6, 3, 5), (1, 6, 2, 5)], 2, EVERY, ["A0:0+15", "A1:0+10", "A0:15+15", "A1:10+10"]),
        ([(3, 4, 3, 5), (3, 8, 3, 5)], 1, PAIRS, ["A0:0+15", "A1:0+30", "A0:15+15", "A1:30+30"]),
    ],
    ids=str,
)
def test_joined_rows_and_images_alternate_where_blocks_end(shapes, axis, config, runs):
    net = Net()
    offloaded = offload_last(net, net.join(*(net.input(*shape) for shape in shapes), axis=axis), config)
    assert isinstance(offloaded, Offloaded)
    assert [f"{run.operand}:{run.first}+{run.count}" for run in offloaded.copied] == runs


ROWS = f"the accelerator takes {IN_RUNS}"
LAST = "the accelerator takes whole blocks of channels in all operands but the last, along channels"


@pytest.mark.parametrize(
    ("shapes", "axis", "config", "reason"),
    [
        ([(1, 4), (3, 4)], 0, PAIRS, f"Concat with 1, 3 rows along axis 0 and batch = 2; {ROWS}"),
        ([(3, 4, 1, 1)] * 2, 0, PAIRS, f"Concat with 3, 3 rows along axis 0 and batch = 2; {ROWS}"),
        ([(3000, 1, 4)] * 2, 1, EVERY, f"Concat with 6000 runs of elements; {ROWS}"),
        (
            [(1, 4, 3, 5), (1, 6, 3, 5), (1, 4, 3, 5)],
            1,
            EVERY,
            f"Concat with operand x1 of 6 channels in blocks of 4; {LAST}",
        ),
        (
            [(1, 4, 3, 5), (1, 8, 3, 5)],
            1,
            WIDE_IN,
            f"Concat with operand x0 of 4 channels in blocks of 8; {LAST}",
        ),
    ],
)
def test_why_joined_channels_stay_on_the_host(shapes, axis, config, reason):
    net = Net()
    joined = net.join(*(net.input(*shape) for shape in shapes), axis=axis)
    assert offload_last(net, joined, config).reason == reason


def test_a_table_of_other_numbers_stays_on_the_host():
    net = Net()
    y = table(net, net.input(2, 3))
    graph = net.graph(y)
    (name,) = (name for name in graph.constants)
    graph = replace(graph, constants={name: graph.constants[name].astype(np.float32)})
    assert offload(graph, graph.nodes[-1], Target(EVERY)).reason == (
        "Int8Lookup with a table of float32; the accelerator takes a table of int8"
    )
