"""Accelerators whose block_in and block_out differ: whole networks in one launch, to the last bit."""

import numpy as np
import pytest

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net, random_inputs
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.plan import LaunchStep, Plan
from vdla.runtime.session.session import Session

ALL = TINY.with_changes(extensions=tuple(Extension))
NO_GATHER = ALL.with_changes(extensions=tuple(set(Extension) - {Extension.GATHER}))
CONFIGS = {
    "wide in": ALL.with_changes(block_in=8),
    "wide out": ALL.with_changes(block_out=8),
    "four parts in": ALL.with_changes(block_in=16),
    "four parts out": ALL.with_changes(block_in=2, block_out=8),
    "wide out, no gather": NO_GATHER.with_changes(block_out=8),
}


def residual(net: Net) -> Graph:
    """Convolutions with borders and strides, a sum in the store unit and a sum by the ALU, a pooling."""
    x = net.conv(net.input(1, 3, 10, 9), 12, (3, 3), pads=(1, 1, 1, 1))
    y = net.conv(x, 20, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    y = net.add(net.conv(y, 20, (1, 1)), y)
    y = net.pool(y, pads=(0, 1, 1, 0))
    z = net.conv(y, 20, (3, 3), pads=(1, 1, 1, 1))
    return net.graph(net.conv(net.add(net.requantise(y), z), 5, (1, 1)))


def depthwise(net: Net) -> Graph:
    """Depthwise and grouped convolutions, several images, a border that is not 0."""
    x = net.conv(net.input(3, 16, 7, 6), 24, (1, 1))
    x = net.conv(x, 24, (3, 3), pads=(2, 1, 0, 1), group=24, border=5)
    x = net.conv(x, 48, (3, 3), strides=(1, 2), group=3)
    return net.graph(net.conv(x, 8, (2, 2), dilations=(2, 1)))


def dense(net: Net) -> Graph:
    """Products of matrices, of one pixel and of many rows."""
    x = net.reshape(net.conv(net.input(1, 16, 2, 2), 40, (2, 2)), 1, 40)
    return net.graph(net.matmul(net.matmul(x, 24), 7), net.matmul(net.matmul(net.input(6, 9), 17), 11))


def joined(net: Net) -> Graph:
    """Joined and divided channels, each of whole blocks."""
    x = net.conv(net.input(1, 8, 5, 4), 32, (1, 1))
    y = net.op("Concat", (net.conv(x, 16, (1, 1)), x), axis=1)
    return net.graph(net.conv(y, 9, (3, 3), pads=(1, 1, 1, 1)))


def repeated(net: Net) -> Graph:
    """Pixels that are repeated, of whole blocks and of others."""
    x = net.conv(net.input(1, 4, 5, 4), 20, (1, 1))
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    x = net.op("Resize", (x,), scales=(1.0, 1.0, 2.0, 3.0), sizes=(1, 20, 10, 12), **how)
    return net.graph(net.conv(x, 9, (3, 3), pads=(1, 1, 1, 1)))


def scaled(net: Net) -> Graph:
    """Products of images with a factor for each channel, and the sums of planes that make them."""
    x = net.conv(net.input(1, 6, 7, 5), 20, (1, 1))
    y = net.mul(x, net.conv(net.conv(x, 20, (7, 5), group=20), 20, (1, 1)))
    return net.graph(net.conv(net.mul(net.conv(y, 20, (7, 5), group=20), y), 9, (1, 1)))


NETWORKS = {each.__name__: each for each in (residual, depthwise, dense, joined, repeated, scaled)}


def check(graph: Graph, plan: Plan) -> None:
    launches = [step for step in plan.steps if isinstance(step, LaunchStep)]
    assert len(launches) == len(plan.steps) == 1
    for device in (
        FunctionalDevice(plan.config, plan.dram_bytes, 3),
        CycleDevice(plan.config, plan.dram_bytes),
    ):
        inputs = random_inputs(graph, 1)
        outputs = Session(device, plan).run(inputs).outputs
        for name, expected in interpret(graph, inputs).items():
            np.testing.assert_array_equal(outputs[name], expected, err_msg=name)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("title", NETWORKS)
def test_a_network_runs_in_one_launch(title, name):
    graph = NETWORKS[title](Net())
    check(graph, plan_of(graph, CONFIGS[name]))
