"""Convolutions over windows of packed lines mean the same, take fewer steps, and are chosen by their cycles."""

from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net, random_inputs
from tests.compiler.network.test_offload import sums
from tests.programs.test_gather import GATHERING as WITH_RTL
from vdla.compiler.codegen.choose import by_simulator, least_estimate, simulated_cycles
from vdla.compiler.codegen.space import ChoiceSpace, space_of
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.network.offload import offload
from vdla.compiler.network.packed_inputs import best_packed, packed_inputs, packed_weights
from vdla.compiler.network.placed import Offloaded
from vdla.compiler.tasks.base import Task
from vdla.compiler.tasks.convolution import ConvolutionTask, GatheredTask
from vdla.compiler.tasks.pooled_convolution import PooledTask
from vdla.compiler.te.operators.sizes import Convolution, Pooling, blocks
from vdla.hw.spec import isa
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.layout import Layout
from vdla.runtime.module.plan import LaunchStep
from vdla.runtime.session.session import Session
from vdla.sim.decoded import decode_stream

WIDE, PAIRS = DEFAULT.with_changes(block_in=32), DEFAULT.with_changes(batch=2)
GATHERING = TINY.with_changes(
    name="gathering", block_in=8, block_out=8, extensions=(*TINY.extensions, Extension.GATHER)
)
CONFIGS = (DEFAULT, TINY, GATHERING, PAIRS)
RESNET = Convolution(3, 224, 224, 64, (7, 7), (2, 2), (3, 3, 3, 3))
MOBILENET = Convolution(3, 224, 224, 32, (3, 3), (2, 2), (1, 1, 1, 1))
PATCHES = Convolution(3, 32, 32, 24, (8, 8), (8, 8))


def windows_of(lines: np.ndarray, columns: int, step: int, block: int) -> np.ndarray:
    """Return int8[n, block, lines, columns]: the windows of packed lines, as GATHER reads them."""
    places = np.arange(columns)[None] * step + np.arange(block)[:, None]
    return lines[:, :, places].transpose(0, 2, 1, 3)


@settings(max_examples=120)
@given(
    st.sampled_from(CONFIGS),
    st.integers(1, 6),
    st.tuples(st.integers(4, 13), st.integers(4, 13)),
    st.tuples(st.integers(1, 7), st.integers(1, 7)),
    st.tuples(*[st.integers(1, 4)] * 2),
    st.tuples(*[st.integers(0, 3)] * 4),
    st.sampled_from([0, -128, 3]),
    st.integers(1, 2),
)
def test_every_convolution_over_windows_is_the_same(
    config, channels, extents, kernel, stride, padding, border, batch
):
    kernel = tuple(min(size, extent) for size, extent in zip(kernel, extents, strict=True))
    size = Convolution(channels, *extents, 5, kernel, stride, padding, batch=batch)
    rng = np.random.default_rng(0)
    image = rng.integers(-128, 128, (batch, channels, *extents), np.int8)
    weights = rng.integers(-128, 128, (5, channels, *kernel), np.int8)
    expected = sums(image, weights, size, border)
    for packed in packed_inputs(size, border, config):
        windows, wide = packed
        layout = Layout(image.shape, config.block_in, config.batch, windows)
        if windows.pitch:
            wanted = windows_of(layout.pack(image), windows.columns, windows.step, config.block_in)
        else:
            wanted = windows.apply(image, config.block_in)
        assert (wide.out_size, any(wide.padding), wanted.shape) == (size.out_size, False, layout.image)
        np.testing.assert_array_equal(sums(wanted, packed_weights(weights, packed), wide, 0), expected)


@pytest.mark.parametrize(
    ("size", "config", "pixels", "steps"),
    [
        (RESNET, DEFAULT, 49, 10),
        (RESNET, PAIRS, 49, 10),
        (RESNET, WIDE, 49, 5),
        (RESNET, SMALL, 49, 19),
        (RESNET, TINY, 49, 37),
        (MOBILENET, DEFAULT, 9, 2),
        (MOBILENET, WIDE, 9, 1),
        (Convolution(1, 28, 28, 6, (5, 5)), DEFAULT, 25, 2),
        (Convolution(1, 1, 16000, 8, (1, 80), (1, 4)), DEFAULT, 80, 5),
        (Convolution(4, 84, 84, 16, (8, 8), (4, 4)), DEFAULT, 64, 16),
        (PATCHES, DEFAULT, 64, 12),
        (Convolution(24, 20, 20, 64, padding=(1, 1, 1, 1)), DEFAULT, 18, 14),
    ],
)
def test_the_fewest_steps_are_those_of_full_blocks(size, config, pixels, steps):
    assert prod(size.kernel) * blocks(size.channels, config.block_in) == pixels
    assert blocks(prod(size.kernel) * size.channels, config.block_in) == steps
    assert packed_inputs(size, 0, config)[0].costs[0] == steps


