"""The values of WGT: their lives and their groups."""

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
    assert weights.values.load.tolist() == [0, 1, 5]
    assert (weights.values.begin.tolist(), weights.values.end.tolist()) == ([0, 4, 0], [4, 6, 4])
    assert (weights.values.first.tolist(), weights.values.last.tolist()) == ([0, 1, 5], [4, 3, 6])
    assert [group.first_read for group in weights.groups] == [2, 3, 6]
    assert weights.readers == {2: 0, 3: 1, 4: 0, 6: 2}


def test_values_that_an_instruction_reads_together_form_a_group():
    weights = recorded((0, 4), (8, 4), (4, 4), [1], [3, 5], [9])
    assert weights.values.group.tolist() == [0, 1, 0]
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
    assert weights.values.last.tolist() == [0, 2]
    assert weights.groups[0].first_read == NEVER
