"""Rows of bytes in DRAM: where they begin and end, which of them meet a range, and the same bytes in fewer
rows."""

import random

import numpy as np
import pytest

from tests.sim.helpers import CONFIG, INP, OUT, UOP, WGT, gemm, load, store, stream_of
from vdla.hw.spec import isa
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.sim import rows
from vdla.sim.decoded import decode_stream
from vdla.sim.rows import NO_ROW, DramRows, dram_rows, element_bytes, moved_memories

EVERYTHING = CONFIG.with_changes(name="everything", extensions=tuple(Extension))


def rows_of(*transfers: tuple[int, int, int, int]) -> DramRows:
    """Return transfers of (begin, stride, width, count)."""
    columns = np.array(transfers, np.int64).reshape(-1, 4).T
    places = np.arange(len(transfers))
    return DramRows(places, np.full(len(transfers), INP, np.int64), *columns)


def listed(transfer: tuple[int, int, int, int]) -> list[tuple[int, int]]:
    """Return begin and end of each row."""
    begin, stride, width, count = transfer
    return [(begin + row * stride, begin + row * stride + width) for row in range(count)]


def random_transfer(rng: random.Random) -> tuple[int, int, int, int]:
    """Return rows that overlap, touch or leave gaps; some repeat a single place."""
    width = rng.randint(1, 5)
    return rng.randint(0, 12), rng.choice((0, 1, width - 1, width, width + 1, 9)), width, rng.randint(1, 4)


TRANSFERS = [random_transfer(random.Random(seed)) for seed in range(60)]


def test_the_end_is_behind_the_last_byte_of_the_last_row():
    assert rows_of(*TRANSFERS).end.tolist() == [listed(transfer)[-1][1] for transfer in TRANSFERS]


@pytest.mark.filterwarnings("error")  # NumPy warns of a division by 0, and goes on
def test_the_first_row_in_a_range_is_the_first_with_a_byte_there():
    first_rows, expected = [], []
    for low in range(50):
        for high in (low + 1, low + 3):
            first_rows.append(rows_of(*TRANSFERS).first_row_in(low, high).tolist())
            expected.append(
                [
                    next(
                        (row for row, (begin, end) in enumerate(listed(it)) if begin < high and end > low),
                        NO_ROW,
                    )
                    for it in TRANSFERS
                ]
            )
    assert first_rows == expected


def test_merged_rows_hold_the_same_bytes_and_those_without_a_gap_are_one():
    merged = rows_of(*TRANSFERS).merged()
    for place, transfer in enumerate(TRANSFERS):
        row = (int(getattr(merged, name)[place]) for name in ("begin", "stride", "width", "count"))
        after, before = listed(tuple(row)), listed(transfer)
        assert {byte for begin, end in after for byte in range(begin, end)} == {
            byte for begin, end in before for byte in range(begin, end)
        }
        dense = transfer[1] <= transfer[2]
        assert len(after) == (1 if dense else transfer[3])
    assert merged.index.tolist() == list(range(len(TRANSFERS)))


@pytest.mark.parametrize("at_once", [1, 2, 7, 1 << 20])
def test_all_rows_are_listed_in_order_a_few_at_a_time(at_once, monkeypatch):
    monkeypatch.setattr(rows, "PART_ROWS", at_once)
    parts = [
        list(zip(*(column.tolist() for column in part), strict=True)) for part in rows_of(*TRANSFERS).listed()
    ]
    assert [row for part in parts for row in part] == [
        (place, *row) for place, transfer in enumerate(TRANSFERS) for row in listed(transfer)
    ]
    assert max(map(len, parts)) <= at_once + max(transfer[3] for transfer in TRANSFERS)
    assert list(rows_of().listed()) == []


def test_chosen_transfers_keep_all_that_is_known_of_them():
    chosen = rows_of(*TRANSFERS).chosen(np.array([3, 5]))
    columns = zip(chosen.begin, chosen.stride, chosen.width, chosen.count, strict=True)
    assert [tuple(map(int, row)) for row in columns] == [TRANSFERS[3], TRANSFERS[5]]
    assert (len(chosen), chosen.index.tolist()) == (2, [3, 5])


PROGRAM = (
    load(WGT, dram_base=3, y_size=2, x_size=5, x_stride=7),
    store(dram_base=9, y_size=3, x_size=2, x_stride=4),
    load(UOP, dram_base=11),
    load(INP, x_size=0),
    load(INP, y_size=0),
    store(x_size=0),
    isa.Gather(memory_type=INP, dram_base=13, y_size=2, x_size=3, x_stride=50, step=6),
    gemm(),
    load(INP, dram_base=1, y_size=0, y_pad_0=1),
    isa.Finish(),
    load(INP),
    store(),
)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (isa.Load, [(0, WGT, 3 * 16, 7 * 16, 5 * 16, 2), (2, UOP, 11 * 4, 4, 4, 1)]),
        (isa.Store, [(1, OUT, 9 * 4, 4 * 4, 2 * 4, 3)]),
        (isa.Gather, [(6, INP, 13, 50, 2 * 6 + 4, 2)]),
    ],
    ids=["LOAD", "STORE", "GATHER"],
)
def test_transfers_up_to_finish_that_move_anything_have_rows(form, expected):
    transfers = dram_rows(decode_stream(stream_of(PROGRAM, EVERYTHING), EVERYTHING), form)
    columns = (getattr(transfers, name).tolist() for name in DramRows.__dataclass_fields__)
    assert list(zip(*columns, strict=True)) == expected


def test_memories_are_named_in_program_order():
    program = decode_stream(stream_of(PROGRAM, EVERYTHING), EVERYTHING)
    assert moved_memories(program, isa.Load).tolist() == [WGT, UOP, INP, INP, INP, INP]
    assert moved_memories(program, isa.Store).tolist() == [OUT] * 3
    assert moved_memories(program, isa.Gather).tolist() == [INP]


def test_elements_have_their_bytes_in_dram():
    uneven = CONFIG.with_changes(batch=2, wgt_bits=4, acc_buffer_bytes=512, wgt_buffer_bytes=128)
    memories, fields = np.arange(len(MemoryType)), {"halvings": np.zeros(len(MemoryType), int)}.__getitem__
    sizes = dict(zip(MemoryType, element_bytes(memories, fields, uneven).tolist(), strict=True))
    assert sizes == {UOP: 4, WGT: 8, INP: 8, MemoryType.ACC: 32, OUT: 8} | {
        MemoryType.ACC_8BIT: 8,
        MemoryType.TABLE: 4,
        MemoryType.RES: 8,
    }


def test_only_weights_are_narrower_in_dram_by_the_halvings_of_their_loads():
    memories, halvings = np.array([WGT, WGT, WGT, INP, UOP]), np.array([0, 1, 2, 2, 1])
    sizes = element_bytes(memories, {"halvings": halvings}.__getitem__, EVERYTHING)
    wide = EVERYTHING.element_bytes(WGT)
    assert sizes.tolist() == [wide, wide // 2, wide // 4, EVERYTHING.element_bytes(INP), 4]