def test_the_page_shows_forms_of_the_first_layer_of_resnet():
    page = (Path(__file__).parents[3] / "docs" / "compiler.md").read_text()
    _, _, table = page.partition("| rows | bytes per column |")
    rows = [line.strip("| ") for line in table.partition("\n\n")[0].splitlines()[2:]]
    forms = {
        " | ".join(
            (
                f"{windows.rows} | {windows.column} | {windows.step}{', by GATHER' if windows.pitch else ''}",
                f"{windows.elements}",
                ", ".join(f"{down}x{across}" for down, across in (size.kernel, size.stride, size.dilation)),
                f"{each.costs[0]} | {each.costs[1]:,}",
            )
        )
        for each in packed_inputs(RESNET, 0, DEFAULT)
        for windows, size in [each]
    }
    assert len(rows) == len(set(rows)) > 3
    assert set(rows) <= forms


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("size", [RESNET, MOBILENET, PATCHES])
def test_each_form_costs_less_than_every_other_in_some_respect(size, config):
    forms = packed_inputs(size, 0, config)
    for each in forms:
        layout = Layout((1, size.channels, size.height, size.width), config.block_in, 1, each.windows)
        wide = each.size
        elements = each.windows.elements
        assert each.costs[:2] == (prod(wide.kernel) * elements, layout.size)
        assert each.costs[2] == wide.height * wide.width * elements
        others = (other for other in forms if other is not each)
        assert all(min(np.subtract(each.costs, other.costs)) < 0 for other in others)


@pytest.mark.parametrize(
    ("size", "config", "reason"),
    [
        (Convolution(16, 8, 8, 4), DEFAULT, "blocks are full"),
        (Convolution(4, 8, 8, 4, groups=4), DEFAULT, "groups"),
        (Convolution(3, 16, 16, 4, dilation=(2, 2)), DEFAULT, "dilation"),
    ],
)
def test_what_packing_would_not_help_is_left_alone(size, config, reason):
    assert packed_inputs(size, 0, config) == [], reason


@pytest.mark.parametrize(
    ("size", "config"),
    [
        (RESNET, TINY),
        (RESNET, PAIRS),
        (Convolution(1, 20, 70000, 4, (3, 3)), DEFAULT),
    ],
    ids=["no GATHER", "an element holds two images", "lines are too long"],
)
def test_lines_are_stored_as_windows_where_gather_cannot_read_them(size, config):
    forms = packed_inputs(size, 0, config)
    assert forms
    assert not any(each.windows.pitch for each in forms)
    assert not any(isinstance(each.task(1), GatheredTask) for each in forms)


def cycles(task: Task, target: Target) -> int:
    space = space_of(task, target)
    assert isinstance(space, ChoiceSpace), space
    return simulated_cycles(task, by_simulator(space), target)


@pytest.mark.parametrize(
    ("size", "config"),
    [
        (Convolution(3, 24, 24, 64, (7, 7), (2, 2), (3, 3, 3, 3)), DEFAULT),
        (Convolution(3, 24, 24, 32, (3, 3), (2, 2), (1, 1, 1, 1)), TINY),
        (Convolution(3, 24, 24, 32, (3, 3), (1, 1), (1, 1, 1, 1)), WIDE),
        (Convolution(1, 24, 24, 8, (5, 5)), GATHERING),
        (PATCHES, PAIRS),
    ],
    ids=["7x7", "3x3 stride 2", "3x3", "5x5", "8x8"],
)
def test_the_choice_is_near_the_fastest_form(size, config):
    """By simulation; the estimates that decide are some percent off where the bus bounds."""
    target, pixels = Target(config), ConvolutionTask(size)
    best = best_packed(pixels, target)
    assert best is not None
    taken = cycles(best.task(1), target)
    others = [cycles(each.task(1), target) for each in packed_inputs(size, 0, config)]
    assert taken <= 1.1 * min(others)
    assert taken <= cycles(pixels, target)


def test_with_a_pooling_the_fastest_form_of_the_whole_task_is_chosen():
    """A convolution that stores all its results is bound by the bus, and by its slots if it stores maxima."""
    target, pixels = Target(DEFAULT), ConvolutionTask(replace(MOBILENET, outputs=24))
    pooling = Pooling(24, 112, 112, (3, 3), (2, 2), (1, 1, 1, 1))
    alone, best = best_packed(pixels, target), best_packed(pixels, target, pooling)
    assert alone is not None
    assert best is not None
    taken = {
        each: cycles(PooledTask(each.task(1), pooling), target)
        for each in packed_inputs(pixels.size, 0, DEFAULT)
    }
    assert taken[best] == min(taken.values())
    assert taken[best] < 0.8 * taken[alone]


def test_pixels_stay_where_no_form_takes_fewer_cycles_or_bytes():
    size = Convolution(3, 1, 1, 4, (1, 1))
    assert packed_inputs(size, 0, DEFAULT)
    assert best_packed(ConvolutionTask(size), Target(DEFAULT)) is None


