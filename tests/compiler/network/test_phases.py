"""Phases of transposed convolutions as channels: what becomes so, what does not, and what it saves."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net, random_inputs
from tests.compiler.network.test_networks import CONFIGS, check
from vdla.compiler.codegen.choose import cycles_of
from vdla.compiler.graph.integers import LARGEST_BIAS
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.network import stages, target_passes
from vdla.compiler.network.phases import phases_as_channels
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice

TARGET = Target(DEFAULT)
TWO: dict[str, tuple[int, int]] = {"strides": (2, 2)}


def ops(graph: Graph) -> list[str]:
    """Return each operator with the shape of its result, and the groups of a convolution."""
    return [
        f"{node.op}{node.attributes.get('group', '')} "
        + "x".join(map(str, graph.types[node.outputs[0]].shape))
        for node in graph.nodes
    ]


def table(net: Net, x: str) -> str:
    return net.op("Int8Lookup", (x, net.constant(net.integers(256))))


def alone(net: Net) -> Graph:
    return net.graph(net.spread(net.input(2, 5, 3, 4), 6, (2, 2), **TWO))


def threes(net: Net) -> Graph:
    return net.graph(net.spread(net.input(1, 5, 2, 3), 2, (3, 3), strides=(3, 3)))


def a_table_behind(net: Net) -> Graph:
    return net.graph(table(net, net.spread(net.input(1, 24, 3, 4), 6, (2, 2), **TWO)))


def a_table_of_numbers_behind(net: Net) -> Graph:
    x = net.spread(net.input(1, 24, 3, 4), 6, (2, 2), **TWO)
    return net.graph(net.op("Int8Lookup", (x, net.constant(net.integers(256).astype(np.float32)))))


def a_detector(net: Net) -> Graph:
    x = net.spread(net.conv(net.input(1, 3, 4, 5), 24), 24, (2, 2), **TWO)
    y = net.spread(net.conv(table(net, x), 24, (1, 1), group=24), 1, (2, 2), **TWO)
    return net.graph(table(net, y))


def whole_blocks(net: Net) -> Graph:
    x = net.spread(net.input(1, 16, 2, 3), 32, (2, 2), **TWO)
    return net.graph(net.conv(x, 16, (1, 1)))


def an_output_between(net: Net) -> Graph:
    x = net.spread(net.input(1, 16, 2, 3), 16, (2, 2), **TWO)
    return net.graph(x, table(net, x))


def the_second_of_two(net: Net) -> Graph:
    x = net.spread(net.input(1, 16, 2, 3), 16, (2, 2), **TWO)
    return net.graph(net.spread(net.conv(x, 16, (3, 3), pads=(1, 1, 1, 1)), 4, (2, 2), **TWO))


CASES: dict[Callable[[Net], Graph], list[str]] = {
    alone: ["Int8Conv1 2x24x3x4", "DepthToSpace 2x6x6x8"],
    threes: ["Int8Conv1 1x18x2x3", "DepthToSpace 1x2x6x9"],
    a_table_behind: ["Int8Conv1 1x24x3x4", "Int8Lookup 1x24x3x4", "DepthToSpace 1x6x6x8"],
    a_table_of_numbers_behind: ["Int8Conv1 1x24x3x4", "DepthToSpace 1x6x6x8", "Int8Lookup 1x6x6x8"],
    a_detector: [
        "Int8Conv1 1x24x4x5",
        "Int8Conv1 1x96x4x5",
        "Int8Lookup 1x96x4x5",
        "Int8Conv96 1x96x4x5",
        "Int8Conv4 1x16x4x5",
        "Int8Lookup 1x16x4x5",
        "DepthToSpace 1x4x8x10",
        "DepthToSpace 1x1x16x20",
    ],
    whole_blocks: ["Int8Conv1 1x128x2x3", "Int8Conv4 1x64x2x3", "DepthToSpace 1x16x4x6"],
    an_output_between: [
        "Int8Conv1 1x64x2x3",
        "DepthToSpace 1x16x4x6",
        "Int8Lookup 1x64x2x3",
        "DepthToSpace 1x16x4x6",
    ],
    the_second_of_two: [
        "Int8ConvTranspose 1x16x4x6",
        "Int8Conv1 1x16x4x6",
        "Int8Conv1 1x16x4x6",
        "DepthToSpace 1x4x8x12",
    ],
}


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_phases_become_channels_and_the_host_moves_them(make):
    graph = make(Net())
    changed = phases_as_channels(graph, TARGET)
    assert ops(changed) == CASES[make]
    assert (changed.inputs, changed.outputs) == (graph.inputs, graph.outputs)
    for seed in range(3):
        feeds = random_inputs(graph, seed)
        results, wanted = interpret(changed, feeds), interpret(graph, feeds)
        for name, values in wanted.items():
            np.testing.assert_array_equal(results[name], values)


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("config", [DEFAULT, *CONFIGS.values()], ids=["default", *CONFIGS])
def test_devices_make_the_same(make, config):
    graph = make(Net())
    plan = plan_of(graph, config)
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes, 0))


@pytest.mark.parametrize("config", [DEFAULT, TINY], ids=["default", "tiny"])
def test_the_cycle_device_makes_the_same(config):
    graph = a_detector(Net())
    plan = plan_of(graph, config)
    check(graph, plan, CycleDevice(config, plan.dram_bytes))


def a_convolution_of_three_by_three(net: Net, x: str) -> str:
    return net.conv(x, 4, (3, 3))


def a_convolution_with_a_stride(net: Net, x: str) -> str:
    return net.conv(x, 4, (1, 1), strides=(2, 2))


def a_border(net: Net, x: str) -> str:
    return net.conv(x, 4, (1, 1), pads=(1, 1, 1, 1))


def more_zeros_than_products(net: Net, x: str) -> str:
    return net.conv(x, 48, (1, 1))


def a_sum(net: Net, x: str) -> str:
    return net.add(x, net.input(*net.shape(x)))


def a_concat(net: Net, x: str) -> str:
    return net.join(x, net.input(*net.shape(x)))


def a_transpose(net: Net, x: str) -> str:
    return net.transpose(x, 0, 2, 3, 1)


READERS = (
    a_convolution_of_three_by_three,
    a_convolution_with_a_stride,
    a_border,
    more_zeros_than_products,
    a_sum,
    a_concat,
    a_transpose,
)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
@pytest.mark.parametrize("is_output", [False, True])
def test_whoever_needs_pixels_keeps_them(reader, is_output):
    net = Net()
    x = table(net, net.spread(net.input(1, 24, 3, 4), 24, (2, 2), **TWO))
    y = reader(net, x)
    graph = net.graph(x, y) if is_output else net.graph(y)
    assert phases_as_channels(graph, TARGET) is graph


FORMS = {
    "a larger kernel": ((4, 4), {"strides": (2, 2), "pads": (1, 1, 1, 1)}),
    "a smaller kernel": ((1, 1), {"strides": (2, 2), "output_padding": (1, 1)}),
    "padding": ((2, 2), {"strides": (2, 2), "pads": (0, 0, 2, 2)}),
    "more pixels": ((2, 2), {"strides": (2, 2), "output_padding": (2, 0)}),
    "no square": ((1, 2), {"strides": (1, 2)}),
    "a stride of 1": ((1, 1), {"strides": (1, 1)}),
}


@pytest.mark.parametrize("form", FORMS)
def test_other_transposed_convolutions_stay(form):
    net, (kernel, how) = Net(), FORMS[form]
    graph = net.graph(net.spread(net.input(1, 5, 4, 4), 6, kernel, **how))
    assert phases_as_channels(graph, TARGET) is graph


def test_what_the_accelerator_does_not_take_stays():
    graph = alone(Net())
    bare = DEFAULT.with_changes(
        extensions=tuple(
            extension for extension in DEFAULT.extensions if extension is not Extension.PAD_MINIMUM
        )
    )
    assert phases_as_channels(graph, Target(bare)) is graph


def cycles(graph: Graph, config: AcceleratorConfig) -> int:
    """Return the cycles of a graph that is compiled as `vdla compile` does."""
    return sum(cycles_of(stream) for stream in stages.plan_of(graph, Target(config)).streams.values())


@pytest.mark.parametrize("name", ["default", *CONFIGS])
@pytest.mark.parametrize(("inputs", "outputs", "side"), [(24, 1, 12), (24, 24, 12), (64, 32, 4), (3, 2, 5)])
def test_it_is_done_where_it_takes_fewer_cycles(inputs, outputs, side, name, monkeypatch):
    """The estimate is a percent off where the phases, one after the other, find their inputs on chip."""
    net, config = Net(), {"default": DEFAULT, **CONFIGS}[name]
    graph = net.graph(net.spread(net.input(1, inputs, side, side), outputs, (2, 2), **TWO))
    is_done = phases_as_channels(graph, Target(config)) is not graph
    assert is_done or name != "default"
    chosen = cycles(graph, config)
    monkeypatch.setattr(target_passes, "phases_as_channels", lambda graph, target: graph)
    plain = cycles(graph, config)
    assert chosen < 1.01 * plain if is_done else chosen == plain


def test_it_is_not_done_where_it_saves_little():
    net = Net()
    graph = net.graph(net.spread(net.input(1, 24, 12, 12), 24, (2, 2), **TWO))
    assert phases_as_channels(graph, Target(TINY)) is graph


@pytest.mark.parametrize("zero", [-128, 0, 9, 127])
@pytest.mark.parametrize("channels", [5, 32])
def test_biases_of_phases_subtract_the_zero_point_of_the_image(channels, zero):
    net = Net()
    weights = net.wide(channels, 3, 2, 2) if zero == 9 else None
    graph = net.graph(net.spread(net.input(1, channels, 3, 4), 3, (2, 2), **TWO, zero=zero, weights=weights))
    spread = phases_as_channels(graph, TARGET)
    assert [node.op for node in spread.nodes] == ["Int8Conv", "DepthToSpace"]
    feeds = random_inputs(graph, 1)
    (name,) = graph.outputs
    np.testing.assert_array_equal(interpret(spread, feeds)[name], interpret(graph, feeds)[name])
    plan = plan_of(graph, DEFAULT)
    check(graph, plan, CycleDevice(DEFAULT, plan.dram_bytes))


def test_only_the_last_of_two_has_its_zero_point_in_biases():
    net = Net()
    x = net.spread(net.conv(net.input(1, 3, 4, 5), 16), 16, (2, 2), **TWO, zero=-128)
    y = net.conv(x, 16, (3, 3), pads=(1, 1, 1, 1))
    graph = net.graph(net.spread(y, 4, (2, 2), **TWO, zero=-128))
    spread = phases_as_channels(graph, TARGET)
    assert [node.op for node in spread.nodes].count("Int8ConvTranspose") == 1
    plan = plan_of(graph, DEFAULT)
    assert len(plan.launches) == 1
    check(graph, plan, FunctionalDevice(DEFAULT, plan.dram_bytes, 0))


def test_a_bias_too_large_for_the_zero_point_keeps_the_transposed_convolution():
    net = Net()
    graph = net.graph(net.spread(net.input(1, 32, 3, 4), 3, (2, 2), **TWO, zero=-128))
    words = graph.constants[graph.nodes[0].inputs[2]]
    assert phases_as_channels(graph, TARGET) is not graph
    words[0] = LARGEST_BIAS - 1
    graph.constants[graph.nodes[0].inputs[1]][...] = 127
    assert phases_as_channels(graph, TARGET) is graph


def test_factors_of_channels_follow_phases():
    net = Net()
    x = net.spread(net.input(1, 24, 3, 4), 6, (2, 2), **TWO, zero=3)
    graph = net.graph(net.scale(x, 1))
    spread = phases_as_channels(graph, TARGET)
    assert [node.op for node in spread.nodes] == ["Int8Conv", "Int8Scale", "DepthToSpace"]
    feeds = random_inputs(graph, 1)
    (name,) = graph.outputs
    np.testing.assert_array_equal(interpret(spread, feeds)[name], interpret(graph, feeds)[name])
