"""Tiles of convolutions: all tiles that fit the memories, and no others."""

from itertools import product
from math import prod

import numpy as np
import pytest

from tests.compiler.codegen.test_estimate import (
    BORDERED,
    DEPTHWISE,
    GROUPED,
    OF_ONE_ROW,
    WIDE_IN,
    WIDE_OUT,
)
from vdla.compiler.codegen.tiles import (
    DEFAULT_KEEPS,
    GROUPS,
    INPUTS,
    KEEPS,
    LOOPS,
    NOTHING,
    OUTPUTS,
    ROWS,
    WEIGHTS,
    TileFootprint,
    Tiles,
    TilingProblem,
    fitting_tiles,
    short_memories,
    table_of,
    tile_sizes,
)
from vdla.compiler.te.operators.sizes import Convolution, grouping
from vdla.hw.spec.isa import MOST_PARAMETER_SETS
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.vocabulary import Extension, MemoryType

SKIPPING = Convolution(16, 9, 8, 24, (1, 1), (3, 2))
SMALL = TINY.with_changes(inp_buffer_bytes=1024, wgt_buffer_bytes=1024, acc_buffer_bytes=2048)
MANY = Convolution(16, 6, 5, 700, (1, 1))
WORKS = {
    "one thread": TilingProblem(BORDERED, DEFAULT, 1, scales=True),
    "two threads": TilingProblem(BORDERED, SMALL, 2, scales=True),
    "without parameters": TilingProblem(BORDERED, SMALL, 2, scales=False),
    "residuals": TilingProblem(BORDERED, SMALL, 2, scales=True, adds=True),
    "rows that are left out": TilingProblem(SKIPPING, SMALL, 3, scales=True),
    "groups": TilingProblem(GROUPED, WIDE_IN, 2, scales=True),
    "groups in small memories": TilingProblem(
        GROUPED, SMALL.with_changes(uop_buffer_bytes=256), 2, scales=True
    ),
    "more parameters than stand on chip": TilingProblem(MANY, SMALL, 2, scales=True),
    "parameters for each thread": TilingProblem(MANY, TINY, 3, scales=True, adds=True),
    "alike weights": TilingProblem(DEPTHWISE, DEFAULT, 2, scales=True, alike=True),
    "sliding windows": TilingProblem(DEPTHWISE, OF_ONE_ROW, 2, scales=True, slides=True),
    "sliding windows of several rows": TilingProblem(
        DEPTHWISE, WIDE_OUT.with_changes(block_in=16), 2, scales=True, slides=True
    ),
}


def spanned(count: int, stride: int, kernel: int, dilation: int) -> int:
    """Return the lines from the first to the last that a number of lines of the result reads."""
    read = [line * stride + tap * dilation for line in range(count) for tap in range(kernel)]
    return max(read) - min(read) + 1


