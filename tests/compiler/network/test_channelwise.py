"""Average pooling and factors of channels: with which task, layouts and weights the accelerator runs each."""

import numpy as np
import pytest

from tests.compiler.network.graphs import Net
from tests.compiler.network.test_products import EVERY, PAIRS, WIDE_IN, planned
from vdla.compiler.codegen.blocked_layout import blocked_parameters, blocked_weights
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.mean import MeanTask
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec.presets import TINY
from vdla.runtime.layout import Layout

IMAGE, PLANE = (1, 6, 3, 5), (3, 5)


def shared(size: Convolution, **more) -> ConvolutionTask:
    return ConvolutionTask(size, alike=True, **more)


def test_the_mean_of_planes_is_a_program_of_its_own():
    net = Net()
    found = planned(net, net.average(net.input(*IMAGE), PLANE))
    assert [piece.task for piece in found.pieces] == [MeanTask(2, 15)]
    assert (found.macs, found.output[1]) == (6 * 15, Layout((1, 6, 1, 1), 4, 1))
    words = net.constants[found.node.inputs[1]]
    np.testing.assert_array_equal(found.constants["P"], blocked_parameters(words.repeat(4, 1), EVERY))
    np.testing.assert_array_equal(found.constants["W"], np.eye(4, dtype=np.int8)[None])


@pytest.mark.parametrize(
    ("shape", "window", "config", "task"),
    [
        ((2, 6, 3, 5), {}, EVERY, shared(Convolution(6, 3, 5, 6, PLANE, groups=6, batch=2))),
        ((1, 6, 4, 5), {}, EVERY, shared(Convolution(6, 4, 5, 6, PLANE, groups=6))),
        ((1, 6, 3, 6), {}, EVERY, shared(Convolution(6, 3, 6, 6, PLANE, groups=6))),
        (
            IMAGE,
            {"pads": (0, 1, 0, 0), "border": -128},
            EVERY,
            shared(Convolution(6, 3, 5, 6, PLANE, padding=(0, 1, 0, 0), groups=6), border=-128),
        ),
        (
            (1, 6, 8, 9),
            {"strides": (2, 3)},
            EVERY,
            shared(Convolution(6, 8, 9, 6, PLANE, (2, 3), groups=6)),
        ),
        (IMAGE, {}, PAIRS, shared(Convolution(6, 3, 5, 6, PLANE, groups=6))),
        (IMAGE, {}, WIDE_IN, ConvolutionTask(Convolution(6, 3, 5, 6, PLANE, groups=6), writes=2)),
    ],
)
def test_other_windows_are_depthwise_convolutions_with_one_block_of_weights(shape, window, config, task):
    net = Net()
    found = planned(net, net.average(net.input(*shape), PLANE, **window), config)
    assert [piece.task for piece in found.pieces] == [task]
    assert found.macs == task.size.macs
    if task.alike:
        np.testing.assert_array_equal(found.constants["W"], np.eye(4, dtype=np.int8)[(None,) * 5])
    else:
        ones = np.ones((6, 1, *PLANE), np.int8)
        np.testing.assert_array_equal(found.constants["W"], blocked_weights(ones, task.size, config))


@pytest.mark.parametrize("factors", [[-3], [127], [3, 0, -5], [1, 1, 1]])
@pytest.mark.parametrize(
    ("shape", "axis", "size", "stack"),
    [
        ((5, 3), -1, Convolution(3, 5, 1, 3, (1, 1), groups=3), 0),
        ((5, 3), 1, Convolution(3, 5, 1, 3, (1, 1), groups=3), 0),
        ((2, 4, 3), 2, Convolution(3, 8, 1, 3, (1, 1), groups=3), 0),
        ((1, 2, 4, 3), -1, Convolution(3, 8, 1, 3, (1, 1), groups=3), 1),
        ((2, 3, 4, 5), 1, Convolution(3, 4, 5, 3, (1, 1), groups=3, batch=2), 0),
    ],
)
def test_factors_of_channels_are_a_depthwise_convolution(factors, shape, axis, size, stack):
    net = Net()
    y = net.scale(net.input(*shape), axis, np.array(factors, np.int8))
    found = planned(net, y, TINY)
    is_shared = len(factors) == 1
    assert [piece.task for piece in found.pieces] == [ConvolutionTask(size, alike=is_shared)]
    assert found.macs == np.prod(shape)
    assert found.inputs["X"][1] == Layout(shape, 4, 1, stack=stack) == found.output[1]
    weights = np.array(factors, np.int8)[:, None, None, None]
    expected = (
        (np.eye(4, dtype=np.int8) * np.int8(factors[0]))[(None,) * 5]
        if is_shared
        else blocked_weights(weights, size, TINY)
    )
    np.testing.assert_array_equal(found.constants["W"], expected)
