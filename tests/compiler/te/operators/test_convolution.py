"""Convolutions by phases and over windows: sizes, weights, what has none, and the meaning of a convolution."""

import numpy as np
import pytest
from generators.expected import convolved

from vdla.compiler.ir.interpret import interpret
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.te.operators.convolution import (
    conv2d_transposed,
    conv2d_windows,
    phase_convolution,
    phase_weights,
    phases_by_side,
    prefers_windows,
    sides_fault,
    window_weights,
    with_whole_windows,
)
from vdla.compiler.te.operators.narrowing import Scale, Shift
from vdla.compiler.te.operators.sizes import Convolution, Pooling, Transposed
from vdla.compiler.te.schedule import create_schedule
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.layout import blocked, unblocked

UNEQUAL = Transposed(5, 4, 6, 3, (3, 8), (2, 3), (1, 0, 1, 2), (1, 0), 2)


def test_a_phase_is_a_convolution_of_the_bordered_input():
    """Its tiles are chosen as for a convolution of as many rows and columns, without a slope."""
    rows, columns = phases_by_side(UNEQUAL)
    assert UNEQUAL.out_size == (8, 21)
    assert ((rows.size, rows.taps), (columns.size, columns.taps)) == ((4, 2), (7, 3))
    assert phase_convolution(UNEQUAL) == Convolution(5, 5, 9, 3, (2, 3), batch=2)
    assert phase_convolution(UNEQUAL).out_size == (4, 7)


@pytest.mark.parametrize(
    ("size", "fault"),
    [
        (UNEQUAL, ""),
        (
            Transposed(5, 4, 6, 3, (3, 8), (2, 3), (1, 0, 0, 2)),
            "",
        ),
        (
            Transposed(5, 4, 6, 3, (3, 8), (2, 3), (1, 0, 1, 2)),
            "a result of 7 with stride 2 and padding 1, which has no uniform phases",
        ),
        (
            Transposed(5, 4, 6, 3, (3, 8), (2, 3), (1, 1, 0, 1)),
            "a result of 21 with stride 3 and padding 1, which has no uniform phases",
        ),
        (
            Transposed(5, 4, 6, 3, (2, 3), (2, 3), (0, 3, 0, 0)),
            "padding 3, which cuts off whole elements of the input",
        ),
    ],
)
def test_rows_and_columns_have_phases_of_one_form(size, fault):
    assert sides_fault(size) == fault
    if fault:
        with pytest.raises(IrError, match=fault):
            phases_by_side(size)


def test_weights_stand_phase_by_phase_and_zeros_fill_up():
    config = TINY.with_changes(block_in=2, block_out=4)
    size = Transposed(3, 4, 4, 5, (3, 5), (2, 3), (1, 0, 0, 2))
    weights = np.arange(1, 3 * 5 * 3 * 5 + 1).reshape(3, 5, 3, 5) % 127 + 1
    packed = phase_weights(weights.astype(np.int8), size, config)
    rows, columns = phases_by_side(size)
    assert packed.shape == (2, 2, 2, 3, 2, 2, 4, 2)
    expected = np.zeros((8, 4, 2, 3, 2, 2), np.int8)
    for o, c, fy, fx, dy, dx in np.ndindex(5, 3, 2, 3, 2, 2):
        ky, kx = rows.tap(fy, dy, 1), columns.tap(fx, dx, 0)
        expected[o, c, fy, fx, dy, dx] = weights[c, o, ky, kx] if ky < 3 and kx < 5 else 0
    blocks = expected.reshape(2, 4, 2, 2, 2, 3, 2, 2)
    for place in np.ndindex(packed.shape):
        o, c, fy, fx, dy, dx, j, k = place
        assert packed[place] == blocks[o, j, c, k, fy, fx, dy, dx]
    assert sorted(packed[packed != 0]) == sorted(weights.reshape(-1))


def test_operands_and_results_stand_in_blocks_phase_by_phase():
    """Of 2 images of 5 channels: 2 results of 4 rows and 3 of 7 columns for each; the kernel has 2 x 3 taps."""
    config = TINY.with_changes(block_in=2, block_out=4)
    operator = conv2d_transposed(UNEQUAL, config, Scale())
    assert (operator.inp.name, operator.inp.shape) == ("X", (2, 3, 4, 6, 1, 2))
    assert (operator.wgt.name, operator.wgt.shape) == ("W", (1, 3, 2, 3, 2, 3, 4, 2))
    assert operator.padded.shape == (2, 3, 4 + 2, 6 + 3, 1, 2)
    assert operator.total.shape == (2, 2, 3, 1, 4, 7, 1, 4)
    assert operator.narrowed.parameters.shape == (1, 4, 1, 4)
    assert operator.out.shape == (2, 1, 4, 2, 7, 3, 1, 4)
    assert operator.outer == ("n", "fy", "fx")
    assert [axis.name for axis in operator.out.axes] == ["n", "o", "y", "fy", "x", "fx", "b", "j"]


