"""Tiles of default schedules: the largest that fit, and what parameters leave of the accumulators."""

import pytest

from vdla.compiler.tasks.elementwise import elements_at_a_time
from vdla.compiler.tasks.pooling import PoolingTask
from vdla.compiler.te.operators.sizes import Pooling
from vdla.hw.spec.isa import MOST_PARAMETER_SETS
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.vocabulary import MemoryType


def accumulators(count: int):
    return TINY.with_changes(acc_buffer_bytes=16 * count)


def taken(size: Pooling, rows: int, columns: int) -> int:
    """Count the results of a tile, and the inputs from the first to the last that it reads."""
    across = [
        {line * stride + tap for line in range(count) for tap in range(kernel)}
        for count, stride, kernel in zip((rows, columns), size.stride, size.kernel, strict=True)
    ]
    return rows * columns + (max(across[0]) + 1) * (max(across[1]) + 1)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    "size",
    [
        Pooling(8, 11, 9, (3, 2), (2, 1), (1, 0, 1, 1)),
        Pooling(8, 7, 12, (2, 3), (1, 2), batch=2),
        Pooling(8, 5, 5, (1, 1), (3, 2)),
    ],
)
def test_pooling_takes_whole_rows_or_else_a_part_of_one(size, threads):
    height, width = size.out_size
    seen = set()
    for exponent in range(1, 10):
        config = accumulators(1 << exponent)
        room = config.depth(MemoryType.ACC) // threads
        rows = [count for count in range(1, -(-height // threads) + 1) if taken(size, count, width) <= room]
        columns = [count for count in range(1, width) if taken(size, 1, count) <= room]
        expected = (max(rows), width) if rows else (1, max(columns)) if columns else None
        assert PoolingTask(size).tile(config, threads) == expected
        seen.add((bool(rows), bool(columns)))
    assert len(seen) > 1


@pytest.mark.parametrize(
    ("size", "count", "tile"),
    [
        (Pooling(4, 2, 6, (2, 3), (1, 3)), 2 + 2 * 6, (1, 2)),
        (Pooling(4, 2, 5, (2, 2), (1, 3)), 16, (1, 2)),
        (Pooling(4, 4, 4, (2, 2), (2, 2)), 8, (1, 1)),
        (Pooling(4, 8, 3, (2, 3), (2, 3)), 32, (4, 1)),
        (Pooling(4, 12, 4, (2, 1), (2, 1)), 64, (5, 4)),
    ],
)
def test_a_tile_may_fill_the_accumulators(size, count, tile):
    count = 1 << (count - 1).bit_length()
    assert taken(size, *tile) <= count
    assert PoolingTask(size).tile(accumulators(count), 1) == tile


@pytest.mark.parametrize(("operands", "threads"), [(1, 1), (1, 3), (2, 1), (2, 4)])
@pytest.mark.parametrize("sets", [0, 1, 5, 32, 33])
def test_elements_fill_what_parameters_leave(sets, operands, threads):
    """All sets stand on chip while they take a quarter of the accumulators, else one set."""
    config = accumulators(512)
    kept = sets if 16 * sets <= 512 else 1
    most = elements_at_a_time(config, sets, operands, threads)
    assert 4 * kept + most * operands * threads <= 512 < 4 * kept + (most + 1) * operands * threads


@pytest.mark.parametrize("more", [0, 1])
def test_no_more_sets_stand_on_chip_than_instructions_reach(more):
    config = DEFAULT.with_changes(acc_buffer_bytes=1 << 20)
    depth = config.depth(MemoryType.ACC)
    assert depth // 16 > MOST_PARAMETER_SETS
    kept = 1 if more else MOST_PARAMETER_SETS
    assert elements_at_a_time(config, MOST_PARAMETER_SETS + more, 1, 1) == depth - 4 * kept
