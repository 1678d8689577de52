"""Joined channels and parts of them that nothing makes: no instruction, and the same result to the last bit."""

import pytest

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net
from tests.compiler.network.test_networks import check
from vdla.compiler.graph.nodes import Graph
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.plan import Plan

EVERY = TINY.with_changes(extensions=tuple(Extension))


def part(net: Net, x: str, begin: int, end: int) -> str:
    return net.op("Slice", (x,), axes=(1,), starts=(begin,), ends=(end,), steps=(1,))


def copied_moves(plan: Plan) -> dict[str, bool]:
    """Return which moves of elements take instructions."""
    layers = [layer for step in plan.launches for layer in step.layers]
    return {
        layer.label or layer.name: bool(layer.label) for layer in layers if layer.op in ("Concat", "Slice")
    }


def compiled(graph: Graph, config=EVERY) -> Plan:
    plan = plan_of(graph, config)
    assert not plan.host_steps
    for seed in (None, 0):
        check(graph, plan, FunctionalDevice(config, plan.dram_bytes, seed))
    check(graph, plan, CycleDevice(config, plan.dram_bytes))
    return plan


def joined_convolutions(net: Net) -> str:
    x = net.input(1, 3, 7, 9)
    return net.join(net.conv(x, 8), net.conv(x, 4, (3, 3), pads=(1, 1, 1, 1)), net.conv(x, 7))


