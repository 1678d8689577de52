"""Networks whose padding is a zero point other than 0: LOADs pad where the accelerator can, else the host."""

import numpy as np
import pytest

from tests.compiler.graph.passes.qdq import QdqBuilder
from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net
from tests.compiler.network.test_networks import assert_equal
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.pipeline import INTEGERS
from vdla.compiler.lower.products import pads_with
from vdla.compiler.network.target_passes import pads_before_windows
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.plan import HostStep, LaunchStep
from vdla.runtime.session.session import Session

VALUED = (*TINY.extensions, Extension.PAD_VALUE)
CONFIGS = {
    "tiny": TINY.with_changes(name="valued", extensions=VALUED),
    "two rows, narrow buffers": TINY.with_changes(
        name="two rows",
        extensions=VALUED,
        batch=2,
        inp_buffer_bytes=512,
        acc_buffer_bytes=4096,
    ),
    "default": DEFAULT,
}


def convolution(of: QdqBuilder, x: str, channels: int, **window) -> str:
    """Add a convolution of as many channels as `channels` with padding."""
    inputs = of.values[x].shape[1] // window["group"]
    weights = of.weights(channels, inputs, *window.pop("kernel"), axis=0)
    attributes = {"strides": (1, 1), "dilations": (1, 1), **window}
    return of.add("Conv", x, weights, of.bias(channels, "float"), **attributes)


def convolved(of: QdqBuilder, x: str, zeros: list[int]) -> str:
    x = of.pair(convolution(of, x, 6, group=1, kernel=(3, 3), pads=(1, 1, 1, 1)), zero=zeros[1])
    x = of.pair(convolution(of, x, 6, group=3, kernel=(3, 2), pads=(2, 0, 0, 1)), zero=zeros[2])
    return of.pair(convolution(of, x, 5, group=1, kernel=(5, 5), pads=(2, 2, 2, 2), strides=(2, 2)), zero=0)


def gathered(of: QdqBuilder, x: str, zeros: list[int]) -> str:
    window = {"group": 1, "kernel": (3, 3), "pads": (1, 1, 1, 1), "strides": (2, 2)}
    x = of.pair(convolution(of, x, 4, **window), zero=zeros[1])
    return of.pair(convolution(of, x, 3, **window), zero=zeros[2])


def depthwise(of: QdqBuilder, x: str, zeros: list[int]) -> str:
    channels = of.values[x].shape[1]
    for zero in zeros[1:]:
        attributes = {"group": channels, "kernel": (3, 3), "pads": (1, 1, 1, 1), "strides": (2, 1)}
        x = of.pair(of.add("Relu", convolution(of, x, channels, **attributes)), zero=zero)
    return x


