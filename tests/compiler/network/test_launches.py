"""Launches that are worth it, and what runs on the host instead of in others."""

import pytest

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net
from tests.compiler.network.shuffles import table
from tests.compiler.network.test_networks import check
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.network.partition import WORK_RATIO, place, work, worthwhile
from vdla.compiler.network.placed import Offloaded
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.functional import FunctionalDevice

EVERY = TINY.with_changes(extensions=tuple(Extension))
REASON = (
    "{} with little to do between operators on the host; "
    "the accelerator takes launches with at least 1/1000 of the network's work"
)


def turned(net: Net, x: str) -> str:
    """Return what only the host can do: rows and channels of each image change places."""
    return net.op("Transpose", (x,), perm=(0, 2, 1, 3))


def tail(net: Net, pixels: int) -> Graph:
    """Return a convolution, followed by sums and tables of some of its pixels."""
    x = net.conv(net.input(1, 8, 24, 24), 8, (3, 3), pads=(1, 1, 1, 1))
    first, other = (
        turned(
            net, net.op("Slice", (x,), axes=(2, 3), starts=(at, 0), ends=(at + pixels, pixels), steps=(1, 1))
        )
        for at in (0, 24 - pixels)
    )
    return net.graph(x, turned(net, table(net, net.requantise(net.add(first, other)))))


def launches(graph: Graph, target: Target) -> list[list[str]]:
    """Return the operators of each launch, without copies."""
    parts = worthwhile(graph, lambda on_host: place(graph, target, on_host=on_host))
    return [
        [placement.node.op for placement in part if not placement.copied]
        for part in parts
        if isinstance(part[0], Offloaded)
    ]


def test_a_launch_with_little_to_do_becomes_a_part_of_the_host():
    graph = tail(Net(), 2)
    assert launches(graph, Target(EVERY)) == [["Int8Conv"]]
    plan = plan_of(graph, EVERY)
    reasons = {step.op: step.reason for step in plan.host_steps}
    for op in ("Int8Add", "Int8Lookup"):  # that which another carries out, too
        assert reasons[op] == REASON.format(op)
    check(graph, plan, FunctionalDevice(EVERY, plan.dram_bytes))


def test_a_launch_with_more_to_do_stays():
    graph = tail(Net(), 24)
    assert launches(graph, Target(EVERY)) == [["Int8Conv"], ["Int8Add", "Int8Lookup"]]


def test_the_limit():
    net = Net()
    graph = tail(net, 12)
    target = Target(EVERY)
    first, second = [
        work(part)
        for part in worthwhile(graph, lambda on_host: place(graph, target, on_host=on_host))
        if isinstance(part[0], Offloaded)
    ]
    assert first == 8 * 24 * 24 * (8 * 9 + 1)
    assert second == 2 * 8 * 12 * 12 > (first + second) / WORK_RATIO


@pytest.mark.parametrize("pixels", [1, 3])
def test_the_only_launch_stays(pixels):
    net = Net()
    x = net.input(1, 8, pixels, pixels)
    graph = net.graph(net.requantise(turned(net, x)))
    assert launches(graph, Target(EVERY)) == [["Int8Requantise"]]
