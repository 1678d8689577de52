"""Channels in orders in which nothing has to move them: the same results, and no move of single channels."""

import numpy as np
import pytest

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net, random_inputs, resized
from tests.compiler.network.shuffles import PIXELS, at_random, depthwise, halves, part, shuffled, table, units
from tests.compiler.network.test_networks import assert_equal, check
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.verify import verify
from vdla.compiler.network.channel_order import NO_CHANNEL, dense, for_lanes, lane_order, reordered_channels
from vdla.compiler.network.offload import operators_of
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.cycle import CycleDevice

EVERY = TINY.with_changes(extensions=tuple(Extension))


def same(graph: Graph, config=EVERY) -> Graph:
    """Return the graph with reordered channels after checking that it computes the same."""
    reordered = reordered_channels(graph, config, operators_of(config))
    verify(reordered)
    inputs = random_inputs(graph, 1)
    assert_equal(interpret(reordered, inputs), interpret(graph, inputs))
    return reordered


ONE_LAUNCH = 1, ()


def placed(graph: Graph, config=EVERY) -> tuple[int, tuple]:
    """Return the launches of a network and its steps on the host; its results are right."""
    same(graph, config)
    plan = plan_of(graph, config)
    check(graph, plan, CycleDevice(config, plan.dram_bytes))
    return len(plan.launches), plan.host_steps


# Orders


def groups(*sizes: int) -> list[frozenset[int]]:
    return [frozenset({number}) for number, size in enumerate(sizes) for _ in range(size)]


@pytest.mark.parametrize(
    ("sizes", "blocks"),
    [((29, 15, 7, 7), 4), ((58, 29, 15, 14), 8), ((116, 58, 29, 29), 16), ((9, 9, 9, 9), 3), ((3, 5), 1)],
)
def test_groups_of_uses_stand_in_blocks(sizes, blocks):
    lanes = lane_order(groups(*sizes), 16)
    assert len(lanes) == 16 * blocks
    assert sorted(lanes[lanes != NO_CHANNEL].tolist()) == list(range(sum(sizes)))


N = NO_CHANNEL


@pytest.mark.parametrize(
    ("uses", "block", "lanes"),
    [
        (groups(13, 3), 4, [*range(13), N, N, N, 13, 14, 15, N]),
        (groups(3, 13), 4, [*range(3, 16), N, N, N, 0, 1, 2, N]),
        (groups(4, 3, 1), 4, [0, 1, 2, 3, 4, 5, 6, 7]),
        (groups(5, 3, 1), 4, [0, 1, 2, 3, 4, N, N, N, 5, 6, 7, 8]),
        (groups(9, 6), 8, [*range(15), N]),
        (groups(10, 2, 4), 4, [*range(10), N, N, 12, 13, 14, 15, 10, 11, N, N]),
        ([frozenset({2})] * 4 + [frozenset({1})] * 4, 4, [4, 5, 6, 7, 0, 1, 2, 3]),
        ([frozenset({5}), frozenset({3, 9}), frozenset({3})], 4, [2, 1, 0, N]),
        ([frozenset({channel % 2}) for channel in range(8)], 4, [0, 2, 4, 6, 1, 3, 5, 7]),
    ],
)
def test_great_groups_begin_with_blocks_unless_that_takes_a_quarter_more(uses, block, lanes):
    assert lane_order(uses, block).tolist() == lanes