def pooled(of: QdqBuilder, x: str, zeros: list[int]) -> str:
    window = {"ceil_mode": 0, "dilations": (1, 1), "kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
    x = of.kept(of.add("MaxPool", x, **window, strides=(1, 1)), like=x)
    x = of.pair(of.add("AveragePool", x, **window, strides=(2, 2), count_include_pad=1), zero=zeros[1])
    x = of.pair(of.add("MaxPool", x, **window, strides=(2, 1)), zero=zeros[2])
    return of.pair(of.add("AveragePool", x, **window, strides=(1, 1), count_include_pad=1), zero=zeros[0])


NETWORKS = {
    "convolutions": convolved,
    "the first gathers pixels": gathered,
    "depthwise convolutions": depthwise,
    "pooling": pooled,
}
ZEROS = {"int8": [-3, 40, -90], "uint8": [3, 200, 100]}


def quantised(title: str, dtype: str) -> tuple[Graph, dict[str, np.ndarray]]:
    """Return a network of integer operators between conversions, and what it is given."""
    of = QdqBuilder(len(title), dtype)
    x = of.pair(of.input(1, 6, 9, 7), zero=ZEROS[dtype][0])
    return INTEGERS.run(of.finish(NETWORKS[title](of, x, ZEROS[dtype]))), of.feeds()


def steps_of(graph: Graph, config: AcceleratorConfig) -> tuple[list[str], int]:
    """Return the operators on the host, and how many launches there are."""
    steps = plan_of(graph, config).steps
    on_host = [step.op for step in steps if isinstance(step, HostStep)]
    return on_host, sum(isinstance(step, LaunchStep) for step in steps)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("dtype", ZEROS)
@pytest.mark.parametrize("title", NETWORKS)
def test_an_asymmetric_network_runs_in_one_launch_without_a_pad(title, dtype, name):
    (graph, feeds), config = quantised(title, dtype), CONFIGS[name]
    assert steps_of(graph, config) == (["QuantizeLinear", "DequantizeLinear"], 1)
    plan, expected = plan_of(graph, config), interpret(graph, feeds)
    assert np.ptp(next(iter(expected.values()))) > 0
    for seed in (None, 0):
        device = FunctionalDevice(config, plan.dram_bytes, seed)
        assert_equal(Session(device, plan).run(feeds).outputs, expected)
    assert_equal(Session(CycleDevice(config, plan.dram_bytes), plan).run(feeds).outputs, expected)


@pytest.mark.parametrize(
    ("title", "pads", "launches"),
    [
        ("convolutions", 3, 3),
        ("the first gathers pixels", 2, 2),
        ("depthwise convolutions", 2, 2),
        ("pooling", 2, 3),
    ],
)
def test_without_the_extension_the_host_pads(title, pads, launches):
    graph, feeds = quantised(title, "int8")
    wanted = ["QuantizeLinear", *["Pad"] * pads, "DequantizeLinear"]
    assert steps_of(graph, SMALL) == (wanted, launches)
    plan = plan_of(graph, SMALL)
    outputs = Session(FunctionalDevice(SMALL, plan.dram_bytes), plan).run(feeds).outputs
    assert_equal(outputs, interpret(graph, feeds))


@pytest.mark.parametrize("title", NETWORKS)
def test_the_rtl_pads_as_the_simulator_in_as_many_cycles(title):
    from vdla.runtime.devices.rtl.build import Optimise
    from vdla.runtime.devices.rtl.device import RtlDevice

    (graph, feeds), config = quantised(title, "uint8"), CONFIGS["tiny"]
    plan = plan_of(graph, config)
    devices = (
        RtlDevice(config, plan.dram_bytes, optimise=Optimise.BUILD),
        CycleDevice(config, plan.dram_bytes),
    )
    rtl, simulated = (Session(device, plan).run(feeds) for device in devices)
    assert_equal(rtl.outputs, interpret(graph, feeds))
    assert rtl.cycles == simulated.cycles
    assert [ran.result.counters for ran in rtl.launches] == [
        ran.result.counters for ran in simulated.launches
    ]


def test_a_pad_takes_the_place_of_a_border_that_loads_cannot_pad_with():
    net = Net()
    x = net.input(1, 4, 3, 5)
    y = net.conv(x, 4, (3, 3), pads=(1, 0, 2, 1), border=7)
    graph = net.graph(net.conv(y, 4, (3, 3), pads=(1, 1, 1, 1), border=-128))
    pad, conv, least = pads_before_windows(TINY).run(graph).nodes
    assert (pad.op, pad.inputs, dict(pad.attributes)) == (
        "Pad",
        (x,),
        {"mode": "constant", "pads": (0, 0, 1, 0, 0, 0, 2, 1), "value": 7},
    )
    assert (conv.inputs[0], conv.attributes["border"], conv.extents("pads")) == (pad.outputs[0], 0, (0,) * 4)
    assert (least.attributes["border"], least.extents("pads")) == (-128, (1,) * 4)
    assert pads_before_windows(CONFIGS["tiny"]).run(graph).nodes == graph.nodes
    feeds = {x: net.values[x]}
    assert_equal(interpret(pads_before_windows(TINY).run(graph), feeds), interpret(graph, feeds))


@pytest.mark.parametrize(("border", "expected"), [(0, True), (-128, True), (-127, False), (127, False)])
def test_zero_and_the_least_value_need_no_extension(border, expected):
    assert pads_with(TINY, border) is expected
    assert pads_with(DEFAULT, border)
