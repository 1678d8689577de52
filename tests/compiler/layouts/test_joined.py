"""LOADs from segments: what stands on chip is what one LOAD of the joined tensor would put there."""

import numpy as np
import pytest

from vdla.compiler.layouts.joined import Joined, TensorSegment, cut
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import Rows, StreamBuilder

JOINED = (TensorSegment("a", 2, 6), TensorSegment("b", 0, 4), TensorSegment("a", 8, 10))
TENSORS = {"a": np.arange(100, 120), "b": np.arange(200, 210)}
WHOLE = np.concatenate([TENSORS[part.tensor][part.begin :][: part.count] for part in JOINED])
PADDING = -1


def loaded(values: np.ndarray, chip: dict[int, int], place: int, element: int, rows: Rows) -> None:
    """Do what a LOAD does, and refuse rows that are not there."""
    inside = [values[element + y * rows.stride :][: rows.width] for y in range(rows.height)]
    assert all(len(row) == rows.width for row in inside)
    (left, right), (above, below) = rows.x_pads, rows.y_pads
    blank = np.full(left + rows.width + right, PADDING)
    whole = [np.concatenate((blank[:left], row, blank[:right])) for row in inside]
    flat = np.concatenate([*[blank] * above, *whole, *[blank] * below, blank[:0]])
    assert not set(range(place, place + len(flat))) & chip.keys(), "written twice"
    chip |= {place + number: int(value) for number, value in enumerate(flat)}


def check(element: int, rows: Rows) -> int:
    """Compare; return the LOADs that were recorded."""
    expected, actual, count = {}, {}, 0
    loaded(WHOLE, expected, 30, element, rows)

    def record(chip: int, tensor: str, begin: int, part: Rows) -> None:
        nonlocal count
        count += 1
        loaded(TENSORS[tensor], actual, chip, begin, part)

    Joined(JOINED).load(MemoryType.INP, StreamBuilder(TINY), record)(30, "unused", element, rows)
    assert actual == expected
    return count


@pytest.mark.parametrize(
    ("element", "rows", "loads"),
    [
        (1, Rows(1, 5, 5), 1),
        (1, Rows(1, 6, 6), 2),
        (0, Rows(1, 20, 20), 3),
        (4, Rows(1, 8, 8, (0, 0), (2, 1)), 3),
        (0, Rows(5, 2, 4), 3),
        (0, Rows(4, 3, 5), 4),
        (0, Rows(3, 4, 4, (2, 1), (1, 3)), 7),
        (6, Rows(2, 4, 4, (1, 2)), 4),
        (0, Rows(10, 2, 2), 3),
        (9, Rows(3, 3, 0), 6),
        (1, Rows(3, 2, 0), 1),
        (0, Rows(0, 4, 4, (2, 1)), 1),
    ],
)
def test_a_load_is_divided_where_segments_end(element, rows, loads):
    assert check(element, rows) == loads


def test_random_loads():
    rng = np.random.default_rng(0)
    done = 0
    while done < 300:
        height, width, stride, element = (int(rng.integers(1, most)) for most in (6, 12, 9, 20))
        pads = tuple(tuple(map(int, rng.integers(0, 3, 2))) for _ in range(2))
        if element + (height - 1) * stride + width <= len(WHOLE):
            check(element, Rows(height, width, stride, *pads))
            done += 1


COLUMN = tuple(TensorSegment("a", 1 + 5 * place, 2) for place in range(4))


