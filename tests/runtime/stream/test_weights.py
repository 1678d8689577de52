"""The values of WGT: their lives, their groups, and the places that are free."""

import pytest

from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import Loop, Rows, StreamBuilder
from vdla.runtime.stream.weights import NEVER, weights_of

WGT = MemoryType.WGT
DEPTH = TINY.depth(WGT)


def load(builder: StreamBuilder, begin: int, size: int) -> None:
    builder.load(WGT, begin, "w", 0, Rows(1, size, size))


def read(builder: StreamBuilder, *places: int) -> None:
    builder.gemm(tuple((0, 0, place) for place in places), Loop(), Loop())


def recorded(*steps):
    """Return the values of the recorded steps: begin and size of a LOAD, or a list of places that a GEMM reads.
    Micro-ops are placed before, so that the number of an instruction is its place among the steps."""
    builder = StreamBuilder(TINY)
    for step in steps:
        if isinstance(step, list):
            builder.kernels.place(tuple((0, 0, place) for place in step))
    for step in steps:
        read(builder, *step) if isinstance(step, list) else load(builder, *step)
    return weights_of(builder.record, TINY)


def test_a_value_lives_from_its_load_to_its_last_read():
    weights = recorded((0, 4), (4, 2), [0], [4], [3], (0, 4), [1])
    assert weights.load.tolist() == [0, 1, 5]
    assert (weights.begin.tolist(), weights.end.tolist()) == ([0, 4, 0], [4, 6, 4])
    assert (weights.first.tolist(), weights.last.tolist()) == ([0, 1, 5], [4, 3, 6])
    assert [group.first_read for group in weights.groups] == [2, 3, 6]
    assert weights.readers == {2: 0, 3: 1, 4: 0, 6: 2}


def test_values_that_an_instruction_reads_together_form_a_group():
    weights = recorded((0, 4), (8, 4), (4, 4), [1], [3, 5], [9])
    assert weights.group.tolist() == [0, 1, 0]
    assert [group.members for group in weights.groups] == [[0, 2], [1]]
    group = weights.groups[0]
    assert (group.low, group.high, group.first_read, group.last) == (0, 8, 3, 4)
    assert weights.readers == {3: 0, 4: 0, 5: 1}
    assert weights.separate(group)


def test_a_group_whose_values_share_a_place_is_not_separate():
    weights = recorded((0, 4), [0, 7], (4, 4), [3, 5], (0, 2), [1, 5])
    assert [group.members for group in weights.groups] == [[0, 1, 2]]
    assert not weights.separate(weights.groups[0])


def test_a_value_that_nothing_reads_lives_at_its_load():
    weights = recorded((0, 4), (4, 4), [5])
    assert weights.last.tolist() == [0, 2]
    assert weights.groups[0].first_read == NEVER


@pytest.mark.parametrize(
    ("low", "high", "number", "touch"),
    [
        (1, 4, 3, 2),  # behind the last read of the value there
        (0, 4, 3, None),  # another value is loaded at 3
        (0, 4, 2, None),  # it is read at 2
        (0, 5, 3, None),  # the neighbour is read at 4
        (4, 8, 5, 4),
        (8, 12, 1, NEVER),
    ],
)
def test_a_place_is_free_behind_the_last_read_of_each_value_there(low, high, number, touch):
    weights = recorded((0, 4), (4, 4), [1], (0, 1), [6], (8, 4), [9])
    group = weights.groups[weights.group[3]]
    assert weights.last_touch(group, low, high, number) == touch


def test_gaps_are_free_as_long_as_a_group_lives():
    weights = recorded((0, 4), (10, 4), [0], [10], (2, 4), (6, DEPTH - 6), [2], [8])
    third, last = weights.groups[2], weights.groups[3]
    assert weights.gaps(third, 3) == [0]  # 10 to 14 is read at 3, 6 and more from 5 on
    assert weights.gaps(last, 3) == []
    weights.shift(third, -2)
    weights.take(third.members, 3)
    assert (weights.begin[2], weights.end[2], third.low, third.high, third.shift) == (0, 4, 0, 4, -2)
    assert weights.last_touch(last, 0, 4, 3) is None
