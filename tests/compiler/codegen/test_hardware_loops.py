"""Instructions walk every place of a loop nest, and each place once."""

import random
from collections import Counter
from itertools import product

import pytest

from vdla.compiler.codegen.hardware_loops import (
    LONGEST_LOOP,
    ComputeInstruction,
    Steps,
    compute_instructions,
    fits,
    sum_instructions,
)
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import MemoryType

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
    found = list(compute_instructions(loops, BASE, TINY))
    assert Counter(place for one in found for place in walked(one)) == Counter(expected(loops))
    assert all(len(one.uops) <= UOPS for one in found)
    assert max(max(one.outer.trips, one.inner.trips) for one in found) <= LONGEST_LOOP


def test_micro_ops_fill_half_of_their_memory_before_instructions_are_repeated():
    loops = [Steps(9, (1, 0, 0)), Steps(8, (0, 1, 0)), Steps(UOPS, (0, 0, 5))]
    two, three = Steps(2, (11, 0, 0)), Steps(3, (0, 13, 0))
    (one,) = compute_instructions([Steps(UOPS, (-1, 0, 0))], BASE, TINY)  # no step back in hardware
    assert len(one.uops) == UOPS
    found = list(compute_instructions([Steps(UOPS, (-1, 0, 0)), Steps(2, (-500, 0, 0))], BASE, TINY))
    assert [len(one.uops) for one in found] == [2] * UOPS, "the shorter loop is written out"
    (one,) = compute_instructions([*loops[:2], two, three], BASE, TINY)
    assert {one.outer.trips, one.inner.trips} == {9, 8}, "the longest loops are the hardware's"
    assert len(one.uops) == 6


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
    assert fits(loop, TINY) is does


@pytest.mark.parametrize("seed", range(30))
def test_the_first_product_of_each_sum_is_written_and_the_others_are_added(seed):
    rng = random.Random(seed)
    loops = [
        Steps(trips, (step, rng.randrange(6), rng.randrange(6))) for trips, step in ((3, 1), (2, 3), (2, 6))
    ]
    sums = [Steps(rng.choice((1, 2, 3)), (0, rng.randrange(6), rng.randrange(6))) for _ in range(2)]
    found = sum_instructions(tuple(loops), tuple(sums), BASE, TINY)
    assert found is not None
    first, others = found
    written = walked(first)
    assert len({dst for dst, *_ in written}) == len(written) == 12
    added = walked(others) if others else []
    assert Counter(written + added) == Counter(expected([*loops, *sums]))
    assert (others is None) == (sums[0].trips * sums[1].trips == 1)


@pytest.mark.parametrize(("more", "fit"), [(0, True), (1, False)])
def test_sums_of_more_products_than_micro_ops_are_no_single_instruction(more, fit):
    found = sum_instructions((), (Steps(UOPS + more, (0, 1, 1)),), BASE, TINY)
    assert (found is not None) is fit