@pytest.mark.parametrize(
    ("element", "rows", "transfers"),
    [
        (0, Rows(1, 8, 8), [(7, "a", 1, Rows(4, 2, 5))]),
        (2, Rows(1, 6, 6), [(7, "a", 6, Rows(3, 2, 5))]),
        (1, Rows(1, 4, 4), [(7, "a", 2, Rows(1, 1, 1)), (8, "a", 6, Rows(1, 2, 2)), (10, "a", 11, Rows(1, 1, 1))]),
        (0, Rows(2, 4, 4), [(7, "a", 1, Rows(4, 2, 5))]),
        (0, Rows(2, 2, 4), [(7, "a", 1, Rows(2, 2, 10))]),
        (0, Rows(1, 4, 4, (0, 0), (1, 0)), [(7, "a", 1, Rows(1, 2, 2, (0, 0), (1, 0))), (10, "a", 6, Rows(1, 2, 2))]),
    ],
)  # fmt: skip
def test_segments_at_equal_distances_are_the_rows_of_one_transfer(element, rows, transfers):
    for direction in ("load", "store"):
        recorded: list[tuple[object, ...]] = []

        def record(*transfer: object, recorded: list[tuple[object, ...]] = recorded) -> None:
            recorded.append(transfer)

        joined = Joined(COLUMN)
        move = (
            joined.store(record)
            if direction == "store"
            else joined.load(MemoryType.INP, StreamBuilder(TINY), record)
        )
        move(7, "unused", element, rows)
        assert recorded == transfers


def test_distances_beyond_the_field_are_transfers_of_their_own():
    far = Joined((TensorSegment("a", 0, 2), TensorSegment("a", 1 << 16, 2)))
    recorded: list[tuple[object, ...]] = []
    far.store(lambda *transfer: recorded.append(transfer))(0, "unused", 0, Rows(1, 4, 4))
    assert recorded == [(0, "a", 0, Rows(1, 2, 2)), (2, "a", 1 << 16, Rows(1, 2, 2))]


def test_a_segment_is_read_by_the_map_of_its_operand():
    apart = Joined((TensorSegment("a", 4, 2, Joined((TensorSegment("b", 9, 5), TensorSegment("b", 30, 5)))),))
    recorded: list[tuple[object, ...]] = []
    apart.store(lambda *transfer: recorded.append(transfer))(0, "unused", 0, Rows(1, 2, 2))
    assert recorded == [(0, "b", 13, Rows(2, 1, 17))]
    assert apart.tensors("unused") == ("b", "b")


def test_neighbours_in_one_tensor_become_one_segment():
    parts = (TensorSegment("a", 0, 4), TensorSegment("a", 4, 4), TensorSegment("b", 8, 4))
    assert cut(parts, 0, 12) == (TensorSegment("a", 0, 8), TensorSegment("b", 8, 4))
    assert cut(parts, 3, 6) == (TensorSegment("a", 3, 5), TensorSegment("b", 8, 1))
    assert cut(parts, 9, 2) == (TensorSegment("b", 9, 2),)


def test_padding_alone_names_the_first_tensor():
    recorded = []
    record = Joined(JOINED).load(MemoryType.INP, StreamBuilder(TINY), lambda *each: recorded.append(each))
    record(30, "unused", 5, Rows(2, 4, 4, (2, 1)))
    record(90, "unused", 9, Rows(0, 4, 4, (1, 1)))
    assert recorded == [
        (30, "a", 2, Rows(0, 4, 4, (2, 0))),
        (38, "a", 7, Rows(1, 1, 1)),
        (39, "b", 0, Rows(1, 3, 3)),
        (42, "b", 3, Rows(1, 1, 1)),
        (43, "a", 8, Rows(1, 3, 3)),
        (46, "a", 2, Rows(0, 4, 4, (0, 1))),
        (90, "a", 2, Rows(0, 4, 4, (1, 1))),
    ]


def test_parts_of_segments_begin_and_end_anywhere():
    parts = (
        TensorSegment("a", 5, 4),
        TensorSegment("b", 0, 3),
        TensorSegment("b", 4, 2),
        TensorSegment("b", 6, 1),
    )
    assert cut(parts, 0, 4) == (TensorSegment("a", 5, 4),)
    assert cut(parts, 4, 3) == (TensorSegment("b", 0, 3),)
    assert cut(parts, 3, 2) == (TensorSegment("a", 8, 1), TensorSegment("b", 0, 1))
    assert cut(parts, 1, 9) == (TensorSegment("a", 6, 3), TensorSegment("b", 0, 3), TensorSegment("b", 4, 3))
    assert cut(parts, 2, 0) == ()