def test_a_gather_is_estimated_by_its_elements_and_its_bytes():
    """Windows near each other take a cycle each; windows far from each other take the beats between them."""
    target, size = Target(DEFAULT), Convolution(16, 64, 128, 16, (1, 1))
    tasks = [GatheredTask(size, step=step, pitch=1 << 12) for step in (1, 8, 32)]
    estimates = [least_estimate(task, target) for task in tasks]
    assert estimates == sorted(estimates)
    assert estimates[2] > 1.5 * estimates[1] > 64 * 128
    for task, estimate in zip(tasks, estimates, strict=True):
        assert 0.9 < estimate / cycles(task, target) < 1.3


# On devices


def check_devices(graph, plan) -> None:
    """Run a plan on both simulators, and in another order, against the graph's meaning."""
    for seed in (0, 1):
        inputs = random_inputs(graph, seed)
        expected = interpret(graph, inputs)
        for device in (
            FunctionalDevice(plan.config, plan.dram_bytes, seed),
            CycleDevice(plan.config, plan.dram_bytes),
        ):
            outputs = Session(device, plan).run(inputs).outputs
            for name, values in expected.items():
                np.testing.assert_array_equal(outputs[name], values)


@pytest.mark.parametrize("shape", [(1, 3, 21, 17), (2, 1, 13, 30), (1, 2, 40, 9)])
@pytest.mark.parametrize(("kernel", "stride"), [((3, 3), 1), ((3, 3), 2), ((7, 5), 2), ((1, 1), 1)])
@pytest.mark.parametrize(
    "config", [GATHERING, TINY, TINY.with_changes(batch=2)], ids=["gather", "load", "pairs"]
)
def test_a_first_layer_reads_windows(shape, kernel, stride, config):
    net = Net()
    x = net.input(*shape)
    y = net.conv(x, 6, kernel, strides=(stride, stride), pads=(2, 1, 0, 3), border=-128)
    graph = net.graph(net.conv(y, 5, (3, 3)))
    plan = plan_of(graph, config)
    check_devices(graph, plan)
    (launch,) = (step for step in plan.steps if isinstance(step, LaunchStep))
    (first,) = (pack for pack in launch.packs if pack.value == x)
    if first.layout.windows is None:
        assert config.batch > 1 or kernel == (1, 1), "steps are fewer, and the bus is not busy"
        return
    (stream,) = plan.streams.values()
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), config)
    assert (isa.Opcode.GATHER in program.opcode.tolist()) == (first.layout.windows.pitch > 0)
    assert launch.layers[0].bytes_read >= first.layout.size - max(first.layout.windows.pitch, 64)


def test_tiles_cut_lines_where_buffers_are_small():
    net = Net()
    graph = net.graph(net.conv(net.input(1, 3, 24, 60), 8, (5, 5), pads=(2, 2, 2, 2)))
    config = GATHERING.with_changes(inp_buffer_bytes=512, acc_buffer_bytes=1024, wgt_buffer_bytes=2048)
    check_devices(graph, plan_of(graph, config))


@pytest.mark.parametrize("config", [GATHERING, TINY])
def test_only_the_host_packs(config):
    net = Net()
    graph = net.graph(net.conv(net.input(1, 3, 12, 12), 4, (3, 3)))
    for packs in (True, False):
        offloaded = offload(graph, graph.nodes[0], Target(config), packs=packs)
        assert isinstance(offloaded, Offloaded)
        assert (offloaded.inputs["X"].layout.windows is not None) == packs
        assert offloaded.macs == 4 * 3 * 9 * 100


def test_the_rtl_reads_windows_in_the_cycles_of_the_simulator():
    from vdla.runtime.devices.rtl.build import Optimise
    from vdla.runtime.devices.rtl.device import RtlDevice

    net = Net()
    graph = net.graph(net.conv(net.input(1, 3, 21, 17), 6, (3, 3), pads=(1, 1, 1, 1), border=5))
    plan, inputs = plan_of(graph, WITH_RTL), random_inputs(graph, 0)
    (launch,) = (step for step in plan.steps if isinstance(step, LaunchStep))
    (image,) = launch.packs
    assert image.layout.windows.rows > 1
    assert image.layout.windows.pitch
    devices = (
        RtlDevice(WITH_RTL, plan.dram_bytes, optimise=Optimise.BUILD),
        CycleDevice(WITH_RTL, plan.dram_bytes),
    )
    rtl, simulated = (Session(device, plan).run(inputs) for device in devices)
    for name, values in interpret(graph, inputs).items():
        np.testing.assert_array_equal(rtl.outputs[name], values)
    assert rtl.cycles == simulated.cycles
    assert [ran.result.counters for ran in rtl.launches] == [
        ran.result.counters for ran in simulated.launches
    ]


def test_an_image_of_one_channel_is_packed_even_where_a_depthwise_convolution_slides():
    net = Net()
    graph = net.graph(net.conv(net.input(1, 1, 12, 40), 1, (3, 2), pads=(0, 1, 1, 0)))
    config = TINY.with_changes(block_in=8, block_out=8, extensions=tuple(Extension))
    for packs, slides in ((False, True), (True, False)):
        offloaded = offload(graph, graph.nodes[0], Target(config), packs=packs)
        assert isinstance(offloaded, Offloaded)
        (piece,) = offloaded.pieces
        assert piece.task.slides == slides
    check_devices(graph, plan_of(graph, config))
