"""Networks on devices: to the last bit what the interpreter makes of their graphs."""

import numpy as np
import pytest

from tests.compiler.network.graphs import HANDMADE, Net, random_graph, random_inputs
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.network.build import build
from vdla.compiler.network.partition import parts, place
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import TINY
from vdla.runtime.device import Device
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.devices.session import Session
from vdla.runtime.module.plan import Plan

CONFIGS = {
    "tiny": TINY,
    "two rows": TINY.with_changes(batch=2),
    "wide in": TINY.with_changes(block_in=8),
    "wide out": TINY.with_changes(block_out=8),
    "small buffers": TINY.with_changes(inp_buffer_bytes=256, wgt_buffer_bytes=512, acc_buffer_bytes=1024, uop_buffer_bytes=256),
}


def plan_of(graph: Graph, config: AcceleratorConfig = TINY) -> Plan:
    return build(graph, parts(graph, place(graph, config), config), config)


def assert_equal(found, expected) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def check(graph: Graph, plan: Plan, device: Device, seed: int = 0) -> None:
    session = Session(device, plan)
    for each in (seed, seed + 1):  # nothing is left from the first run
        inputs = random_inputs(graph, each)
        assert_equal(session.run(inputs).outputs, interpret(graph, inputs))


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("title", HANDMADE)
def test_a_network_is_what_its_graph_means(title, name):
    graph = HANDMADE[title](Net())
    plan = plan_of(graph, CONFIGS[name])
    for seed in (None, 0, 1, 2):
        check(graph, plan, FunctionalDevice(plan.config, plan.dram_bytes, seed))
    check(graph, plan, CycleDevice(plan.config, plan.dram_bytes))


@pytest.mark.parametrize("seed", range(40))
def test_a_random_network_is_what_its_graph_means(seed):
    graph, config = random_graph(seed), list(CONFIGS.values())[seed % len(CONFIGS)]
    plan = plan_of(graph, config)
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes, seed % 4 or None), seed)
