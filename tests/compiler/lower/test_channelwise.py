"""Average pooling and factors of channels: with which task, layouts and weights the accelerator runs each.

Products with a factor for each channel, and means of whole planes, take one launch and are right to the last bit.
"""

import numpy as np
import pytest

from tests.compiler.lower.test_products import EVERY, PAIRS, WIDE_IN, planned
from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net
from tests.compiler.network.test_groups import ALL, CONFIGS, EpilogueNet, operators
from tests.compiler.network.test_networks import check
from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.lower.channelwise import factor_place
from vdla.compiler.network import groups
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.pooling import MeanTask
from vdla.compiler.te.operators.convolution import blocked_weights
from vdla.compiler.te.operators.narrowing import blocked_parameters
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.layout import Layout
from vdla.runtime.requantise import parameter_words

IMAGE, PLANE = (1, 6, 3, 5), (3, 5)
WHOLE = WIDE_IN.with_changes(extensions=DEFAULT.extensions)
"""It loads weights of one width."""


def shared(size: Convolution, **more) -> ConvolutionTask:
    return ConvolutionTask(size, alike=True, **more)


def test_the_mean_of_planes_is_a_program_of_its_own():
    net = Net()
    offloaded = planned(net, net.average(net.input(*IMAGE), PLANE))
    assert [piece.task for piece in offloaded.pieces] == [MeanTask(2, 15)]
    assert (offloaded.macs, offloaded.output[1]) == (6 * 15, Layout((1, 6, 1, 1), 4, 1))
    words = net.constants[offloaded.node.inputs[1]]
    np.testing.assert_array_equal(offloaded.constants["P"], blocked_parameters(words.repeat(4, 1), EVERY))
    np.testing.assert_array_equal(offloaded.constants["W"], np.eye(4, dtype=np.int8)[None])


@pytest.mark.parametrize(
    ("shape", "window", "config", "task"),
    [
        ((2, 6, 3, 5), {}, EVERY, shared(Convolution(6, 3, 5, 6, PLANE, groups=6, batch=2))),
        ((1, 6, 4, 5), {}, EVERY, shared(Convolution(6, 4, 5, 6, PLANE, groups=6))),
        ((1, 6, 3, 6), {}, EVERY, shared(Convolution(6, 3, 6, 6, PLANE, groups=6))),
        (
            IMAGE,
            {"pads": (0, 1, 0, 0), "border": -128},
            EVERY,
            shared(Convolution(6, 3, 5, 6, PLANE, padding=(0, 1, 0, 0), groups=6), border=-128),
        ),
        (
            (1, 6, 8, 9),
            {"strides": (2, 3)},
            EVERY,
            shared(Convolution(6, 8, 9, 6, PLANE, (2, 3), groups=6)),
        ),
        (IMAGE, {}, PAIRS, shared(Convolution(6, 3, 5, 6, PLANE, groups=6))),
        (IMAGE, {}, WHOLE, ConvolutionTask(Convolution(6, 3, 5, 6, PLANE, groups=6), writes=2)),
    ],
)
def test_other_windows_are_depthwise_convolutions_with_one_block_of_weights(shape, window, config, task):
    net = Net()
    offloaded = planned(net, net.average(net.input(*shape), PLANE, **window), config)
    assert [piece.task for piece in offloaded.pieces] == [task]
    assert offloaded.macs == task.size.macs
    if task.alike:
        np.testing.assert_array_equal(offloaded.constants["W"], np.eye(4, dtype=np.int8)[(None,) * 5])
    else:
        weights = np.ones((6, 1, *PLANE), np.int8)
        np.testing.assert_array_equal(offloaded.constants["W"], blocked_weights(weights, task.size, config))


