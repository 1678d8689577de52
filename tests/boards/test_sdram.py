"""The model of a board's DRAM: that of LiteDRAM's settings for SDR SDRAM, and none for DDR3."""

import msgspec
import pytest

from vdla.boards.description import Board, board_names, load_board
from vdla.boards.sdram import memory_model, parameters_at


def test_sdr_boards_have_a_model_at_their_clock():
    memory = load_board("ulx3s-85f").memory
    slow, fast = memory_model(memory, 50), memory_model(memory, 100)
    assert slow == parameters_at("MT48LC16M16", 50)
    assert fast.refresh_interval == pytest.approx(2 * slow.refresh_interval, abs=2)


def test_other_memories_have_no_model():
    kinds = {name: load_board(name).memory for name in board_names(Board)}
    assert {name for name, memory in kinds.items() if memory_model(memory, 60) is None} == {
        name for name, memory in kinds.items() if memory.kind == "DDR3"
    }
    half_rate = msgspec.structs.replace(kinds["ulx3s-85f"], rate="1:2")
    assert memory_model(half_rate, 60) is None
