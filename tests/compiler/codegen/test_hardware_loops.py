"""Instructions walk every place of a loop nest, and each place once."""

import random
from collections import Counter
from itertools import product

import pytest

from vdla.compiler.codegen import hardware_loops
from vdla.compiler.codegen.hardware_loops import (
    LONGEST_LOOP,
    ComputeInstruction,
    Dimension,
    Steps,
    compute_instructions,
    fits_hardware_loop,
    sum_instructions,
    transfer_instructions,
)
from vdla.compiler.operands.address_map import Transfer
from vdla.hw.spec import isa
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import Rows

Place = tuple[int, int, int]
UOPS = TINY.depth(MemoryType.UOP) // 2  # the other half is loaded meanwhile
BASE = (3, 5, 7)


def walked(instruction: ComputeInstruction) -> list[Place]:
    """Return the places (dst, src, wgt) of an instruction in order."""
    outer, inner = instruction.outer, instruction.inner
    return [
        tuple(
            start + i * out_step + j * in_step
            for start, out_step, in_step in zip(
                uop, (outer.dst, outer.src, outer.wgt), (inner.dst, inner.src, inner.wgt), strict=True
            )
        )
        for i in range(outer.trips)
        for j in range(inner.trips)
        for uop in instruction.uops
    ]


def expected(loops: list[Steps]) -> list[Place]:
    """Return the places of a nest."""
    counters = product(*(range(loop.trips) for loop in loops))
    return [
        tuple(
            start + sum(count * loop.steps[operand] for count, loop in zip(counts, loops, strict=True))
            for operand, start in enumerate(BASE)
        )
        for counts in counters
    ]


