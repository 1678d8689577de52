"""Tiles of planes, and the constants of their programs."""

import numpy as np
import pytest

from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.stream import lowered_task
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Choice, PartedTask, PlaneTile, plane_tile
from vdla.compiler.tasks.pooling import MeanTask
from vdla.compiler.tasks.program_text import channel_masks, constant_inputs, scalar_weights
from vdla.compiler.tasks.rearranging import RepeatTask
from vdla.compiler.tasks.scaling import DiagonalTask, FactorsTask, ScalingTask, int8_parts
from vdla.compiler.te.operators.narrowing import blocked_parameters
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.runtime.requantise import parameter_words, requantise

SMALL = TINY.with_changes(name="small", inp_buffer_bytes=64, acc_buffer_bytes=512)
PAIRS = SMALL.with_changes(name="pairs", batch=2, inp_buffer_bytes=128, acc_buffer_bytes=1024)
WIDE_IN = PAIRS.with_changes(name="wide in", block_in=8)
WIDE_OUT = SMALL.with_changes(name="wide out", block_out=8)
RNG = np.random.default_rng(5)
WORDS = parameter_words(*(np.array([number] * 8) for number in (70, 30_000, 20, 3, -120, 110)))


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
        assert sum(int8_parts(number)) == number
        assert all(-128 <= part <= 127 for part in int8_parts(number))
        assert len(int8_parts(number)) == (number != 0) + (number == 128)  # a product each


def test_constants_multiply_and_fill():
    values = np.arange(-8, 8).astype(np.int64)
    for weights, number in zip(scalar_weights((3, -5), DEFAULT), (3, -5), strict=True):
        np.testing.assert_array_equal(weights @ values, number * values)
    for row, weights in enumerate(channel_masks(DEFAULT)):
        assert (weights @ values).tolist() == [values[row] * (row == place) for place in range(16)]
    assert (constant_inputs((64, 9), DEFAULT) == np.array([64, 9])[:, None, None]).all()


def test_what_does_not_fit_has_no_choice():
    target = Target(TINY.with_changes(acc_buffer_bytes=64, wgt_buffer_bytes=32))
    assert FactorsTask(4, 4, 1, 2).tile(target.config, 1) is None
    assert MeanTask(300, 4).tile(target.config, 1) is None
    for task in (FactorsTask(4, 4, 1, 2), MeanTask(300, 4), DiagonalTask(4)):
        assert isinstance(space_of(task, target), Unfit)
    assert space_of(MeanTask(80, 49), Target(DEFAULT)).threads == 2


def integers(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape, np.int8)


def results(task: PartedTask, threads: int, config, given: dict[str, np.ndarray], *shape: int) -> np.ndarray:
    """Return what the lowered program of a task writes; it starts as 99."""
    written = np.full(shape, 99, np.int8)
    out = "D" if isinstance(task, DiagonalTask) else "Z"
    interpret(lowered_task(task, Choice(threads), config), {**given, out: written})
    return written


def scaled(totals: np.ndarray, config) -> np.ndarray:
    """Return int8[..., block_out] of totals by WORDS."""
    return requantise(totals, WORDS[:, : config.block_out], config.acc_bits)


