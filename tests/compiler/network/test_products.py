"""Convolutions and products of matrices: with which task, layouts and weights the accelerator carries each out."""

import numpy as np
import pytest

from tests.compiler.network.graphs import Net
from vdla.compiler.codegen.packing import blocked_parameters, blocked_weights
from vdla.compiler.network.maker import Offloaded
from vdla.compiler.network.offload import offload
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.convolution import ConvolutionTask, TransposedTask
from vdla.compiler.tasks.mean import MeanTask
from vdla.compiler.te.operators.sizes import Convolution, Transposed
from vdla.compiler.te.operators.windows import window_weights
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.layout import Layout
from vdla.runtime.requantise import parameter_words

EVERY = TINY.with_changes(extensions=tuple(Extension))
WIDE_IN, WIDE_OUT = EVERY.with_changes(block_in=8), EVERY.with_changes(block_out=8)
PAIRS = EVERY.with_changes(batch=2)


def planned(net: Net, y: str, config=EVERY, *, gathers: bool = False) -> Offloaded:
    """Return how the last operator is carried out."""
    graph = net.graph(y)
    found = offload(graph, graph.nodes[-1], Target(config), gathers=gathers)
    assert isinstance(found, Offloaded), found
    return found


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
    found = planned(net, y, config, gathers=gathers)
    (piece,) = found.pieces
    assert piece.task == ConvolutionTask(SIZE, border=-128, reads=reads, writes=writes)
    assert found.inputs == {"X": ("x0", Layout((2, 6, 9, 7), blocks[0], config.batch))}
    assert found.output == (y, Layout((2, 10, 5, 6), blocks[1], config.batch))
    assert found.macs == 2 * 10 * 5 * 6 * 3 * 3 * 2
    weights, words = (net.constants[name] for name in found.node.inputs[1:])
    assert sorted(found.constants) == ["P", "W"]
    np.testing.assert_array_equal(found.constants["W"], blocked_weights(weights, SIZE, config))
    np.testing.assert_array_equal(found.constants["P"], blocked_parameters(words, config))


