"""Transposed convolutions by phases: sizes, weights, and what has none."""

import numpy as np
import pytest

from vdla.compiler.ir.nodes import IrError
from vdla.compiler.te.operators.narrowing import Scale
from vdla.compiler.te.operators.sizes import Convolution, Transposed
from vdla.compiler.te.operators.transposed import (
    conv2d_transposed,
    phase_convolution,
    phase_weights,
    phases_by_side,
    sides_fault,
)
from vdla.hw.spec.presets import TINY

UNEQUAL = Transposed(5, 4, 6, 3, (3, 8), (2, 3), (1, 0, 1, 2), (1, 0), 2)


def test_a_phase_is_a_convolution_of_the_bordered_input():
    """Its tiles are chosen as those of a convolution of as many rows and columns, without a slope."""
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
    found = phase_weights(weights.astype(np.int8), size, config)
    rows, columns = phases_by_side(size)
    assert found.shape == (2, 2, 2, 3, 2, 2, 4, 2)
    expected = np.zeros((8, 4, 2, 3, 2, 2), np.int8)
    for o, c, fy, fx, dy, dx in np.ndindex(5, 3, 2, 3, 2, 2):
        ky, kx = rows.tap(fy, dy, 1), columns.tap(fx, dx, 0)
        expected[o, c, fy, fx, dy, dx] = weights[c, o, ky, kx] if ky < 3 and kx < 5 else 0
    blocks = expected.reshape(2, 4, 2, 2, 2, 3, 2, 2)
    for place in np.ndindex(found.shape):
        o, c, fy, fx, dy, dx, j, k = place
        assert found[place] == blocks[o, j, c, k, fy, fx, dy, dx]
    assert sorted(found[found != 0]) == sorted(weights.reshape(-1))


def test_operands_and_results_stand_in_blocks_phase_by_phase():
    """Of 2 images of 5 channels: 2 results of 4 rows and 3 of 7 columns for each; the kernel has 2 x 3 taps."""
    config = TINY.with_changes(block_in=2, block_out=4)
    found = conv2d_transposed(UNEQUAL, config, Scale())
    assert (found.inp.name, found.inp.shape) == ("X", (2, 3, 4, 6, 1, 2))
    assert (found.wgt.name, found.wgt.shape) == ("W", (1, 3, 2, 3, 2, 3, 4, 2))
    assert found.padded.shape == (2, 3, 4 + 2, 6 + 3, 1, 2)
    assert found.total.shape == (2, 2, 3, 1, 4, 7, 1, 4)
    assert found.narrowed.parameters.shape == (1, 4, 1, 4)
    assert found.out.shape == (2, 1, 4, 2, 7, 3, 1, 4)
    assert found.outer == ("n", "fy", "fx")
    assert [axis.name for axis in found.out.axes] == ["n", "o", "y", "fy", "x", "fx", "b", "j"]
