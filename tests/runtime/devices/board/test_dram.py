"""The record of what stands in the DRAM of a board: codec, use by the next device, and what ends it."""

import numpy as np
import pytest

from tests.programs.cases import DATA
from tests.runtime.devices.board.boards import COPY, RESULT, STREAM, expected, image, opened
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.device import PAGE_BYTES
from vdla.runtime.devices.board.dram import MOST_RANGES, decoded, encoded

COUNT = len(COPY) // TINY.instruction_bytes
STORED = 4 * TINY.element_bytes(MemoryType.OUT)
RANGES = {(1, 2): bytes(range(32)), (9, 1): bytes(32)}


def test_a_record_reads_back_equal():
    assert decoded(encoded(RANGES)) == RANGES
    assert decoded(encoded({})) == {}
    assert encoded(RANGES).size % 4 == 0


def test_the_largest_ranges_are_kept_where_there_are_too_many():
    many = {(place * 100, 1 + place % 7): bytes(32) for place in range(MOST_RANGES + 50)}
    kept = decoded(encoded(many))
    assert len(kept) == MOST_RANGES
    assert min(pages for _, pages in kept) >= max(pages for each, pages in many if (each, pages) not in kept)


@pytest.mark.parametrize("place", [0, 6, 8, 20, 60, 100])
def test_a_damaged_record_is_no_record(place):
    contents = encoded(RANGES).copy()
    contents[place] ^= 1
    assert decoded(contents) == {}


PAGE_WORDS = PAGE_BYTES // 4
RECORDS = 200  # words of records, at most, that a device writes here


def words_sent(board, folder, seed: int) -> int:
    """Run COPY on a page of constants, on a new device; check the result, return the words that were sent."""
    before = board.written
    with opened(board.file, folder) as device:
        device.copy_in(DATA, image(seed)[DATA : DATA + PAGE_BYTES])
        device.copy_in(STREAM, COPY)
        device.run(STREAM, COUNT)
        np.testing.assert_array_equal(
            device.copy_out(RESULT, STORED), expected(seed)[RESULT : RESULT + STORED]
        )
    return board.written - before


def pages_sent(board, folder, seed: int) -> int:
    """Return the pages that were sent for `words_sent`: of constants, stream and results."""
    pages, records = divmod(words_sent(board, folder, seed), PAGE_WORDS)
    assert records < RECORDS
    return pages


def test_the_next_device_sends_no_constants_that_the_board_has(board, tmp_path):
    assert pages_sent(board, tmp_path, 1) == 3
    assert pages_sent(board, tmp_path, 1) == 1


def test_constants_that_changed_are_sent_again(board, tmp_path):
    assert [pages_sent(board, tmp_path, seed) for seed in (1, 2, 1)] == [3, 2, 2]


def test_dram_that_was_initialised_again_has_no_record(board, tmp_path):
    pages_sent(board, tmp_path, 1)
    board._done = 0
    board._controls.clear()
    assert pages_sent(board, tmp_path, 1) == 3


def test_constants_that_differ_from_the_record_are_sent_again(board, tmp_path):
    pages_sent(board, tmp_path, 1)
    board._dram[DATA : DATA + PAGE_BYTES] ^= 0xFF
    assert pages_sent(board, tmp_path, 1) == 2