@pytest.mark.parametrize("factors", [[-3], [127], [3, 0, -5], [1, 1, 1]])
@pytest.mark.parametrize(
    ("shape", "axis", "size", "stack"),
    [
        ((5, 3), -1, Convolution(3, 5, 1, 3, (1, 1), groups=3), 0),
        ((5, 3), 1, Convolution(3, 5, 1, 3, (1, 1), groups=3), 0),
        ((2, 4, 3), 2, Convolution(3, 8, 1, 3, (1, 1), groups=3), 0),
        ((1, 2, 4, 3), -1, Convolution(3, 8, 1, 3, (1, 1), groups=3), 1),
        ((2, 3, 4, 5), 1, Convolution(3, 4, 5, 3, (1, 1), groups=3, batch=2), 0),
    ],
)
def test_factors_of_channels_are_a_depthwise_convolution(factors, shape, axis, size, stack):
    net = Net()
    y = net.scale(net.input(*shape), axis, np.array(factors, np.int8))
    offloaded = planned(net, y, TINY)
    is_shared = len(factors) == 1
    assert [piece.task for piece in offloaded.pieces] == [ConvolutionTask(size, alike=is_shared)]
    assert offloaded.macs == np.prod(shape)
    assert offloaded.inputs["X"][1] == Layout(shape, 4, 1, stack=stack) == offloaded.output[1]
    weights = np.array(factors, np.int8)[:, None, None, None]
    expected = (
        (np.eye(4, dtype=np.int8) * np.int8(factors[0]))[(None,) * 5]
        if is_shared
        else blocked_weights(weights, size, TINY)
    )
    np.testing.assert_array_equal(offloaded.constants["W"], expected)


SMALL = TINY.with_changes(inp_buffer_bytes=64, acc_buffer_bytes=512, wgt_buffer_bytes=1024)
"""Few elements fit at once."""


def product(net: Net, a: str, b: str, zeros: tuple[int, int]) -> str:
    return net.op("Int8Mul", (a, b, net.words(1, 5500.0)), zeros=zeros)


def mean(net: Net, x: str) -> str:
    """Return the mean of each channel, as GlobalAveragePool is lowered."""
    words = parameter_words(*(np.array([value]) for value in (37, 30000, 18, 2, -100, 110)))
    window = {"kernel_shape": net.shape(x)[2:], "pads": (0, 0, 0, 0), "strides": (1, 1), "border": 0}
    return net.op("Int8AveragePool", (x, net.constant(words)), **window)


def excited(
    channels: int,
    size: tuple[int, int],
    zeros: tuple[int, int],
    *,
    swapped: bool = False,
    table: bool = False,
) -> Graph:
    """Return a squeeze-and-excitation block between two convolutions."""
    net = EpilogueNet()
    x = net.conv(net.input(1, 3, *size), channels, (3, 3), pads=(1, 1, 1, 1))
    factors = net.conv(net.conv(mean(net, x), 5), channels)
    scaled = product(net, *((factors, x) if swapped else (x, factors)), zeros)
    return net.graph(net.conv(net.lookup(scaled) if table else scaled, 4))


@pytest.mark.parametrize("config", [TINY, SMALL, ALL, DEFAULT], ids=["tiny", "small", "all", "default"])
@pytest.mark.parametrize(
    ("channels", "size", "zeros"),
    [
        (32, (6, 7), (0, 0)),
        (9, (5, 5), (0, -128)),
        (20, (4, 9), (-128, 127)),
        (64, (13, 11), (3, -7)),
    ],
)
def test_squeeze_and_excitation_is_one_launch_and_exact(config, channels, size, zeros):
    graph = excited(channels, size, zeros)
    plan = plan_of(graph, config)
    assert not plan.host_steps
    assert len(plan.launches) == 1
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes, 0))
    check(graph, plan, CycleDevice(config, plan.dram_bytes))


def scaled(net: EpilogueNet, channels: int = 32) -> tuple[str, str]:
    """Return the input of a block of squeeze and excitation, and the scaled image."""
    x = net.conv(net.input(1, 3, 8, 8), channels, (3, 3), pads=(1, 1, 1, 1))
    return x, product(net, x, net.conv(net.conv(mean(net, x), 5), channels), (0, 0))


def narrowed(net: EpilogueNet) -> Graph:
    return net.graph(net.conv(scaled(net)[1], 6))


def narrowed_behind_zero_points(net: EpilogueNet) -> Graph:
    x = net.conv(net.input(1, 3, 8, 8), 32, (3, 3), pads=(1, 1, 1, 1))
    return net.graph(net.conv(product(net, net.conv(mean(net, x), 32), x, (-9, 128 - 1)), 6))


def narrowed_and_added(net: EpilogueNet) -> Graph:
    other = net.conv(net.input(1, 5, 8, 8), 9)
    return net.graph(net.sum(net.conv(scaled(net)[1], 9), other))


def narrowed_and_looked_up(net: EpilogueNet) -> Graph:
    return net.graph(net.lookup(net.conv(scaled(net)[1], 9)))


