"""Networks on devices: to the last bit what the interpreter makes of their graphs."""

from itertools import cycle

import numpy as np
import pytest

from tests.compiler.graph.passes.qdq import QdqBuilder
from tests.compiler.network.compiled import handmade, plan_of
from tests.compiler.network.graphs import HANDMADE, Net, random_graph, random_inputs
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.pipeline import INTEGERS
from vdla.hw.spec import isa
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.device import Device
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.plan import Plan
from vdla.runtime.session.session import Session
from vdla.sim.decoded import decode_stream

LONG = TINY.with_changes(block_in=2, block_out=2, inp_buffer_bytes=1 << 19, acc_buffer_bytes=1 << 18)
"""Instructions of 256 bits, micro-ops of 64, and 18 bits of `sram_base`."""

ONE_MIB = {f"{pad}_buffer_bytes": 1 << 20 for pad in ("uop", "inp", "wgt", "acc")}

CONFIGS = {
    "tiny": TINY,
    "two rows": TINY.with_changes(batch=2),
    "wide in": TINY.with_changes(block_in=8),
    "wide out": TINY.with_changes(block_out=8),
    "small buffers": TINY.with_changes(
        inp_buffer_bytes=256,
        wgt_buffer_bytes=512,
        acc_buffer_bytes=1024,
        uop_buffer_bytes=256,
        extensions=(*TINY.extensions, Extension.PAD_VALUE),
    ),
    "long instructions": LONG,
}


def assert_equal(results, expected) -> None:
    assert list(results) == list(expected)
    for name, array in expected.items():
        assert results[name].dtype == array.dtype
        np.testing.assert_array_equal(results[name], array, err_msg=name)


def check(graph: Graph, plan: Plan, device: Device, seed: int = 0) -> None:
    session = Session(device, plan)
    for each in (seed, seed + 1):  # nothing is left from the first run
        inputs = random_inputs(graph, each)
        assert_equal(session.run(inputs).outputs, interpret(graph, inputs))


@pytest.mark.parametrize("title", HANDMADE)
def test_a_network_is_what_its_graph_means(title):
    graph, plan = handmade(title)
    for seed in (None, 0, 1, 2):
        check(graph, plan, FunctionalDevice(plan.config, plan.dram_bytes, seed))
    check(graph, plan, CycleDevice(plan.config, plan.dram_bytes))


def transposed(of: QdqBuilder, channels: int) -> str:
    """Return a transposed convolution of an input whose zero point is not 0."""
    more = {"dilations": (1, 1), "group": 1, "output_padding": (0, 0), "pads": (0, 0, 0, 0)}
    x, w = of.pair(of.input(1, channels, 4, 3), zero=0), of.weights(channels, 6, 2, 2, axis=1)
    return of.add("ConvTranspose", x, w, strides=(2, 2), **more)


def of_nine_bits(of: QdqBuilder, channels: int) -> str:
    """Return a depthwise convolution with weights less their zero point of nine bits."""
    w = of.weights(channels, 1, 3, 3, axis=-1, zero=20, dtype="uint8")
    more = {"dilations": (1, 1), "group": channels, "pads": (0, 0, 0, 0), "strides": (2, 1)}
    return of.add("Conv", of.pair(of.input(1, channels, 7, 6)), w, **more)


@pytest.mark.parametrize("config", [DEFAULT, TINY, CONFIGS["wide in"]], ids=lambda config: config.name)
@pytest.mark.parametrize("channels", [5, 32])
@pytest.mark.parametrize("make", [transposed, of_nine_bits])
def test_zero_points_and_wide_weights_leave_nothing_on_the_host(make, channels, config):
    of = QdqBuilder(3, "uint8")
    graph = INTEGERS.run(of.finish(of.pair(make(of, channels))))
    plan = plan_of(graph, config)
    moves = {"DepthToSpace"} if make is transposed else set()  # of phases, see `phases`
    assert {step.op for step in plan.host_steps} <= {"QuantizeLinear", "DequantizeLinear", "FlipSign"} | moves
    assert len(plan.launches) == 1
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes, 0))


@pytest.mark.parametrize(("title", "name"), list(zip(HANDMADE, cycle(list(CONFIGS)[1:]), strict=False)))
def test_it_is_the_same_on_other_accelerators(title, name):
    graph, config = HANDMADE[title](Net()), CONFIGS[name]
    plan = plan_of(graph, config)
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes, 0))


SLIDING = TINY.with_changes(block_in=8, block_out=8, extensions=tuple(Extension))


@pytest.mark.parametrize("kernel", [(3, 3), (5, 5), (2, 4)])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_depthwise_convolution_slides_where_the_accelerator_can(kernel, stride):
    net = Net()
    x = net.conv(net.input(2, 11, 8, 9), 11, kernel, pads=(1, 1, 2, 1), group=11)
    graph = net.graph(net.conv(x, 11, kernel, strides=(stride, stride), pads=(2, 1, 1, 2), group=11))
    plan = plan_of(graph, SLIDING)
    check(graph, plan, FunctionalDevice(SLIDING, plan.dram_bytes, 1))
    check(graph, plan, CycleDevice(SLIDING, plan.dram_bytes))
    (stream,) = plan.streams.values()
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), SLIDING)
    assert {isa.Opcode.DEPTHWISE} <= set(program.opcode.tolist())


UNUSUAL = {
    "1x1": {"block_in": 1, "block_out": 1},
    "2x2": {"block_in": 2, "block_out": 2},
    "buffers of 1 MiB": ONE_MIB,
    "64x64, buffers of 1 MiB": {"block_in": 64, "block_out": 64, **ONE_MIB},
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_it_is_the_same_whatever_the_blocks_and_buffers(name):
    """None of these fits VTA's encoding."""
    config = DEFAULT.with_changes(**UNUSUAL[name])
    assert config.instruction_bits == 256
    graph = HANDMADE["several ends"](Net())
    plan = plan_of(graph, config)
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes, 0))
    check(graph, plan, CycleDevice(config, plan.dram_bytes))


@pytest.mark.parametrize("seed", range(15))
def test_a_random_network_is_what_its_graph_means(seed):
    graph, config = random_graph(seed, 5), list(CONFIGS.values())[seed % len(CONFIGS)]
    plan = plan_of(graph, config)
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes, seed % 4 or None), seed)


@pytest.mark.parametrize(
    ("title", "config"),
    [("several ends", TINY), ("split", TINY), ("split", LONG)],
    ids=["several ends", "split", "long instructions"],
)
def test_the_rtl_makes_the_same_in_the_cycles_of_the_simulator(title, config):
    from vdla.runtime.devices.rtl.build import Optimise
    from vdla.runtime.devices.rtl.device import RtlDevice

    graph = HANDMADE[title](Net())
    plan, inputs = plan_of(graph, config), random_inputs(graph, 0)
    devices = (
        RtlDevice(config, plan.dram_bytes, optimise=Optimise.BUILD),
        CycleDevice(config, plan.dram_bytes),
    )
    rtl, simulated = (Session(device, plan).run(inputs) for device in devices)
    assert_equal(rtl.outputs, interpret(graph, inputs))
    assert rtl.cycles == simulated.cycles
    assert [ran.result.counters for ran in rtl.launches] == [
        ran.result.counters for ran in simulated.launches
    ]
