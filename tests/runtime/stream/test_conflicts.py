"""What instructions of different units share is found as plain sets of elements say; readers of one tensor
share nothing."""

import random

import numpy as np
import pytest

from vdla.hw.spec.memories import scratchpad_of
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream import conflicts as module
from vdla.runtime.stream.conflicts import (
    DRAM,
    PAIRS_AT_ONCE,
    PLACES,
    conflicts,
    tensor_read,
    tensor_written,
)

NOWHERE = (0, 0, 0)
ACC, INP = MemoryType.ACC, MemoryType.INP
DEPTH = TINY.depth(ACC)


def columns(rows) -> tuple[np.ndarray, np.ndarray]:
    """Return units and touched places of `(unit, *places)`."""
    return (
        np.array([unit for unit, *_ in rows], np.uint8),
        np.array([[*places, *[NOWHERE] * (PLACES - len(places))] for _, *places in rows], np.int64),
    )


def needs_of_last(*rows) -> tuple[int, ...]:
    return tuple(conflicts(*columns(rows), TINY)[-1].tolist())


@pytest.mark.parametrize(
    ("rows", "needs"),
    [
        (((Unit.LOAD, (INP, 0, 4)), (Unit.COMPUTE, (INP, 3, 5))), (0, -1, -1)),
        (((Unit.LOAD, (INP, 0, 4)), (Unit.COMPUTE, (INP, 4, 5))), (-1, -1, -1)),
        (((Unit.LOAD, (INP, 0, 4)), (Unit.COMPUTE, (MemoryType.WGT, 0, 4))), (-1, -1, -1)),
        (((Unit.LOAD, (INP, 0, 4)), (Unit.LOAD, (INP, 2, 3)), (Unit.COMPUTE, (INP, 0, 9))), (1, -1, -1)),
        (((Unit.LOAD, (INP, 0, 4)), (Unit.LOAD, (INP, 0, 4))), (-1, -1, -1)),
        (((Unit.COMPUTE, (MemoryType.ACC_8BIT, 2, 6)), (Unit.STORE, (MemoryType.OUT, 5, 7))), (-1, 0, -1)),
        (((Unit.STORE, (MemoryType.OUT, 5, 7)), (Unit.COMPUTE, (ACC, 6, 6))), (-1, -1, -1)),
        (
            (
                (Unit.COMPUTE, (ACC, DEPTH - 1, DEPTH + 9)),
                (Unit.STORE, (MemoryType.OUT, DEPTH, DEPTH + 9), tensor_written(0)),
            ),
            (-1, -1, -1),
        ),
        (((Unit.COMPUTE, (ACC, 0, 1)), (Unit.STORE, (ACC, -2, 0))), (-1, -1, -1)),
        (((Unit.STORE, tensor_written(1)), (Unit.LOAD, tensor_read(1, Unit.LOAD))), (-1, -1, 0)),
        (((Unit.STORE, tensor_written(1)), (Unit.LOAD, tensor_read(0, Unit.LOAD))), (-1, -1, -1)),
        (
            ((Unit.LOAD, tensor_read(2, Unit.LOAD)), (Unit.COMPUTE, tensor_read(2, Unit.COMPUTE))),
            (-1, -1, -1),
        ),
        (
            (
                (Unit.LOAD, tensor_read(2, Unit.LOAD)),
                (Unit.COMPUTE, tensor_read(2, Unit.COMPUTE)),
                (Unit.STORE, tensor_written(2)),
            ),
            (0, 1, -1),
        ),
    ],
)
def test_an_instruction_needs_the_last_of_another_unit_that_touches_the_same(rows, needs):
    assert needs_of_last(*rows) == needs


@pytest.mark.parametrize("pairs_at_once", [7, PAIRS_AT_ONCE])
@pytest.mark.parametrize("seed", range(10))
def test_conflicts_are_those_of_sets_of_elements_however_many_are_searched_at_once(
    monkeypatch, seed, pairs_at_once
):
    monkeypatch.setattr("vdla.runtime.stream.conflicts.PAIRS_AT_ONCE", pairs_at_once)
    rng = random.Random(seed)
    rows = []
    for _ in range(200):
        memory, begin = rng.choice((INP, MemoryType.WGT, ACC)), rng.randrange(12)
        rows.append(
            (
                rng.choice(tuple(Unit)),
                (memory, begin, begin + rng.randrange(5)),
                (DRAM, first := rng.randrange(6), first + rng.randrange(3)),
            )
        )
    with np.errstate(all="raise"):
        found = conflicts(*columns(rows), TINY).tolist()
    elements = [
        {(memory, element) for memory, begin, end in places for element in range(begin, end)}
        for _, *places in rows
    ]
    for number, (unit, *_) in enumerate(rows):
        for other in Unit:
            shared = [
                at
                for at in range(number)
                if other != unit and rows[at][0] == other and elements[at] & elements[number]
            ]
            assert found[number][other] == max(shared, default=-1)


def test_instructions_that_touch_nothing_need_nothing():
    assert needs_of_last((Unit.LOAD,), (Unit.STORE,)) == (-1, -1, -1)
    assert conflicts(np.zeros(0, np.uint8), np.zeros((0, PLACES, 3), np.int64), TINY).shape == (0, len(Unit))


@pytest.mark.parametrize("one", MemoryType, ids=lambda memory: memory.name)
@pytest.mark.parametrize("config", [TINY, DEFAULT], ids=lambda config: config.name)
def test_every_memory_conflicts_with_itself_to_its_ends_and_with_no_other(config, one):
    depth = config.depth(one)
    for other in (*MemoryType, DRAM):
        limit = config.depth(other) if other != DRAM else 9
        rows = [(Unit.LOAD, (one, 0, depth)), (Unit.COMPUTE, (other, 0, limit))]
        same = other != DRAM and scratchpad_of(other) == scratchpad_of(one)
        assert conflicts(*columns(rows), config)[-1].tolist() == [0 if same else -1, -1, -1], other
    for place in (0, depth - 1):
        rows = [(Unit.LOAD, (one, 0, depth)), (Unit.COMPUTE, (one, place, place + 1))]
        assert conflicts(*columns(rows), config)[-1].tolist() == [0, -1, -1]
    whole = [(Unit.LOAD, (other, 0, config.depth(other))) for other in MemoryType]
    for outside in ((-1, 0), (-2, 0), (-2, -1), (depth, depth + 2)):
        rows = [*whole, (Unit.COMPUTE, (one, *outside), (DRAM, -1, 0))]
        assert conflicts(*columns(rows), config)[-1].tolist() == [-1, -1, -1], outside


@pytest.mark.parametrize("at_once", [1, 8, 30, 1000])
def test_portions_follow_on_each_other_and_have_about_as_many_touches_as_asked_for(monkeypatch, at_once):
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", at_once)
    rng = np.random.default_rng(0)
    low = rng.integers(0, 30, (40, 2))
    high = np.minimum(low + rng.integers(0, 5, (40, 2)), 30)
    touched = [int(((low <= segment) & (segment < high)).sum()) for segment in range(31)]
    portions = [*module._portions(low, high, 31)]
    assert [first for first, _ in portions[1:]] == [limit for _, limit in portions[:-1]]
    assert (portions[0][0], portions[-1][1]) == (0, 31)
    sums = [sum(touched[first:limit]) for first, limit in portions]
    most = max(touched)
    assert all(size <= at_once + most for size in sums)
    assert all(size >= at_once - 2 * most for size in sums[:-1])
