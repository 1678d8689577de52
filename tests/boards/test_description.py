"""Descriptions of boards: the files of the kit, and what the reader refuses."""

import re

import pytest

from vdla.boards.description import FOLDER, board_names, load_board
from vdla.hw.spec.errors import ConfigError


@pytest.mark.parametrize("name", board_names())
def test_a_description_has_the_name_of_its_file(name):
    assert load_board(name).name == name


def test_a_file_anywhere_describes_a_board(tmp_path):
    text = (FOLDER / "ulx3s-85f.toml").read_text()
    (tmp_path / "mine.toml").write_text(text.replace('"ulx3s-85f"', '"mine"'))
    assert load_board(tmp_path / "mine.toml").name == "mine"


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
