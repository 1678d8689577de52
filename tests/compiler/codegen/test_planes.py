"""Tiles of planes, and the constants of their programs."""

import numpy as np
import pytest

from vdla.compiler.codegen.planes import (
    PlaneTile,
    factors_tile,
    filled,
    mean_tile,
    parts_of,
    plane_tile,
    single_units,
    units,
)
from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.tasks import DiagonalTask, FactorsTask, MeanTask
from vdla.compiler.rules import Unfit
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target


@pytest.mark.parametrize(
    ("blocks", "elements", "room", "threads", "tile"),
    [
        (8, 49, 1000, 2, PlaneTile(4, 49)),
        (72, 49, 2048, 3, PlaneTile(12, 49)),
        (2, 12544, 2048, 2, PlaneTile(1, 896)),
        (1, 49, 2048, 2, None),
        (1, 49, 2048, 1, PlaneTile(1, 49)),
        (5, 7, 1, 1, PlaneTile(1, 1)),
        (5, 7, 0, 1, None),
    ],
)
def test_a_tile_is_the_largest_that_the_threads_can_share(blocks, elements, room, threads, tile):
    assert plane_tile(blocks, elements, room, threads) == tile


def test_every_number_that_a_zero_point_can_make_is_a_sum_of_parts():
    for number in range(-127, 129):
        assert sum(parts_of(number)) == number
        assert all(-128 <= part <= 127 for part in parts_of(number))
    assert parts_of(0) == ()


def test_constants_multiply_and_fill():
    values = np.arange(-8, 8).astype(np.int64)
    for weights, number in zip(units((3, -5), DEFAULT), (3, -5), strict=True):
        np.testing.assert_array_equal(weights @ values, number * values)
    for row, weights in enumerate(single_units(DEFAULT)):
        assert (weights @ values).tolist() == [values[row] * (row == place) for place in range(16)]
    assert (filled((64, 9), DEFAULT) == np.array([64, 9])[:, None, None]).all()


def test_what_does_not_fit_has_no_choice():
    target = Target(TINY.with_changes(acc_buffer_bytes=64, wgt_buffer_bytes=32))
    assert factors_tile(FactorsTask(4, 4, 1, 2), target.config, 1) is None
    assert mean_tile(MeanTask(300, 4), target.config, 1) is None
    for task in (FactorsTask(4, 4, 1, 2), MeanTask(300, 4), DiagonalTask(4)):
        assert isinstance(space_of(task, target), Unfit)
    assert space_of(MeanTask(80, 49), Target(DEFAULT)).threads == 2
