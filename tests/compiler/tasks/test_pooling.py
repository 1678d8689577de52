"""Max pooling through the multiplier array: which windows, how it is tiled, and exactly the maxima."""

import numpy as np
import pytest
from generators.expected import greatest
from generators.making import Case

from tests.loading import load_file
from vdla.compiler.codegen.choose import simulated_cycles
from vdla.compiler.codegen.space import space_of
from vdla.compiler.tasks.base import Choice
from vdla.compiler.tasks.pooling import MaximaTile, MaximumTask, PoolingTask, pools_by_multiplier
from vdla.compiler.tasks.program_text import scalar_weights
from vdla.compiler.te.operators.sizes import Pooling
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.runtime.layout import blocked

RESNET = Pooling(64, 112, 112, (3, 3), (2, 2), (1, 1, 1, 1))


@pytest.fixture(scope="module")
def campaign():
    return load_file("scripts/random_operators.py")


@pytest.mark.parametrize(
    "size",
    [
        Pooling(8, 12, 12, (3, 3), (2, 2), (1, 1, 1, 1)),
        Pooling(4, 11, 9, (2, 2), (2, 2), (0, 1, 1, 0)),
        Pooling(4, 20, 20, (5, 4), (3, 3), (2, 1, 2, 3)),
        Pooling(9, 9, 17, (1, 3), (1, 2)),
        Pooling(4, 13, 13, (2, 1), (3, 4)),
        Pooling(12, 7, 7, (1, 1), (1, 1)),
        Pooling(8, 10, 10, (5, 5), (1, 1), (2, 2, 2, 2)),
        Pooling(4, 12, 21, (6, 9), (2, 1), (3, 4, 2, 4)),
        Pooling(4, 18, 15, (7, 4), (2, 3), (0, 3, 6, 1)),
        Pooling(4, 40, 40, (3, 3), (2, 2), (0, 0, 1, 1), batch=3),
    ],
    ids=str,
)
@pytest.mark.parametrize("threads", [1, 2])
def test_windows_of_every_shape_are_exact(campaign, size, threads):
    if MaximumTask(size).tile(TINY, threads) is None:
        threads = 1
    image = np.random.default_rng(1).integers(
        -128, 128, (size.batch, size.channels, size.height, size.width), np.int8
    )
    given = {"X": blocked(image, TINY.block_out, 1), "W": scalar_weights((1,), TINY)}
    func = MaximumTask(size).program(Choice(threads), TINY)
    case = Case(str(size), TINY, func, given, greatest(image, size))
    assert campaign.failures(case, on_rtl=False) == []


def test_tiles_divide_the_result_and_fit():
    assert MaximumTask(RESNET).tile(DEFAULT, 2) == MaximaTile(14, 14, "ty")
    assert MaximumTask(RESNET).tile(DEFAULT, 1) == MaximaTile(14, 28, "ty")
    odd = Pooling(16, 10, 10, (2, 2), (2, 2))
    assert (
        MaximumTask(odd).tile(DEFAULT, 2) is None
    )  # neither one block of channels nor one tile can be shared
    assert space_of(MaximumTask(odd), Target(DEFAULT)).threads == 1


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    "size",
    [
        Pooling(9, 12, 18, (3, 2), (2, 3), (1, 0, 1, 2)),
        Pooling(8, 30, 13, (2, 2), (2, 1), batch=3),
        Pooling(4, 24, 24, (1, 3), (2, 2), (0, 1, 0, 0)),
    ],
)
def test_the_tile_reads_as_few_inputs_twice_as_any_that_fits(size, threads):
    """Of equals, the widest; threads share rows of tiles first, then columns of tiles, then blocks."""
    height, width = size.out_size
    for room in (32, 64, 256):
        config = TINY.with_changes(inp_buffer_bytes=4 * room, acc_buffer_bytes=16 * room)
        best: tuple[tuple[float, int], MaximaTile] | None = None
        for rows in (count for count in range(1, height + 1) if height % count == 0):
            for columns in (count for count in range(1, width + 1) if width % count == 0):
                lines = [
                    max(line * stride + tap for line in range(count) for tap in range(kernel)) + 1
                    for count, stride, kernel in zip((rows, columns), size.stride, size.kernel, strict=True)
                ]
                trips = {
                    "ty": height // rows,
                    "tx": width // columns,
                    "c": -(-size.channels // TINY.block_out),
                    "n": size.batch,
                }
                shared = [loop for loop, count in trips.items() if count % threads == 0]
                if lines[0] * lines[1] * threads <= room and shared:
                    cost = lines[0] * lines[1] / (rows * columns), -columns
                    if best is None or cost < best[0]:
                        best = cost, MaximaTile(rows, columns, shared[0])
        assert MaximumTask(size).tile(config, threads) == (None if best is None else best[1])


@pytest.mark.parametrize(
    ("size", "config", "can"),
    [
        (RESNET, DEFAULT, True),
        (Pooling(64, 112, 112, (3, 3), (1, 2)), DEFAULT, True),
        (RESNET, DEFAULT.with_changes(extensions=("overwrite", "requantise")), False),
        (Pooling(64, 112, 112, (3, 3), (2, 2)), DEFAULT.with_changes(extensions=()), True),
        (RESNET, DEFAULT.with_changes(alu_opcodes="ADD"), False),
        (RESNET, DEFAULT.with_changes(block_in=8), False),
        (Pooling(4, 60, 60, (50, 50), (30, 30)), TINY, False),
    ],
)
def test_which_poolings_it_is_for(size, config, can):
    assert pools_by_multiplier(config, size) == can


def test_it_takes_little_more_than_its_slots_and_half_of_what_the_alu_alone_takes():
    """A slot to widen each input, two for each column of a window, and two for each window."""
    target = Target(DEFAULT)
    slots = 4 * 16 * (29 * 29 + 2 * 14 * 29 + 2 * 14 * 14)
    cycles = simulated_cycles(MaximumTask(RESNET), Choice(2), target)
    assert slots < cycles < 1.07 * slots
    assert cycles < 0.55 * simulated_cycles(PoolingTask(RESNET), Choice(2), target)


def test_overlapping_windows_share_maxima_of_smaller_windows():
    """Three operations along each axis give the maxima of 2, 4 and 5 lines; the ALU alone takes an operation
    for each input of a window."""
    target, size = Target(DEFAULT), Pooling(64, 20, 20, (5, 5), (1, 1), (2, 2, 2, 2))
    slots = 4 * (24 * 24 + (23 + 21 + 20) * (24 + 20))
    cycles = simulated_cycles(MaximumTask(size), Choice(2), target)
    assert slots < cycles < 1.25 * slots
    assert cycles < 0.4 * simulated_cycles(PoolingTask(size), Choice(2), target)
