"""`board.toml`: written and read back equal; damaged files are refused."""

import re
from dataclasses import replace

import msgspec
import pytest

from vdla.boards.board_file import (
    BoardFile,
    BoardTable,
    LevellingTable,
    LinkTable,
    MapTable,
    MemoryTable,
    from_toml,
    read_board_file,
    to_toml,
)
from vdla.hw.spec import target_files
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.presets import SMALL, TINY
from vdla.hw.spec.target import Target

LEVELLING = LevellingTable(modules=2, delays=8, bitslips=4, phases=2, read_phase=0, write_phase=1)
TARGET = replace(Target(SMALL), clock_mhz=70.0)
FILE = BoardFile(
    board=BoardTable(
        name="ulx3s-85f",
        clock_mhz=70.0,
        config_digest=SMALL.digest,
        digest="0" * 64,
        target=target_files.to_toml(TARGET),
    ),
    link=LinkTable(kind="uartbone", port="/dev/ttyUSB0", baud=1_000_000),
    map=MapTable(registers=0x3000_0000, memory=0x4000_0000, memory_bytes=32 << 20),
    memory=MemoryTable(
        kind="SDR", part="MT48LC16M16", init=((2048, 14, 0), (2060, 0, 267)), levelling=LEVELLING
    ),
    csr={"ctrl_reset": 0, "sdram_dfii_control": 2048},
)


def test_a_file_reads_back_equal(tmp_path):
    (tmp_path / "board.toml").write_text(to_toml(FILE))
    assert read_board_file(tmp_path) == read_board_file(tmp_path / "board.toml") == FILE


def test_a_file_without_optional_tables_reads_back_equal():
    small = msgspec.structs.replace(FILE, csr={}, memory=MemoryTable(kind="model", part="none"))
    assert from_toml(to_toml(small)) == small


def test_the_target_is_the_one_that_was_built():
    assert FILE.target == TARGET


def test_a_target_of_another_configuration_is_refused():
    other = msgspec.structs.replace(FILE.board, config_digest=TINY.digest)
    with pytest.raises(
        ConfigError, match=re.escape(f"the configuration in board.target has {SMALL.digest[:8]}")
    ):
        _ = msgspec.structs.replace(FILE, board=other).target


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("memory_bytes = 33554432", "memory_bytes = 0", "Expected `int` >= 1 - at `$.map.memory_bytes`"),
        ('kind = "uartbone"', 'kind = "usb"', "Invalid enum value 'usb' - at `$.link.kind`"),
        ("[2048, 14, 0]", "[2048, 14]", "Expected `array` of length 3, got 2 - at `$.memory.init[0]`"),
        ("[2048, 14, 0]", "[2048, -1, 0]", "Expected `int` >= 0 - at `$.memory.init[0][1]`"),
        ("registers", "register", "Object contains unknown field `register` - at `$.map`"),
        ("[map]", "map", "board.toml is not TOML"),
    ],
)
def test_a_damaged_file_is_refused_with_file_and_key(tmp_path, old, new, message):
    text = to_toml(FILE)
    assert old in text
    (tmp_path / "board.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        read_board_file(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"board\.toml cannot be read"):
        read_board_file(tmp_path)