def test_the_greatest_group_has_blocks_of_its_own():
    lanes = lane_order([frozenset({channel % 2 + channel // 20}) for channel in range(30)], 8)
    held = [
        {channel % 2 + channel // 20 for channel in block if channel != NO_CHANNEL}
        for block in lanes.reshape(-1, 8)
    ]
    assert all(len(uses) == 1 for uses in held[:2])


def test_channels_that_are_used_alike_stay_in_order():
    assert lane_order([frozenset({1, 2})] * 20, 16) is None


def test_lanes_without_a_channel():
    array = np.arange(1, 7).reshape(3, 2)
    lanes = np.array([2, NO_CHANNEL, 0])
    assert for_lanes(array, lanes, 0, None).tolist() == [[5, 6], [0, 0], [1, 2]]
    assert for_lanes(array, lanes, 0, 0).tolist() == [[5, 6], [1, 2], [1, 2]]
    assert for_lanes(array[:, :1], lanes, 1, 0).tolist() == array[:, :1].tolist()


def test_weights_of_groups_among_zeros():
    weights = np.arange(1, 9).reshape(4, 2, 1, 1)
    assert dense(weights, 2)[..., 0, 0].tolist() == [[1, 2, 0, 0], [3, 4, 0, 0], [0, 0, 5, 6], [0, 0, 7, 8]]


# Graphs


@pytest.mark.parametrize(("channels", "count"), [(5, 1), (6, 3), (14, 4)])
def test_units_of_a_shuffle_net_are_one_launch(channels, count):
    assert placed(units(Net(), channels, count)) == ONE_LAUNCH


def test_such_units_on_another_accelerator():
    assert placed(units(Net(), 29, 2), DEFAULT) == ONE_LAUNCH


READERS = {
    "a depthwise convolution and a table": lambda net, x: net.conv(table(net, depthwise(net, x)), 4),
    "pooling and repeated pixels": lambda net, x: net.conv(resized(net, net.pool(x), (2, 1)), 3),
    "factors of channels and averages": lambda net, x: net.conv(
        net.average(net.scale(net.scale(x, 1), 1, np.array([-5], np.int8)), (2, 3), pads=(1, 1, 0, 1)), 4
    ),
    "means": lambda net, x: net.conv(net.average(x, PIXELS), 4),
    "a convolution of wide weights": lambda net, x: net.conv(x, 3, weights=net.wide(3, 12, 1, 1)),
    "a convolution of groups": lambda net, x: net.conv(x, 6, group=3),
    "a sum, which needs order": lambda net, x: net.conv(net.add(x, net.requantise(x)), 3),
    "a transposed convolution": lambda net, x: net.spread(x, 3, (4, 4), strides=(2, 2), pads=(1, 1, 1, 1)),
    "parts of parts, backwards": lambda net, x: net.conv(part(net, part(net, x, 2, 11), 8, 0, -1), 3),
    "the same channels twice": lambda net, x: net.conv(net.join(x, part(net, x, 1, 6), x), 3),
    "an output, in order": lambda net, x: net.requantise(x),
}


@pytest.mark.parametrize("reader", READERS)
def test_readers_of_shuffled_channels(reader):
    net = Net()
    x = net.input(1, 3, *PIXELS)
    joined = shuffled(net, net.join(net.conv(x, 7), net.conv(x, 5, (3, 3), pads=(1, 1, 1, 1))), 3)
    assert placed(net.graph(READERS[reader](net, joined))) == ONE_LAUNCH


def test_channels_that_also_leave_stay_in_order():
    net = Net()
    a = net.conv(net.input(1, 3, *PIXELS), 7)
    left, right = halves(net, a, 3, 4)
    graph = net.graph(net.conv(right, 3), left, a)
    changed = same(graph)
    assert changed.types[a] == graph.types[a]
    assert len(plan_of(graph, EVERY).launches) == 1


def test_tensors_from_outside_are_filled_to_whole_blocks():
    net = Net()
    a, b = (net.requantise(net.input(1, 3, *PIXELS)) for _ in range(2))
    assert placed(net.graph(net.conv(net.join(a, b, a), 4))) == ONE_LAUNCH


def test_moves_that_only_the_host_reads_stay():
    net = Net()
    a = net.conv(net.input(1, 3, *PIXELS), 6)
    graph = net.graph(shuffled(net, a, 2), net.conv(a, 3))
    assert reordered_channels(graph, EVERY, operators_of(EVERY)) is graph


@pytest.mark.parametrize("changes", [{"block_in": 8}, {"block_out": 8}])
def test_accelerators_with_two_sizes_of_blocks(changes):
    assert placed(units(Net(), 14, 3), EVERY.with_changes(**changes)) == ONE_LAUNCH


def test_rows_of_several_images_stay():
    graph, config = units(Net(), 6, 1), TINY.with_changes(batch=2)
    assert reordered_channels(graph, config, operators_of(config)) is graph
    plan = plan_of(graph, config)
    check(graph, plan, CycleDevice(config, plan.dram_bytes))


def averaged(net: Net) -> Graph:
    x = shuffled(
        net, net.join(net.conv(net.input(1, 3, *PIXELS), 7), net.conv(net.input(1, 3, *PIXELS), 5)), 3
    )
    return net.graph(net.conv(net.average(net.scale(x, 1), (2, 2)), 4))


@pytest.mark.parametrize("make", [lambda net: units(net, 6, 3), averaged], ids=["units", "averaged"])
def test_multiply_accumulates_are_those_of_the_network(make):
    graph = make(Net())
    expected = sum(macs(graph, node) for node in graph.nodes)
    layers = [layer for step in plan_of(graph, EVERY).launches for layer in step.layers]
    assert sum(layer.macs for layer in layers) == expected


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_mean_the_same(seed):
    graph = at_random(seed)
    same(graph)
    if seed % 10 == 0:
        plan = plan_of(graph, EVERY)
        check(graph, plan, CycleDevice(EVERY, plan.dram_bytes))
