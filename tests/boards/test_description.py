"""Descriptions of boards: the files of the kit, and what the reader refuses."""

import re

import msgspec
import pytest

from vdla.boards.description import FOLDER, Board, ZynqBoard, board_names, load_board, load_litex_board
from vdla.hw.spec.errors import ConfigError


@pytest.mark.parametrize("name", board_names())
def test_a_description_has_the_name_of_its_file(name):
    assert load_board(name).name == name


def test_a_file_anywhere_describes_a_board(tmp_path):
    text = (FOLDER / "ulx3s-85f.toml").read_text()
    (tmp_path / "mine.toml").write_text(text.replace('"ulx3s-85f"', '"mine"'))
    assert load_board(tmp_path / "mine.toml").name == "mine"


def test_a_table_zynq_makes_a_board_for_vivado():
    assert set(board_names(ZynqBoard)) == {"arty-z7-20", "kv260", "pynq-z2"}
    assert set(board_names(Board)) | set(board_names(ZynqBoard)) == set(board_names())
    assert load_litex_board("ulx3s-85f") == load_board("ulx3s-85f")
    with pytest.raises(ConfigError, match=r"Vivado makes the system of board kv260; LiteX has .*ulx3s-85f"):
        load_litex_board("kv260")


@pytest.mark.parametrize(
    ("target", "count", "seeds"),
    [
        ("small", 1, [2]),
        ("small", 2, [2, 1]),
        ("small", 4, [2, 1, 3, 4]),
        ("tiny", 1, [1]),
        ("tiny", 3, [1, 2, 3]),
    ],
)
def test_the_seed_that_the_board_names_for_a_target_is_tried_first(target, count, seeds):
    board = msgspec.structs.replace(load_litex_board("orangecrab-85f"), first_seeds={"small": 2})
    assert board.seeds(target, count) == seeds


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('port = "HP0"', 'port = "ACP"', "Invalid enum value 'ACP' - at `$.zynq.port`"),
        (
            'system = "zynq_ultra_ps_e"',
            'system = "versal"',
            "Invalid enum value 'versal' - at `$.zynq.system`",
        ),
        (
            "xck26-sfvc784-2LV-c",
            "xck26; exit",
            "Expected `str` matching regex '^[A-Za-z0-9_.:-]+$' - at `$.zynq.part`",
        ),
        ("0x6000_0000", "0x6_0000_0000", "Expected `int` <= 4294967295 - at `$.map.memory`"),
        ("dsp = 1248\n", "", "Object missing required field `dsp` - at `$.capacity`"),
        ('kind = "devmem"', 'kind = "jtag"', "Invalid enum value 'jtag' - at `$.link.kind`"),
    ],
)
def test_a_wrong_description_of_a_zynq_is_refused(tmp_path, old, new, message):
    text = (FOLDER / "kv260.toml").read_text()
    assert old in text
    (tmp_path / "mine.toml").write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_board(tmp_path / "mine.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("baud = 1000000", "baud = 1", "Expected `int` >= 9600 - at `$.link.baud`"),
        ('kind = "SDR"', 'kind = "HBM"', "Invalid enum value 'HBM' - at `$.memory.kind`"),
        ("clock_mhz = 50", "clock_mhz = 0", "Expected `float` > 0.0 - at `$.clock_mhz`"),
        ("clock_mhz = 50", "clock_ghz = 1", "Object contains unknown field `clock_ghz`"),
        ("[memory]", "[memory", "mine.toml is not TOML"),
    ],
)
def test_a_wrong_description_is_refused_with_file_key_and_what_is_allowed(tmp_path, old, new, message):
    text = (FOLDER / "ulx3s-85f.toml").read_text()
    assert old in text
    (tmp_path / "mine.toml").write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        load_board(tmp_path / "mine.toml")
    assert "mine.toml" in str(caught.value)


def test_an_unknown_board_is_refused_with_those_that_there_are():
    with pytest.raises(ConfigError, match=r"board 'ulx4s' is unknown; there are .*ulx3s-85f.*, and files"):
        load_board("ulx4s")