def kept(config) -> np.ndarray:
    return blocked_parameters(WORDS[:, : config.block_out], config)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("config", "task"),
    [
        (SMALL, RepeatTask(2, 3, 3, (2, 3))),
        (PAIRS, RepeatTask(1, 6, 3, (3, 1))),
        (WIDE_IN, RepeatTask(2, 3, 2, (2, 3), 2)),
        (WIDE_OUT, RepeatTask(2, 3, 4, (1, 2))),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_pixels_are_repeated_across_and_down(config, task, threads):
    image = integers(task.blocks, task.height, task.width, task.parts, config.batch, config.block_out)
    down, across = task.factors
    given = {"X": image} | (
        {"W": scalar_weights((1,), config)} if config.block_in == config.block_out else {}
    )
    shape = (task.blocks, task.height, down, task.width, across, *image.shape[3:])
    expected = np.broadcast_to(image[:, :, None, :, None], shape)
    np.testing.assert_array_equal(results(task, threads, config, given, *shape), expected)


@pytest.mark.parametrize("config", [SMALL, PAIRS], ids=["small", "pairs"])
@pytest.mark.parametrize(("blocks", "elements", "threads"), [(2, 6, 2), (3, 5, 1), (2, 20, 2)])
def test_means_are_requantised_sums(config, blocks, elements, threads):
    planes = integers(blocks, elements, config.batch, config.block_out)
    given = {"P": kept(config), "X": planes, "W": scalar_weights((1,), config)}
    result = results(MeanTask(blocks, elements), threads, config, given, blocks, *planes.shape[2:])
    np.testing.assert_array_equal(result, scaled(planes.sum(1, dtype=np.int64), config))


@pytest.mark.parametrize("config", [SMALL, PAIRS, WIDE_IN, WIDE_OUT], ids=lambda config: config.name)
@pytest.mark.parametrize(
    ("task", "threads"),
    [
        (ScalingTask(4, 3, 1, (0, 0)), 2),
        (ScalingTask(2, 5, 2, (7, -128)), 1),
        (ScalingTask(1, 20, 2, (-9, 3)), 2),
    ],
    ids=["without zero points", "parts", "cut"],
)
def test_the_alu_multiplies_planes_by_factors(config, task, threads):
    planes = integers(task.blocks, task.elements, task.parts, config.batch, config.block_out)
    factors = integers(task.blocks, task.parts, config.batch, config.block_out)
    result = results(task, threads, config, {"P": kept(config), "A": planes, "F": factors}, *planes.shape)
    products = (planes.astype(np.int64) - task.zeros[0]) * (factors.astype(np.int64) - task.zeros[1])[:, None]
    np.testing.assert_array_equal(result, scaled(products, config))


@pytest.mark.parametrize("config", [SMALL, PAIRS], ids=["small", "pairs"])
@pytest.mark.parametrize(
    ("blocks", "elements", "zeros", "threads"),
    [(4, 3, (0, 0), 2), (3, 5, (-128, 5), 1), (2, 20, (9, -128), 2), (2, 7, (0, 30), 1), (2, 7, (30, 0), 2)],
)
def test_the_array_multiplies_planes_by_factors(config, blocks, elements, zeros, threads):
    planes = integers(blocks, elements, config.batch, config.block_out)
    factors = integers(blocks, config.block_out)
    of_planes, of_factors = (int8_parts(-zero) for zero in zeros)
    given = {"P": kept(config), "A": planes, "D": factors[:, None] * np.eye(config.block_out, dtype=np.int8)}
    given |= {"K": scalar_weights(of_factors, config)} if of_factors else {}
    given |= {"C": constant_inputs(of_planes, config)} if of_planes else {}
    task = FactorsTask(blocks, elements, len(of_factors), len(of_planes))
    result = results(task, threads, config, given, *planes.shape)
    wide = factors.astype(np.int64)[:, None, None]
    totals = planes * (wide - zeros[1]) - zeros[0] * wide  # the product of zero points is in the bias
    np.testing.assert_array_equal(result, scaled(totals, config))


@pytest.mark.parametrize(("blocks", "threads"), [(6, 2), (5, 1)])
def test_factors_become_diagonals(blocks, threads):
    factors = integers(blocks, 1, 4)
    given = {"F": factors, "U": channel_masks(TINY)}
    result = results(DiagonalTask(blocks), threads, TINY, given, blocks, 4, 1, 4)
    np.testing.assert_array_equal(result[:, :, 0], factors * np.eye(4, dtype=np.int8))


def depths(**bytes_of: int):
    """Return TINY with other memories: an input has 4 bytes, an accumulator and a block of weights 16."""
    return TINY.with_changes(**{f"{name}_buffer_bytes": size for name, size in bytes_of.items()})


@pytest.mark.parametrize(
    ("task", "config", "threads", "tile"),
    [
        (FactorsTask(2, 64, 0, 0), depths(inp=256), 1, PlaneTile(1, 64)),
        (FactorsTask(2, 64, 0, 1), depths(inp=256), 1, PlaneTile(1, 32)),
        (FactorsTask(2, 60, 0, 0), depths(acc=1024), 1, PlaneTile(1, 60)),
        (FactorsTask(2, 64, 0, 0), depths(acc=1024), 1, PlaneTile(1, 32)),
        (FactorsTask(4, 1, 0, 0), depths(wgt=32), 1, None),
        (FactorsTask(4, 64, 0, 0), depths(inp=256, wgt=32), 2, PlaneTile(1, 32)),
        (FactorsTask(4, 64, 1, 0), depths(inp=256, wgt=32), 2, None),
        (ScalingTask(1, 60, 1, (0, 0)), depths(acc=1024), 1, PlaneTile(1, 30)),
        (ScalingTask(1, 28, 2, (0, 0)), depths(acc=1024), 1, PlaneTile(1, 14)),
        (DiagonalTask(9), depths(wgt=64), 1, PlaneTile(9, 4)),
        (DiagonalTask(9), depths(wgt=32), 1, None),
        (DiagonalTask(9), depths(inp=16), 1, PlaneTile(9, 4)),
        (DiagonalTask(9), depths(inp=8), 1, None),
        (DiagonalTask(9), depths(), 2, None),
        (MeanTask(60, 2), depths(acc=1024), 1, PlaneTile(60, 2)),
        (MeanTask(61, 2), depths(acc=1024), 1, None),
        (RepeatTask(1, 16, 4, (1, 1)), depths(inp=128), 1, PlaneTile(1, 8)),
        (RepeatTask(1, 16, 4, (1, 2)), depths(acc=1024), 1, PlaneTile(1, 8)),
        (RepeatTask(1, 16, 4, (1, 2), 2), depths(acc=1024).with_changes(block_in=8), 1, PlaneTile(1, 8)),
    ],
)  # fmt: skip
def test_tiles_leave_room_for_what_is_kept_beside_them(task, config, threads, tile):
    assert task.tile(config, threads) == tile
