"""Tasks, layouts and weights of convolutions and matrix products.

Windows of packed pixels keep what a convolution means, on every device, and are taken only where they save.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net, random_inputs
from tests.compiler.network.test_offload import sums
from vdla.compiler.codegen.blocked_layout import blocked_parameters, blocked_weights
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.network.offload import offload
from vdla.compiler.network.placed import Offloaded
from vdla.compiler.network.products import saves, window_taps, windowed_size, windowed_weights, windows_of
from vdla.compiler.tasks.convolution import ConvolutionTask, TransposedTask
from vdla.compiler.te.operators.convolution import window_weights
from vdla.compiler.te.operators.sizes import Convolution, Transposed
from vdla.hw.spec import isa
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.layout import Layout
from vdla.runtime.module.plan import LaunchStep
from vdla.runtime.session.session import Session
from vdla.sim.decoded import decode_stream

EVERY = TINY.with_changes(extensions=tuple(Extension))
WIDE_IN, WIDE_OUT = EVERY.with_changes(block_in=8), EVERY.with_changes(block_out=8)
PAIRS = EVERY.with_changes(batch=2)


def planned(net: Net, y: str, config=EVERY, *, gathers: bool = False) -> Offloaded:
    """Return how the last operator is carried out."""
    graph = net.graph(y)
    offloaded = offload(graph, graph.nodes[-1], Target(config), gathers=gathers)
    assert isinstance(offloaded, Offloaded), offloaded
    return offloaded


def bordered(net: Net) -> str:
    how = {"strides": (2, 1), "pads": (1, 0, 2, 1), "dilations": (1, 2), "group": 2, "border": -128}
    return net.conv(net.input(2, 6, 9, 7), 10, (3, 2), **how)


SIZE = Convolution(6, 9, 7, 10, (3, 2), (2, 1), (1, 0, 2, 1), (1, 2), 2, 2)


@pytest.mark.parametrize(
    ("config", "gathers", "blocks", "reads", "writes"),
    [
        (TINY, False, (4, 4), 1, 1),
        (TINY, True, (4, 4), 1, 1),
        (WIDE_IN, False, (8, 8), 1, 2),
        (WIDE_OUT, False, (8, 8), 2, 1),
        (WIDE_OUT, True, (4, 8), 1, 1),
        (PAIRS, False, (4, 4), 1, 1),
        (PAIRS.with_changes(block_in=8), False, (8, 4), 1, 1),
        (PAIRS.with_changes(block_out=8), False, (4, 8), 1, 1),
    ],
)
def test_a_convolution_reads_and_makes_blocks_of_its_configuration(config, gathers, blocks, reads, writes):
    net = Net()
    y = bordered(net)
    offloaded = planned(net, y, config, gathers=gathers)
    (piece,) = offloaded.pieces
    assert piece.task == ConvolutionTask(SIZE, border=-128, reads=reads, writes=writes)
    assert offloaded.inputs == {"X": ("x0", Layout((2, 6, 9, 7), blocks[0], config.batch))}
    assert offloaded.output == (y, Layout((2, 10, 5, 6), blocks[1], config.batch))
    assert offloaded.macs == 2 * 10 * 5 * 6 * 3 * 3 * 2
    weights, words = (net.constants[name] for name in offloaded.node.inputs[1:])
    assert sorted(offloaded.constants) == ["P", "W"]
    np.testing.assert_array_equal(offloaded.constants["W"], blocked_weights(weights, SIZE, config))
    np.testing.assert_array_equal(offloaded.constants["P"], blocked_parameters(words, config))


def test_a_depthwise_convolution_slides_over_whole_windows():
    net = Net()
    y = net.conv(net.input(1, 6, 7, 9), 6, (3, 5), pads=(1, 2, 0, 1), group=6, border=-128)
    config = EVERY.with_changes(block_in=8, block_out=8)
    offloaded = planned(net, y, config)
    wide = Convolution(6, 7, 9, 6, (3, 6), padding=(1, 2, 0, 2), groups=6)
    (piece,) = offloaded.pieces
    assert piece.task == ConvolutionTask(wide, border=-128, slides=True)
    assert offloaded.macs == 6 * 6 * 8 * 15
    weights = net.constants[offloaded.node.inputs[1]]
    np.testing.assert_array_equal(offloaded.constants["W"], window_weights(weights, wide, config))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("length", "taps", "step", "dilation", "pads", "reached"),
    [
        (1, 2, 4, 1, (2, 0), False),
        (1, 2, 4, 1, (1, 1), True),
        (2, 2, 1, 3, (2, 0), True),
        (2, 2, 1, 4, (2, 1), False),
        (3, 2, 1, 4, (2, 0), True),
        (1, 1, 3, 1, (2, 2), False),
        (1, 1, 2, 1, (2, 2), True),
        (1, 1, 1, 1, (1, 0), True),
    ],
)
def test_a_kernel_reaches_the_image_somewhere(axis, length, taps, step, dilation, pads, reached):
    """Along rows and along columns."""

    def pair(own: int, other: int) -> tuple[int, int]:
        return (own, other) if axis == 0 else (other, own)

    net = Net()
    y = net.conv(
        net.input(1, 4, *pair(length, 3)),
        4,
        pair(taps, 1),
        strides=pair(step, 1),
        dilations=pair(dilation, 1),
        pads=(*pair(pads[0], 0), *pair(pads[1], 0)),
    )
    graph = net.graph(y)
    offloaded = offload(graph, graph.nodes[-1], Target(TINY))
    reason = (
        "Int8Conv with a kernel that reads padding alone; the accelerator takes kernels that reach the image"
    )
    assert isinstance(offloaded, Offloaded) if reached else offloaded.reason == reason


def test_a_transposed_convolution():
    net = Net()
    how = {"strides": (2, 3), "pads": (1, 0, 1, 2), "output_padding": (1, 0)}
    y = net.spread(net.input(2, 5, 4, 6), 3, (3, 8), **how)
    offloaded = planned(net, y, WIDE_IN)
    size = Transposed(5, 4, 6, 3, (3, 8), (2, 3), (1, 0, 1, 2), (1, 0), 2)
    assert [piece.task for piece in offloaded.pieces] == [TransposedTask(size, writes=2)]
    assert offloaded.output == (y, Layout((2, 3, 8, 21), 8, 1))
    assert offloaded.macs == 2 * 5 * 3 * 4 * 6 * 3 * 8


@pytest.mark.parametrize(
    ("shape", "config", "rows", "batch", "stack"),
    [
        ((6, 7), EVERY, 6, 1, 0),
        ((7,), EVERY, 1, 1, 0),
        ((2, 3, 7), EVERY, 6, 1, 0),
        ((2, 3, 7), PAIRS, 3, 2, 0),
        ((5, 7), PAIRS, 3, 2, 0),
        ((2, 1, 3, 7), EVERY, 6, 1, 1),
    ],
)
def test_a_product_of_matrices_is_a_convolution_of_its_rows(shape, config, rows, batch, stack):
    net = Net()
    y = net.matmul(net.input(*shape), 9)
    offloaded = planned(net, y, config)
    assert [piece.task for piece in offloaded.pieces] == [
        ConvolutionTask(Convolution(7, rows, 1, 9, (1, 1), batch=batch))
    ]
    assert offloaded.inputs == {"X": ("x0", Layout(shape, 4, config.batch, stack=stack))}
    assert offloaded.output == (y, Layout((*shape[:-1], 9), 4, config.batch, stack=stack))
    assert offloaded.macs == int(np.prod(shape)) * 9


def test_rows_of_four_dimensions_are_no_pairs():
    net = Net()
    graph = net.graph(net.matmul(net.input(2, 1, 3, 7), 9))
    assert offload(graph, graph.nodes[-1], Target(PAIRS)).reason == (
        "Int8MatMul with an operand of 4 dimensions and batch = 2; "
        "the accelerator takes rows of any number of dimensions but 4, or a batch of 1"
    )


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