def nest(rng: random.Random, depth: int) -> list[Steps]:
    return [
        Steps(rng.choice((1, 2, 3, 4, 7)), (rng.randrange(6), rng.randrange(6), rng.randrange(6)))
        for _ in range(depth)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_every_place_of_a_nest_is_walked_once(seed):
    rng = random.Random(seed)
    loops = nest(rng, rng.randrange(7))
    instructions = compute_instructions(tuple(loops), BASE, TINY)
    assert Counter(place for instruction in instructions for place in walked(instruction)) == Counter(
        expected(loops)
    )
    assert all(len(instruction.uops) <= UOPS for instruction in instructions)
    assert (
        max(max(instruction.outer.trips, instruction.inner.trips) for instruction in instructions)
        <= LONGEST_LOOP
    )


def test_micro_ops_fill_half_of_their_memory_before_instructions_are_repeated():
    loops = [Steps(9, (1, 0, 0)), Steps(8, (0, 1, 0)), Steps(UOPS, (0, 0, 5))]
    two, three = Steps(2, (11, 0, 0)), Steps(3, (0, 13, 0))
    (instruction,) = compute_instructions((Steps(UOPS, (-1, 0, 0)),), BASE, TINY)  # no step back in hardware
    assert len(instruction.uops) == UOPS
    instructions = compute_instructions((Steps(UOPS, (-1, 0, 0)), Steps(2, (-500, 0, 0))), BASE, TINY)
    assert [len(instruction.uops) for instruction in instructions] == [2] * UOPS, (
        "the shorter loop is written out"
    )
    (instruction,) = compute_instructions((*loops[:2], two, three), BASE, TINY)
    assert {instruction.outer.trips, instruction.inner.trips} == {9, 8}, (
        "the longest loops are the hardware's"
    )
    assert len(instruction.uops) == 6


def test_loops_that_go_on_where_others_end_are_one():
    chain = [Steps(5, (6, 12, 18)), Steps(2, (1, 2, 3)), Steps(3, (2, 4, 6))]
    (instruction,) = compute_instructions((*chain, Steps(7, (30, 60, 91)), Steps(2, (500, 0, 0))), BASE, TINY)
    assert list(instruction.uops) == [BASE, (503, 5, 7)]
    assert instruction.outer.trips == 30
    assert (instruction.outer.dst, instruction.outer.src, instruction.outer.wgt) == (1, 2, 3)
    assert instruction.inner.trips == 7


@pytest.mark.parametrize(
    ("loop", "does"),
    [
        (Steps(LONGEST_LOOP, (0, 0, 0)), True),
        (Steps(LONGEST_LOOP + 1, (0, 0, 0)), False),
        *((Steps(2, tuple(-(place == operand) for place in range(3))), False) for operand in range(3)),
        *(
            (
                Steps(2, tuple((place == operand) * (TINY.depth(memory) - less) for place in range(3))),
                less == 1,
            )
            for operand, memory in enumerate((MemoryType.ACC, MemoryType.INP, MemoryType.WGT))
            for less in (0, 1)
        ),
    ],
)
def test_steps_of_the_hardware_are_shorter_than_a_memory(loop, does):
    assert fits_hardware_loop(loop, TINY) is does


@pytest.mark.parametrize("seed", range(30))
def test_the_first_product_of_each_sum_is_written_and_the_others_are_added(seed):
    rng = random.Random(seed)
    loops = [
        Steps(trips, (step, rng.randrange(6), rng.randrange(6))) for trips, step in ((3, 1), (2, 3), (2, 6))
    ]
    sums = [Steps(rng.choice((1, 2, 3)), (0, rng.randrange(6), rng.randrange(6))) for _ in range(2)]
    instructions = sum_instructions(tuple(loops), tuple(sums), BASE, TINY)
    assert instructions is not None
    first, others = instructions
    written = walked(first)
    assert len({dst for dst, *_ in written}) == len(written) == 12
    added = walked(others) if others else []
    assert Counter(written + added) == Counter(expected([*loops, *sums]))
    assert (others is None) == (sums[0].trips * sums[1].trips == 1)


@pytest.mark.parametrize(("more", "fit"), [(0, True), (1, False)])
def test_sums_of_more_products_than_micro_ops_are_no_single_instruction(more, fit):
    instructions = sum_instructions((), (Steps(UOPS + more, (0, 1, 1)),), BASE, TINY)
    assert (instructions is not None) is fit


# Transfers

PAD = "padding"
CHIP, DRAM = 20, 9_000  # where transfers begin


def whole(trips: int, chip: int, dram: int) -> Dimension:
    return Dimension(trips, chip, dram, 0, trips)


def held(transfers: list[Transfer]) -> dict[int, int | str]:
    """Return what transfers put on chip: the elements of DRAM that they read, and padding."""
    on_chip: dict[int, int | str] = {}
    for transfer in transfers:
        place, rows = transfer.chip, transfer.rows
        (above, below), (left, right) = rows.y_pads, rows.x_pads
        for y in range(-above, rows.height + below):
            for x in range(-left, rows.width + right):
                inside = 0 <= y < rows.height and 0 <= x < rows.width
                assert place not in on_chip, "an element is written once"
                on_chip[place] = transfer.dram + y * rows.stride + x if inside else PAD
                place += 1
    return on_chip


def wanted(dimensions: list[Dimension], inside: bool) -> dict[int, int | str]:
    """Return what stands on chip then, element by element."""
    on_chip: dict[int, int | str] = {}
    for counts in product(*(range(dimension.trips) for dimension in dimensions)):
        steps = list(zip(counts, dimensions, strict=True))
        there = inside and all(dimension.low <= count < dimension.high for count, dimension in steps)
        place = DRAM + sum(count * dimension.dram for count, dimension in steps)
        on_chip[CHIP + sum(count * dimension.chip for count, dimension in steps)] = place if there else PAD
    return on_chip


@pytest.mark.parametrize("seed", range(60))
def test_every_element_is_transferred_to_its_place_within_the_fields(seed, monkeypatch):
    """With fields so short that rows, gaps and borders are longer."""
    rng = random.Random(seed)
    longest, pads = rng.choice([(9, 2), (12, 3), (16, 1)])
    monkeypatch.setattr(isa, "LONGEST_ROW", longest)
    monkeypatch.setattr(hardware_loops, "MOST_PADS", pads)
    for _ in range(12):
        dimensions, chip = [], 1
        for _ in range(rng.randint(0, 4)):
            trips = rng.choice((1, 2, 3, 4, 5, 8, 18))
            low, high = sorted(rng.sample(range(trips + 1), 2)) if rng.random() < 0.4 else (0, trips)
            dram = rng.choice((1, chip, chip, chip + 2, 0, 5, -3))
            dimensions.append(Dimension(trips, chip, dram, low, high))
            chip *= trips
            if len(dimensions) > 1 and rng.random() < 0.2:
                chip += 1
            if chip > 600:
                break
        rng.shuffle(dimensions)
        inside = rng.random() < 0.9
        transfers = list(transfer_instructions(dimensions, CHIP, DRAM, inside=inside))
        assert held(transfers) == wanted(dimensions, inside)
        for transfer in transfers:
            assert max(transfer.rows.height, transfer.rows.width, transfer.rows.stride) <= longest
            assert max(*transfer.rows.y_pads, *transfer.rows.x_pads) <= pads
            assert (
                min(transfer.rows.width, transfer.rows.stride, *transfer.rows.y_pads, *transfer.rows.x_pads)
                >= 0
            )


LONG = isa.LONGEST_ROW
MOST_PADS = 15  # what four bits hold


@pytest.mark.parametrize(
    ("dimensions", "transfers"),
    [
        ([], [(0, 0, Rows(1, 1, 1))]),
        ([whole(6, 1, 1)], [(0, 0, Rows(1, 6, 1))]),
        ([whole(4, 6, 9), whole(6, 1, 1)], [(0, 0, Rows(4, 6, 9))]),
        ([whole(4, 6, 6), whole(6, 1, 1)], [(0, 0, Rows(1, 24, 1))]),
        ([whole(4, 6, 0), whole(6, 1, 1)], [(0, 0, Rows(4, 6, 0))]),
        ([whole(5, 1, 2)], [(0, 0, Rows(5, 1, 2))]),
        ([whole(2, 7, 6), whole(6, 1, 1)], [(0, 0, Rows(1, 6, 1)), (7, 6, Rows(1, 6, 1))]),
        ([whole(2, 6, -7), whole(6, 1, 1)], [(0, 0, Rows(1, 6, 1)), (6, -7, Rows(1, 6, 1))]),
        ([whole(2, 3, LONG), whole(3, 1, 1)], [(0, 0, Rows(2, 3, LONG))]),
        (
            [whole(2, 3, LONG + 1), whole(3, 1, 1)],
            [(0, 0, Rows(1, 3, 1)), (3, LONG + 1, Rows(1, 3, 1))],
        ),
        ([whole(LONG, 1, 1)], [(0, 0, Rows(1, LONG, 1))]),
        ([whole(LONG + 1, 1, 1)], [(0, 0, Rows(2, (LONG + 1) // 2, (LONG + 1) // 2))]),
        ([whole(LONG, 1, 3)], [(0, 0, Rows(LONG, 1, 3))]),
        (
            [Dimension(5, 6, 9, 1, 3), Dimension(6, 1, 1, 2, 5)],
            [(0, 11, Rows(2, 3, 9, (1, 2), (2, 1)))],
        ),
        (
            [Dimension(3 + MOST_PADS, 1, 1, MOST_PADS, MOST_PADS + 2)],
            [(0, MOST_PADS, Rows(1, 2, 1, (0, 0), (MOST_PADS, 1)))],
        ),
        (
            [Dimension(3 + MOST_PADS, 1, 1, MOST_PADS + 1, MOST_PADS + 2)],
            [
                (0, -DRAM, Rows(0, MOST_PADS + 1, MOST_PADS + 1, (1, 0))),
                (MOST_PADS + 1, MOST_PADS + 1, Rows(1, 1, 1)),
                (MOST_PADS + 2, -DRAM, Rows(0, 1, 1, (1, 0))),
            ],
        ),
        (
            [Dimension(3 + MOST_PADS, 2, 5, 1, 2), whole(2, 1, 1)],
            [
                (0, -DRAM, Rows(0, 2, 2, (1, 0))),
                (2, 5, Rows(1, 2, 5)),
                (4, -DRAM, Rows(0, 2 + 2 * MOST_PADS, 2 + 2 * MOST_PADS, (1, 0))),
            ],
        ),
        ([Dimension(3, 4, 4, 2, 2), whole(4, 1, 1)], [(0, -DRAM, Rows(0, 12, 12, (1, 0)))]),
        ([whole(3, 4, 4), Dimension(4, 1, 1, 3, 3)], [(0, -DRAM, Rows(0, 12, 12, (1, 0)))]),
        (
            [Dimension(2, 12, 50, 1, 2), whole(3, 4, 9), whole(4, 1, 1)],
            [(0, -DRAM, Rows(0, 12, 12, (1, 0))), (12, 50, Rows(3, 4, 9))],
        ),
    ],
)
def test_as_few_transfers_as_fields_allow(dimensions, transfers):
    expected = [Transfer(CHIP + chip, DRAM + dram, rows) for chip, dram, rows in transfers]
    assert list(transfer_instructions(dimensions, CHIP, DRAM)) == expected


def test_padding_takes_as_few_transfers_as_fields_allow():
    """Rows of padding above and below none that are read."""
    dimensions = [whole(3 * MOST_PADS + 2, LONG, LONG), whole(LONG, 1, 1)]
    transfers = list(transfer_instructions(dimensions, CHIP, DRAM, inside=False))
    assert transfers == [
        Transfer(CHIP, 0, Rows(0, LONG, LONG, (MOST_PADS, MOST_PADS))),
        Transfer(CHIP + 2 * MOST_PADS * LONG, 0, Rows(0, LONG, LONG, (MOST_PADS, 2))),
    ]