def needs(work: TilingProblem, tiles: Tiles) -> dict[MemoryType, int]:
    """Return the elements of each memory that tiles take, counted step by step."""
    size, threads, groups = work.size, work.threads, grouping(work.size, work.config)
    stride = 1 if size.skips_rows else size.stride[0]
    width = spanned(tiles.columns, size.stride[1], size.kernel[1], size.dilation[1])
    has_rows = work.config.has(Extension.DEPTHWISE_ROWS)
    if work.slides and has_rows:
        width += width % 2 == 0
    pixels = spanned(tiles.rows, stride, size.kernel[0], size.dilation[0]) * width
    in_a_window = (prod(size.kernel) if has_rows else 3) if work.slides else 1
    products = tiles.outputs * tiles.inputs * prod(size.kernel) // in_a_window
    weight_copies = 1 if tiles.threads_over == ROWS else threads
    held = 1 if work.alike else products
    if tiles.keeps == WEIGHTS:
        weights = weight_copies * held * (groups.inputs // tiles.inputs)
    else:
        weights = threads * held
    sets = groups.count * groups.outputs
    sums = threads * tiles.outputs * tiles.rows * tiles.columns
    most = min(MOST_PARAMETER_SETS, work.config.depth(MemoryType.ACC) // 16)
    if sets > most:
        sets = tiles.outputs * weight_copies
        trips = -(-groups.outputs // (tiles.outputs * (threads if tiles.threads_over == OUTPUTS else 1)))
        sets *= max(
            rounds
            for rounds in range(1, trips + 1)
            if rounds == 1
            or (
                trips % rounds == 0
                and rounds * sets < most
                and 4 * (rounds * sets + 1) + sums <= work.config.depth(MemoryType.ACC)
            )
        )
    parameters = 4 * (sets + work.adds) if work.scales else 0
    return {
        MemoryType.INP: pixels * (groups.inputs if tiles.keeps == INPUTS else threads * tiles.inputs),
        MemoryType.WGT: weights,
        MemoryType.ACC: parameters + sums,
        MemoryType.UOP: 4 * products,
    }


def legal(work: TilingProblem, tiles: Tiles) -> bool:
    """Return whether tiles fit, threads have whole shares, and instructions reach all parameters."""
    groups = grouping(work.size, work.config)
    trips = {
        GROUPS: groups.count,
        OUTPUTS: -(-groups.outputs // tiles.outputs),
        ROWS: -(-work.size.out_size[0] // tiles.rows),
    }[tiles.threads_over]
    elements = needs(work, tiles)
    sums = work.threads * tiles.outputs * tiles.rows * tiles.columns
    return (
        trips % work.threads == 0
        and (tiles.keeps != INPUTS or tiles.threads_over == OUTPUTS)
        and all(need <= work.config.depth(memory) for memory, need in elements.items())
        and elements[MemoryType.ACC] - sums <= 4 * MOST_PARAMETER_SETS
    )


@pytest.mark.parametrize("keeps", [KEEPS, DEFAULT_KEEPS], ids=["all", "usual"])
@pytest.mark.parametrize("name", WORKS)
def test_every_tile_that_fits_is_there_and_no_other(name, keeps):
    work = WORKS[name]
    groups, (height, width) = grouping(work.size, work.config), work.size.out_size
    inputs = [size for size in range(1, groups.inputs + 1) if groups.inputs % size == 0]
    sizes = (tile_sizes(groups.outputs), tile_sizes(height), tile_sizes(width), inputs, keeps, LOOPS)
    wanted = [tiles for tiles in (Tiles(*each) for each in product(*sizes)) if legal(work, tiles)]
    table = fitting_tiles(work, keeps)
    fitting = [table.tiles(place) for place in range(len(table))]
    assert fitting == wanted
    assert wanted
    footprint = TileFootprint(work, table)
    for memory, elements in footprint.needs.items():
        assert elements.tolist() == [needs(work, tiles)[memory] for tiles in wanted]


@pytest.mark.parametrize(
    ("extent", "sizes"),
    [
        (1, [1]),
        (7, [1, 2, 3, 4, 7]),
        (10, [1, 2, 3, 4, 5, 10]),
        (13, [1, 3, 4, 5, 7, 13]),
        (24, [1, 2, 3, 4, 5, 6, 8, 12, 24]),
        (49, [1, 7, 9, 10, 13, 17, 25, 49]),
    ],
)
def test_sizes_divide_an_extent_or_part_it_into_six_at_most(extent, sizes):
    assert tile_sizes(extent) == sizes


def test_a_table_knows_its_tiles():
    table = fitting_tiles(WORKS["groups"], KEEPS)
    for place in (0, len(table) // 2, len(table) - 1):
        assert table.place(table.tiles(place)) == place
    assert table.place(Tiles(99, 1, 1, 1)) is None
    some = table.select(np.array([3, 1]))
    assert [some.tiles(place) for place in range(len(some))] == [table.tiles(3), table.tiles(1)]
    tiles = Tiles(2, 3, 4, 5, INPUTS, GROUPS)
    assert table_of(tiles).tiles(0) == tiles
    assert [table_of(tiles).kept(what).tolist() for what in (NOTHING, WEIGHTS, INPUTS)] == [
        [False],
        [False],
        [True],
    ]


@pytest.mark.parametrize("more", [0, 1])
def test_parameters_stand_on_chip_while_they_take_a_quarter_of_the_accumulators(more):
    depth = SMALL.depth(MemoryType.ACC)
    size = Convolution(4, 3, 3, 4 * (depth // 16 + more), (1, 1))
    assert TilingProblem(size, SMALL, 1, scales=True).keeps_parameters is (more == 0)


POINT = Convolution(16, 3, 3, 16, (3, 3))  # four blocks, and a result of one pixel


@pytest.mark.parametrize(
    ("changes", "short"),
    [
        ({}, {}),
        ({"inp_buffer_bytes": 32}, {MemoryType.INP: 36}),
        ({"wgt_buffer_bytes": 128}, {MemoryType.WGT: 144}),
        ({"uop_buffer_bytes": 128}, {MemoryType.UOP: 36 * 4}),
        (
            {"inp_buffer_bytes": 32, "wgt_buffer_bytes": 64},
            {MemoryType.INP: 36, MemoryType.WGT: 144},
        ),
    ],
)
def test_memories_that_are_too_small_are_named_with_what_the_smallest_tile_takes(changes, short):
    config = TINY.with_changes(**changes)
    assert short_memories(TilingProblem(POINT, config, 1, scales=True)) == short
