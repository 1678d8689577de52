"""Windows of packed pixels keep what a convolution means, on every device, and are taken only where they save."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net, random_inputs
from tests.compiler.network.test_offload import sums
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.network.gathering import saves, window_taps, windowed_size, windowed_weights, windows_of
from vdla.compiler.network.offload import offload
from vdla.compiler.network.placed import Offloaded
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec import isa
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.plan import LaunchStep
from vdla.runtime.session.session import Session
from vdla.sim.decoded import decode_stream

GATHERING = TINY.with_changes(
    name="gathering", block_in=8, block_out=8, extensions=(*TINY.extensions, Extension.GATHER)
)
SIDE = st.tuples(st.integers(4, 15), st.integers(4, 15))


def windows_in(packed: np.ndarray, windows, block: int) -> np.ndarray:
    """Return int8[n, block, rows, columns]: the windows of packed rows."""
    places = np.arange(windows.columns)[None] * windows.step + np.arange(block)[:, None]
    return packed[:, :, places].transpose(0, 2, 1, 3)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 6),
    SIDE,
    st.tuples(st.integers(1, 7), st.integers(1, 7)),
    st.tuples(*[st.integers(1, 4)] * 2),
    st.tuples(*[st.integers(0, 3)] * 4),
    st.sampled_from([0, -128, 3]),
    st.integers(1, 2),
)
def test_a_convolution_of_windows_is_the_same(channels, extents, kernel, stride, padding, border, batch):
    kernel = tuple(min(size, extent) for size, extent in zip(kernel, extents, strict=True))
    size = Convolution(channels, *extents, 5, kernel, stride, padding, batch=batch)
    windows = windows_of(size, border, DEFAULT)
    if windows is None:
        assert window_taps(size, DEFAULT) > 1
        assert channels * stride[1] > DEFAULT.block_in
        return
    rng = np.random.default_rng(0)
    image = rng.integers(-128, 128, (batch, channels, *extents), np.int8)
    weights = rng.integers(-128, 128, (5, channels, *kernel), np.int8)
    wide = windowed_size(size, windows, DEFAULT)
    assert (wide.out_size, any(wide.padding)) == (size.out_size, False)
    found = sums(
        windows_in(windows.pack(image), windows, DEFAULT.block_in),
        windowed_weights(weights, windows, wide),
        wide,
        0,
    )
    np.testing.assert_array_equal(found, sums(image, weights, size, border))


@pytest.mark.parametrize(
    ("size", "config", "steps"),
    [
        (Convolution(3, 224, 224, 64, (7, 7), (2, 2), (3, 3, 3, 3)), DEFAULT, 14),
        (Convolution(3, 224, 224, 32, (3, 3), (2, 2), (1, 1, 1, 1)), DEFAULT, 3),
        (Convolution(3, 32, 32, 16, (3, 3), (1, 1), (1, 1, 1, 1)), DEFAULT, 3),
        (Convolution(1, 28, 28, 6, (5, 5)), GATHERING, 5),
    ],
)
def test_windows_save_steps(size, config, steps):
    windows = windows_of(size, 0, config)
    wide = windowed_size(size, windows, config)
    assert wide.kernel[0] * wide.kernel[1] == steps
    assert saves(windows, size, size, config)


@pytest.mark.parametrize(
    ("size", "config", "reason"),
    [
        (Convolution(3, 8, 8, 4), TINY, "there is no GATHER"),
        (Convolution(3, 8, 8, 4), DEFAULT.with_changes(batch=2), "an element holds two images"),
        (Convolution(4, 8, 8, 4, groups=4), DEFAULT, "groups"),
        (Convolution(3, 16, 16, 4, dilation=(2, 2)), DEFAULT, "dilation"),
        (Convolution(3, 64, 64, 4, (16, 16), (16, 16)), DEFAULT, "windows leave gaps in a kernel's row"),
        (Convolution(1, 20, 70000, 4, (3, 3)), DEFAULT, "rows are too long"),
        (Convolution(3, 4, 400, 4, (4, 4), (1, 90)), DEFAULT, "steps are too long"),
    ],
)
def test_what_cannot_be_read_in_windows_is_left_alone(size, config, reason):
    assert windows_of(size, 0, config) is None, reason


def test_full_blocks_are_left_alone():
    size = Convolution(16, 8, 8, 4, (3, 3), (1, 1), (1, 1, 1, 1))
    assert not saves(windows_of(size, 0, DEFAULT), size, size, DEFAULT)


@pytest.mark.parametrize(("config", "packed"), [(GATHERING, True), (TINY, False)])
def test_the_choice_follows_the_configuration(config, packed):
    net = Net()
    graph = net.graph(net.conv(net.input(1, 3, 12, 12), 4))
    made = offload(graph, graph.nodes[0], Target(config), gathers=True)
    assert isinstance(made, Offloaded)
    assert (made.inputs["X"][1].windows is not None) == packed


def check_devices(graph, plan) -> None:
    """Run a plan on both simulators, and in another order, against the graph's meaning."""
    for seed in (0, 1):
        inputs = random_inputs(graph, seed)
        expected = interpret(graph, inputs)
        for device in (
            FunctionalDevice(plan.config, plan.dram_bytes, seed),
            CycleDevice(plan.config, plan.dram_bytes),
        ):
            found = Session(device, plan).run(inputs).outputs
            for name, values in expected.items():
                np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("shape", [(1, 3, 21, 17), (2, 1, 13, 30), (1, 2, 40, 9)])
@pytest.mark.parametrize(("kernel", "stride"), [((3, 3), 1), ((3, 3), 2), ((7, 5), 1), ((1, 1), 1)])
def test_a_first_layer_is_read_in_windows(shape, kernel, stride):
    net = Net()
    x = net.input(*shape)
    y = net.conv(x, 6, kernel, strides=(stride, stride), pads=(2, 1, 0, 3), border=-128)
    graph = net.graph(net.conv(y, 5, (3, 3)))
    plan = plan_of(graph, GATHERING)
    check_devices(graph, plan)
    (stream,) = plan.streams.values()
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), GATHERING)
    assert isa.Opcode.GATHER in program.opcode.tolist()
    (launch,) = (step for step in plan.steps if isinstance(step, LaunchStep))
    (first,) = (one for one in launch.packs if one.value == x)
    assert first.layout.windows is not None
    assert launch.layers[0].bytes_read >= first.layout.size - first.layout.windows.pitch


def test_tiles_cut_rows_where_buffers_are_small():
    net = Net()
    graph = net.graph(net.conv(net.input(1, 3, 24, 60), 8, (5, 5), pads=(2, 2, 2, 2)))
    config = GATHERING.with_changes(inp_buffer_bytes=512, acc_buffer_bytes=1024, wgt_buffer_bytes=2048)
    check_devices(graph, plan_of(graph, config))
