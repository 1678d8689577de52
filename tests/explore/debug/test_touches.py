"""What instructions touch equals their footprints, evaluated with the micro-ops of the executed program."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.explore.debug.imaged import NAMES, contents, reference
from tests.sim.timing.test_simulate import decoded
from vdla.explore.debug.dram import NO_IMAGE
from vdla.explore.debug.touches import rows_of, touches_of
from vdla.hw.spec import isa
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import MemoryType


@pytest.mark.parametrize("name", NAMES)
def test_every_instruction_touches_exactly_what_its_footprint_says(name):
    touches = contents(name).touches
    for index, expected in enumerate(reference(name)):
        instruction_touches, touched = touches.of(index), {}
        for number in range(len(instruction_touches)):
            for happens, writes in (
                (instruction_touches.reads[number], False),
                (instruction_touches.writes[number], True),
            ):
                if happens:
                    key = int(instruction_touches.memory[number]), writes
                    touched.setdefault(key, set()).update(instruction_touches.places(number).tolist())
        assert touched == expected


@pytest.mark.parametrize("name", NAMES[:4])
def test_a_place_is_held_by_the_touches_whose_rows_have_it(name):
    touches = contents(name).touches
    for place in np.random.default_rng(0).choice(touches.begin, 40).tolist():
        by_rows = [place in touches.places(number) for number in range(len(touches))]
        assert touches.holds(place).tolist() == by_rows
        memory = int(touches.memory[by_rows.index(True)])
        assert touches.at(memory, place).instruction.tolist() == [
            int(touches.instruction[number])
            for number in range(len(touches))
            if by_rows[number] and touches.memory[number] == memory
        ]


@given(st.sets(st.integers(0, 300), min_size=1))
def test_rows_hold_the_places_and_no_others(places):
    rows = rows_of(np.array(sorted(places)))
    covered = [
        row.begin + y * row.stride + x for row in rows for y in range(row.height) for x in range(row.width)
    ]
    assert sorted(covered) == sorted(places)


def test_a_two_dimensional_operand_is_one_row_pattern():
    (row,) = rows_of(np.array([8, 9, 10, 20, 21, 22, 32, 33, 34]))
    assert (row.begin, row.width, row.stride, row.height) == (8, 3, 12, 3)


def test_an_instruction_that_leaves_its_scratchpad_touches_nothing():
    depth = TINY.depth(MemoryType.INP)
    outside = isa.Load(memory_type=MemoryType.INP, sram_base=depth - 1, y_size=1, x_size=2, x_stride=2)
    inside = isa.Load(memory_type=MemoryType.INP, sram_base=depth - 2, y_size=1, x_size=2, x_stride=2)
    touches = touches_of(decoded(outside, inside, isa.Finish()), NO_IMAGE)
    assert touches.instruction.tolist() == [1, 1]