@pytest.mark.parametrize(
    "make", [narrowed, narrowed_behind_zero_points, narrowed_and_added, narrowed_and_looked_up]
)
def test_a_convolution_scales_its_image_on_the_way_into_its_products(make):
    graph = make(EpilogueNet())
    plan = plan_of(graph, ALL)
    assert operators(plan) == {"Int8AveragePool", "Int8Conv"}
    for seed in (None, 0, 1):
        check(graph, plan, FunctionalDevice(ALL, plan.dram_bytes, seed))
    check(graph, plan, CycleDevice(ALL, plan.dram_bytes))


APART = {
    "read by two": lambda net, x: (net.conv(x, 6), net.conv(x, 4)),
    "an output": lambda net, x: (x, net.conv(x, 6)),
    "behind a table": lambda net, x: (net.conv(net.lookup(x), 6),),
    "windows": lambda net, x: (net.conv(x, 6, (3, 3), pads=(1, 1, 1, 1)),),
    "strides": lambda net, x: (net.conv(x, 6, strides=(2, 2)),),
    "groups": lambda net, x: (net.conv(x, 8, group=2),),
    "a border": lambda net, x: (net.conv(x, 8, pads=(1, 0, 0, 0)),),
}


@pytest.mark.parametrize("name", APART)
def test_a_scaled_image_that_other_operators_need_is_stored(name):
    net = EpilogueNet()
    graph = net.graph(*APART[name](net, scaled(net)[1]))
    plan = plan_of(graph, ALL)
    assert "Int8Mul" in operators(plan)
    check(graph, plan, FunctionalDevice(ALL, plan.dram_bytes, 0))


def test_scaling_on_the_way_must_take_fewer_cycles_and_needs_the_path(monkeypatch):
    graph = narrowed(EpilogueNet())
    without = tuple(each for each in Extension if each is not Extension.FEEDBACK)
    assert "Int8Mul" in operators(plan_of(graph, ALL.with_changes(extensions=without)))
    monkeypatch.setattr(groups, "least_estimate", lambda task, target: -1e9)
    assert "Int8Mul" in operators(plan_of(graph, ALL))


def test_either_operand_may_be_the_factors_and_a_table_may_follow():
    graph = excited(12, (6, 6), (5, -4), swapped=True, table=True)
    plan = plan_of(graph, ALL)
    assert operators(plan) == {"Int8AveragePool", "Int8Conv", "Int8Mul"}
    check(graph, plan, CycleDevice(ALL, plan.dram_bytes))


@pytest.mark.parametrize("name", ["wide in", "wide out"])
def test_the_alu_multiplies_by_factors_that_the_array_cannot_take(name):
    graph, config = excited(12, (6, 6), (5, -4)), CONFIGS[name]
    plan = plan_of(graph, config)
    assert not [step for step in plan.host_steps if step.op == "Int8Mul"]
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes))
    check(graph, plan, CycleDevice(config, plan.dram_bytes))


def test_factors_of_two_rows_stay_on_the_host():
    graph, config = excited(12, (6, 6), (5, -4)), CONFIGS["two rows"]
    plan = plan_of(graph, config)
    reasons = [step.reason for step in plan.host_steps if step.op == "Int8Mul"]
    assert reasons == [
        "Int8Mul with factors of channels and batch = 2; the accelerator takes operands of one shape, or a "
        "factor for each channel of one image and a batch of 1"
    ]
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes))


@pytest.mark.parametrize("size", [(1, 1), (7, 7), (31, 31), (96, 20)])
def test_the_mean_of_a_plane_of_any_size_is_exact(size):
    net = Net()
    graph = net.graph(mean(net, net.conv(net.input(1, 3, *size), 24)))
    plan = plan_of(graph, TINY)
    assert not plan.host_steps
    check(graph, plan, CycleDevice(TINY, plan.dram_bytes))


@pytest.mark.parametrize(
    ("a", "b", "place"),
    [
        ((1, 4, 3, 3), (1, 4, 1, 1), 1),
        ((1, 4, 1, 1), (1, 4, 3, 3), 0),
        ((2, 4, 3, 3), (2, 4, 1, 1), None),
        ((1, 4, 3, 3), (1, 1, 1, 1), None),
        ((1, 4, 3, 3), (1, 4, 3, 3), None),
        ((4, 3), (4, 1), None),
    ],
)
def test_which_operand_has_the_factors(a, b, place):
    types = {"a": TensorType(a, "int8"), "b": TensorType(b, "int8")}
    graph = Graph("f", types, (), (), {}, types)
    assert factor_place(graph, Node("Int8Mul", ("a", "b", "p"), ("y",), {})) == place
