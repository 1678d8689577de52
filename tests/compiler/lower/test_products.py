"""Tasks, layouts and weights of convolutions and matrix products."""

import numpy as np
import pytest

from tests.compiler.network.graphs import Net
from vdla.compiler.network.offload import offload
from vdla.compiler.network.placed import Offloaded
from vdla.compiler.tasks.convolution import ConvolutionTask, TransposedTask
from vdla.compiler.te.operators.convolution import blocked_weights, window_weights
from vdla.compiler.te.operators.narrowing import blocked_parameters
from vdla.compiler.te.operators.sizes import Convolution, Transposed
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.layout import Layout

EVERY = TINY.with_changes(extensions=tuple(Extension))
WIDE_IN, WIDE_OUT = EVERY.with_changes(block_in=8), EVERY.with_changes(block_out=8)
PAIRS = EVERY.with_changes(batch=2)


def planned(net: Net, y: str, config=EVERY, *, packs: bool = False) -> Offloaded:
    """Return how the last operator is carried out."""
    graph = net.graph(y)
    offloaded = offload(graph, graph.nodes[-1], Target(config), packs=packs)
    assert isinstance(offloaded, Offloaded), offloaded
    return offloaded


def bordered(net: Net) -> str:
    how = {"strides": (2, 1), "pads": (1, 0, 2, 1), "dilations": (1, 2), "group": 2, "border": -128}
    return net.conv(net.input(2, 6, 9, 7), 10, (3, 2), **how)


SIZE = Convolution(6, 9, 7, 10, (3, 2), (2, 1), (1, 0, 2, 1), (1, 2), 2, 2)


@pytest.mark.parametrize(
    ("config", "packs", "blocks", "reads", "writes"),
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
def test_a_convolution_reads_and_makes_blocks_of_its_configuration(config, packs, blocks, reads, writes):
    net = Net()
    y = bordered(net)
    offloaded = planned(net, y, config, packs=packs)
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
    wide = Convolution(6, 7, 9, 6, (3, 5), padding=(1, 2, 0, 1), groups=6)
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

    def pair(along: int, across: int) -> tuple[int, int]:
        return (along, across) if axis == 0 else (across, along)

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
    reason = "Int8Conv with a kernel that reads padding alone; the accelerator takes kernels that read at least one pixel of the image"
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