def of_ones(net: Net, shape: tuple[int, ...], kernel: tuple[int, int], **how) -> str:
    """Return the sums of windows of each channel, requantised alike."""
    channels, values = how.pop("channels", shape[1]), how.pop("values", 1)
    words = parameter_words(*(np.array([number] * channels) for number in (7, 30_000, 18, 2, -90, 110)))
    words[0, -1] += how.pop("bias", 0)
    weights = np.ones((channels, shape[1] // how.get("group", shape[1]), *kernel), np.int8)
    weights.flat[-1] = values
    usual = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "border": 0, "group": shape[1]}
    return net.op("Int8Conv", (net.input(*shape), net.constant(weights), net.constant(words)), **usual | how)


MEAN = {"shape": (1, 6, 3, 5), "kernel": (3, 5)}


def test_the_mean_of_planes():
    net = Net()
    y = of_ones(net, **MEAN)
    found = planned(net, y)
    assert [piece.task for piece in found.pieces] == [MeanTask(2, 15)]
    assert (found.macs, found.output[1]) == (6 * 15, Layout((1, 6, 1, 1), 4, 1))
    words = net.constants[found.node.inputs[2]][:, :1]
    np.testing.assert_array_equal(found.constants["P"], blocked_parameters(words.repeat(4, 1), EVERY))
    np.testing.assert_array_equal(found.constants["W"], np.eye(4, dtype=np.int8)[None])


def alike(size: Convolution, **more) -> ConvolutionTask:
    return ConvolutionTask(size, alike=True, **more)


@pytest.mark.parametrize(
    ("changed", "config", "task"),
    [
        ({"shape": (2, 6, 3, 5)}, EVERY, alike(Convolution(6, 3, 5, 6, (3, 5), groups=6, batch=2))),
        ({"shape": (1, 6, 4, 5)}, EVERY, alike(Convolution(6, 4, 5, 6, (3, 5), groups=6))),
        ({"shape": (1, 6, 3, 6)}, EVERY, alike(Convolution(6, 3, 6, 6, (3, 5), groups=6))),
        (
            {"pads": (0, 1, 0, 0), "border": -128},
            EVERY,
            alike(Convolution(6, 3, 5, 6, (3, 5), padding=(0, 1, 0, 0), groups=6), border=-128),
        ),
        ({"bias": 1}, EVERY, alike(Convolution(6, 3, 5, 6, (3, 5), groups=6))),
        ({"values": 2}, EVERY, ConvolutionTask(Convolution(6, 3, 5, 6, (3, 5), groups=6))),
        ({"group": 3}, EVERY, ConvolutionTask(Convolution(6, 3, 5, 6, (3, 5), groups=3))),
        ({"channels": 12}, EVERY, ConvolutionTask(Convolution(6, 3, 5, 12, (3, 5), groups=6))),
        ({}, EVERY.with_changes(batch=2), alike(Convolution(6, 3, 5, 6, (3, 5), groups=6))),
        (
            {},
            EVERY.with_changes(block_in=8),
            ConvolutionTask(Convolution(6, 3, 5, 6, (3, 5), groups=6), writes=2),
        ),
    ],
)
def test_other_sums_are_no_means(changed, config, task):
    """Nor are they sums by the unit matrix where weights differ, or blocks, or channels are mixed."""
    net = Net()
    found = planned(net, of_ones(net, **MEAN | changed), config)
    assert [piece.task for piece in found.pieces] == [task]
    assert found.macs == task.size.macs
    if task.alike:
        np.testing.assert_array_equal(found.constants["W"], np.eye(4, dtype=np.int8)[(None,) * 5])


def test_a_depthwise_convolution_slides_over_whole_windows():
    net = Net()
    y = net.conv(net.input(1, 6, 7, 9), 6, (3, 5), pads=(1, 2, 0, 1), group=6, border=-128)
    config = EVERY.with_changes(block_in=8, block_out=8)
    found = planned(net, y, config)
    wide = Convolution(6, 7, 9, 6, (3, 6), padding=(1, 2, 0, 2), groups=6)
    (piece,) = found.pieces
    assert piece.task == ConvolutionTask(wide, border=-128, slides=True)
    assert found.macs == 6 * 6 * 8 * 15
    weights = net.constants[found.node.inputs[1]]
    np.testing.assert_array_equal(found.constants["W"], window_weights(weights, wide, config))


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
    found = offload(graph, graph.nodes[-1], Target(TINY))
    reason = (
        "Int8Conv with a kernel that reads padding alone; the accelerator takes kernels that reach the image"
    )
    assert isinstance(found, Offloaded) if reached else found == Unfit(reason)


def test_a_transposed_convolution():
    net = Net()
    how = {"strides": (2, 3), "pads": (1, 0, 1, 2), "output_padding": (1, 0)}
    y = net.spread(net.input(2, 5, 4, 6), 3, (3, 8), **how)
    found = planned(net, y, WIDE_IN)
    size = Transposed(5, 4, 6, 3, (3, 8), (2, 3), (1, 0, 1, 2), (1, 0), 2)
    assert [piece.task for piece in found.pieces] == [TransposedTask(size, writes=2)]
    assert found.output == (y, Layout((2, 3, 8, 21), 8, 1))
    assert found.macs == 2 * 5 * 3 * 4 * 6 * 3 * 8


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
    found = planned(net, y, config)
    assert [piece.task for piece in found.pieces] == [
        ConvolutionTask(Convolution(7, rows, 1, 9, (1, 1), batch=batch))
    ]
    assert found.inputs == {"X": ("x0", Layout(shape, 4, config.batch, stack=stack))}
    assert found.output == (y, Layout((*shape[:-1], 9), 4, config.batch, stack=stack))
    assert found.macs == int(np.prod(shape)) * 9


def test_rows_of_four_dimensions_are_no_pairs():
    net = Net()
    graph = net.graph(net.matmul(net.input(2, 1, 3, 7), 9))
    assert offload(graph, graph.nodes[-1], Target(PAIRS)) == Unfit(
        "Int8MatMul with an operand of 4 dimensions and batch = 2; "
        "the accelerator takes rows of any number of dimensions but 4, or a batch of 1"
    )


@pytest.mark.parametrize(
    ("weights", "groups", "is_alike"),
    [
        (np.diag([3, 0, -5]), 3, False),
        (np.diag([1, 1, 1]), 3, True),
        (np.diag([1, 1, 2]), 3, False),
        (np.array([[1, 0, 0], [0, 1, 0], [0, 1, 1]]), 1, False),
        (np.eye(3)[:, :2], 1, False),
        (np.array([[4]]), 1, False),
    ],
)
def test_a_product_with_a_diagonal_matrix_is_depthwise(weights, groups, is_alike):
    net = Net()
    inputs, outputs = weights.shape
    operands = net.input(5, inputs), net.constant(weights.astype(np.int8)), net.words(outputs, 900.0)
    found = planned(net, net.op("Int8MatMul", operands))
    size = Convolution(inputs, 5, 1, outputs, (1, 1), groups=groups)
    assert [piece.task for piece in found.pieces] == [ConvolutionTask(size, alike=is_alike)]
    assert found.macs == 5 * inputs * outputs // groups