SLIDING = TINY.with_changes(block_in=8, block_out=8, extensions=(Extension.DEPTHWISE,))


def depthwise(
    channels=10, kernel=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1), width=6, **changed
) -> Convolution:
    return Convolution(channels, 5, width, channels, kernel, stride, padding, groups=channels, **changed)


@pytest.mark.parametrize(
    ("size", "config", "does"),
    [
        (depthwise(), SLIDING, True),
        (depthwise(kernel=(1, 5), stride=(3, 2), dilation=(2, 1)), SLIDING, True),
        (depthwise(kernel=(1, 2)), SLIDING, True),  # 8 slots for a row of 6 sums instead of 12
        (depthwise(kernel=(1, 2), stride=(1, 2)), SLIDING, False),  # 7 slots instead of 6
        (depthwise(kernel=(3, 3), padding=(1, 0, 1, 0), width=3), SLIDING, True),
        (depthwise(), DEFAULT, True),
        (depthwise(), SMALL, False),  # has no DEPTHWISE
        (depthwise(), DEFAULT.with_changes(block_out=8), False),
        (depthwise(kernel=(3, 1)), SLIDING, False),
        (depthwise(stride=(1, 3)), SLIDING, False),
        (depthwise(dilation=(1, 2)), SLIDING, False),
        (Convolution(10, 5, 6, 20, groups=10), SLIDING, False),
        (Convolution(10, 5, 6, 10, groups=5), SLIDING, False),
    ],
)
def test_kernels_slide_that_stand_together_in_columns_one_or_two_apart(size, config, does):
    assert prefers_windows(size, config) is does


@pytest.mark.parametrize("width", range(2, 8))
def test_kernels_become_whole_windows_and_results_stay_as_large(width):
    size = depthwise(kernel=(3, width), padding=(1, 1, 1, 2))
    wide = with_whole_windows(size, SLIDING)
    covered = {2: 3, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7}[width]  # windows may overlap
    assert wide.kernel == (3, covered)
    assert wide.out_size == size.out_size


@pytest.mark.parametrize("border", [0, -128])
@pytest.mark.parametrize("kernel", [(3, 3), (2, 2), (1, 5)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (1, 2)])
def test_sums_over_windows_are_those_of_the_convolution(kernel, stride, border):
    rng, size = np.random.default_rng(0), depthwise(kernel=kernel, stride=stride, batch=1)
    inp = rng.integers(-128, 128, (1, size.channels, size.height, size.width), np.int8)
    weights = rng.integers(-128, 128, (size.channels, 1, *kernel), np.int8)
    wide = with_whole_windows(size, SLIDING)
    operator = conv2d_windows(wide, SLIDING, Shift(9), border=border)
    out = np.zeros(operator.out.shape, np.int8)
    given = {"X": blocked(inp, 8, 1), "W": window_weights(weights, wide, SLIDING), "Z": out}
    shaped = {
        tensor.name: given[tensor.name].reshape(tensor.shape) for tensor in (operator.inp, operator.wgt)
    }
    interpret(create_schedule(operator.out).lower(), shaped | {"Z": out})
    expected = np.clip((convolved(inp, weights, size, border) + 256) >> 9, -128, 127)
    np.testing.assert_array_equal(unblocked(out[:, :, 0], 1, size.channels), expected)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Convolution(3, 4, 5, 8, stride=(0, 1)),
            r"kernel = \(3, 3\), stride = \(0, 1\) and dilation",
        ),
        (lambda: Convolution(3, 4, 5, 8, dilation=(1, 0)), "convolution: .* must be at least 1"),
        (lambda: Pooling(3, 4, 5, (0, 2)), r"pooling: kernel = \(0, 2\), .* must be at least 1"),
        (lambda: Convolution(3, 4, 5, 8, dilation=(2, 1)), "convolution: a window of 5 x 3 pixels is larger"),
        (lambda: Convolution(3, 5, 4, 8, dilation=(1, 2)), "larger than its input of 5 x 4, border included"),
        (lambda: Pooling(3, 1, 1, (2, 2)), "pooling: a window of 2 x 2 pixels .* its input of 1 x 1, border"),
        (
            lambda: Pooling(3, 4, 1, (2, 3), (1, 1), (0, 1, 0, 0)),
            "pooling: .* than its input of 4 x 2, border",
        ),
    ],
)
def test_windows_that_are_larger_than_their_input_or_do_not_move_are_refused(build, message):
    with pytest.raises(IrError, match=message):
        build()


def test_a_window_as_large_as_its_input_with_its_border_is_taken():
    assert Pooling(3, 4, 1, (4, 3), (1, 1), (0, 1, 0, 1)).out_size == (1, 1)
    assert Convolution(3, 4, 5, 8, (3, 3), (1, 1), (0, 0, 1, 0), (1, 2)).out_size == (3, 1)
