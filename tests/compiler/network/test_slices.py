"""Parts of channels and repeated pixels: one launch, to the last bit, and what stays on the host."""

from dataclasses import replace

import pytest

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net, resized
from tests.compiler.network.test_networks import check
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.network.slices import sliced_before
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice


def split(config, sizes: tuple[int, ...]) -> Graph:
    net = Net()
    x = net.conv(net.input(1, 3, 5, 6), sum(sizes))
    first = net.op("Split", (x,), len(sizes), axis=1, split=sizes)
    last = f"{first}_{len(sizes) - 1}"
    return net.graph(net.conv(first, 3, (3, 3), pads=(1, 1, 1, 1)), net.conv(net.join(first, last), 4))


@pytest.mark.parametrize(("config", "sizes"), [(TINY, (8, 4)), (TINY, (4, 8, 7)), (DEFAULT, (16, 16))])
def test_parts_of_whole_blocks_are_copied(config, sizes):
    graph = split(config, sizes)
    plan = plan_of(graph, config)
    assert not plan.host_steps
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes, 0))
    check(graph, plan, CycleDevice(config, plan.dram_bytes))


@pytest.mark.parametrize("sizes", [(8, 4, 4), (6, 6)])
def test_parts_that_nothing_reads_have_no_name(sizes):
    net = Net()
    first = net.op("Split", (net.conv(net.input(1, 3, 5, 6), sum(sizes)),), len(sizes), axis=1, split=sizes)
    graph = net.graph(net.conv(first, 3))
    nodes = tuple(
        replace(node, outputs=node.outputs[:1]) if node.op == "Split" else node for node in graph.nodes
    )
    graph = replace(graph, nodes=nodes)
    plan = plan_of(graph, TINY)
    check(graph, plan, FunctionalDevice(TINY, plan.dram_bytes, 0))


def test_other_parts_stay_on_the_host():
    config = TINY.with_changes(batch=2)
    graph = split(config, (6, 6))
    assert sliced_before(graph, config) == graph
    assert [step.op for step in plan_of(graph, config).host_steps] == ["Split", "Concat"]


@pytest.mark.parametrize("factors", [(2, 2), (1, 3), (3, 1)])
@pytest.mark.parametrize("size", [(5, 6), (8, 40)])
def test_repeated_pixels_are_exact(factors, size):
    net = Net()
    graph = net.graph(net.conv(resized(net, net.conv(net.input(1, 3, *size), 9), factors), 4))
    plan = plan_of(graph, TINY)
    assert not plan.host_steps
    check(graph, plan, CycleDevice(TINY, plan.dram_bytes))


@pytest.mark.parametrize(
    "how", [{"coordinate_transformation_mode": "align_corners"}, {"nearest_mode": "ceil"}]
)
def test_pixels_that_are_not_repeated_evenly_stay_on_the_host(how):
    net = Net()
    graph = net.graph(net.conv(resized(net, net.conv(net.input(1, 3, 5, 6), 8), (2, 2), **how), 4))
    (step,) = [step for step in plan_of(graph, TINY).host_steps if step.op == "Resize"]
    assert step.reason == (
        "Resize with coordinates that do not repeat pixels evenly; "
        "the accelerator takes pixels repeated by whole factors"
    )