READERS = {
    "1x1": lambda net, x: net.conv(x, 5),
    "padded": lambda net, x: net.conv(x, 5, (3, 3), pads=(1, 2, 1, 0), border=-128),
    "padded with a constant": lambda net, x: net.conv(x, 5, (3, 3), pads=(1, 1, 1, 1), border=7),
    "depthwise": lambda net, x: net.conv(x, 19, (3, 3), pads=(1, 1, 1, 1), group=19),
    "strided": lambda net, x: net.conv(x, 5, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
    "transposed": lambda net, x: net.spread(x, 5, (4, 4), strides=(2, 2), pads=(1, 1, 1, 1)),
    "pooled": lambda net, x: net.pool(x, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
    "requantised": lambda net, x: net.requantise(x),
    "added": lambda net, x: net.add(x, x),
    "a residual": lambda net, x: net.add(x, net.conv(net.requantise(x), 19, (3, 3), pads=(1, 1, 1, 1))),
    "parts, joined otherwise": lambda net, x: net.conv(
        net.join(part(net, x, 4, 16), part(net, x, 12, 19)), 5
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_readers_load_from_what_is_joined(reader):
    net = Net()
    plan = compiled(net.graph(READERS[reader](net, joined_convolutions(net))))
    assert plan.launches
    assert not any(copied_moves(plan).values()), copied_moves(plan)


def test_joined_twice_and_joined_again():
    net = Net()
    x = net.conv(net.input(1, 3, 5, 6), 8)
    both = net.join(x, net.join(part(net, x, 4, 8), x), part(net, x, 0, 4))
    plan = compiled(net.graph(net.conv(both, 6), net.requantise(x)))
    assert not any(copied_moves(plan).values())


def test_parts_of_what_leaves_the_launch_are_written_in_their_places():
    """A part that leaves the launch, too, lies in the same place."""
    net = Net()
    whole = joined_convolutions(net)
    half = part(net, whole, 4, 12)
    plan = compiled(net.graph(whole, net.conv(whole, 3), half, net.conv(half, 3)))
    assert copied_moves(plan) == {"the Concat": False, "the Slice": False}
    begins = {layer.result.begin for step in plan.launches for layer in step.layers if layer.result}
    assert {7 * 9 * 4 * block for block in (0, 2, 3)} <= begins


SOURCES = {
    "with a residual": lambda net, x: net.add(net.requantise(x), net.conv(x, 8, (3, 3), pads=(1, 1, 1, 1))),
    "with a residual from another place": lambda net, x: net.add(net.conv(x, 8), net.conv(x, 8)),
    "pooled": lambda net, x: net.pool(x, (3, 3), pads=(1, 1, 1, 1)),
    "by windows": lambda net, x: net.conv(x, 8, (3, 3), pads=(1, 1, 1, 1), group=8),
    "also read": lambda net, x: net.requantise(x),
}


@pytest.mark.parametrize("source", SOURCES)
def test_sources_of_every_kind_are_written_in_their_places(source):
    net = Net()
    x = net.conv(net.input(1, 3, 7, 9), 8)
    source_value = SOURCES[source](net, x)
    whole = net.join(x, source_value, net.conv(source_value, 5))
    plan = compiled(net.graph(whole, net.requantise(whole)))
    assert copied_moves(plan) == {"the Concat": False}


def test_a_source_that_leaves_the_launch_or_is_joined_twice_is_copied():
    net = Net()
    x = net.input(1, 3, 5, 6)
    first, second = net.conv(x, 8), net.conv(x, 4)
    both, again, twice = net.join(first, second), net.join(second, net.conv(x, 4)), net.join(second, second)
    plan = compiled(net.graph(first, both, again, twice))
    assert sorted(copied_moves(plan).values()) == [False, True, True]


def test_joined_tensors_from_the_host():
    net = Net()
    a, b = net.input(1, 4, 5, 5), net.input(1, 3, 5, 5)
    plan = compiled(net.graph(net.conv(net.join(a, a, b), 6)))
    assert not any(copied_moves(plan).values())


def test_a_view_of_joined_rows_is_a_view_of_bytes():
    net = Net()
    x = net.input(1, 8)
    both = net.join(net.matmul(x, 8), net.matmul(x, 5))
    plan = compiled(net.graph(net.conv(net.reshape(both, 1, 13, 1, 1), 6)))
    assert copied_moves(plan) == {"the Concat": False}


def rows_of_images(net: Net) -> str:
    x = net.conv(net.input(1, 3, 4, 5), 10)
    return net.join(x, net.conv(x, 10, (2, 1)), axis=2)


ROW_READERS = {
    "padded": lambda net, x: net.conv(x, 5, (3, 3), pads=(1, 1, 1, 1), border=-128),
    "a mean of all": lambda net, x: net.average(x, (7, 5)),
    "in another shape": lambda net, x: net.pool(net.reshape(x, 1, 10, 35, 1), (4, 1), strides=(3, 1)),
    "in two other shapes": lambda net, x: net.conv(
        net.reshape(net.reshape(x, 1, 10, 1, 35), 1, 10, 5, 7), 5, (2, 2)
    ),
    "joined again": lambda net, x: net.conv(net.join(x, net.requantise(x), axis=2), 4, (3, 1)),
}


@pytest.mark.parametrize("reader", ROW_READERS)
def test_joined_rows_need_no_copy(reader):
    net = Net()
    plan = compiled(net.graph(ROW_READERS[reader](net, rows_of_images(net))))
    assert not any(copied_moves(plan).values())


@pytest.mark.parametrize("leaves", ["the rows", "their view"])
def test_the_sources_of_joined_rows_that_leave_the_launch_are_stored_in_them(leaves):
    net = Net()
    x = rows_of_images(net)
    view = net.reshape(x, 1, 10, 35, 1)
    plan = compiled(net.graph({"the rows": x, "their view": view}[leaves], net.pool(view, (2, 1))))
    assert copied_moves(plan) == {"the Concat": False}


def test_rows_that_become_an_image_need_no_copy_where_they_are_joined():
    net = Net()
    rows = [net.matmul(net.input(12, 6), 8) for _ in range(2)]
    images = [net.transpose(net.reshape(each, 1, 3, 4, 8), 0, 3, 1, 2) for each in rows]
    scaled = net.transpose(net.matmul(net.reshape(rows[0], 1, 3, 4, 8), 8), 0, 3, 1, 2)
    plan = compiled(net.graph(net.conv(net.join(*images, scaled), 5)))
    assert list(copied_moves(plan).values()) == [False]
