"""The script that builds the rows of docs/boards.md, with programs that stand in for the FPGA tools."""

import json

import build_boards
import pytest
from click.testing import CliRunner

from tests.boards.fakes import calls, install
from vdla.boards import build as build_module
from vdla.boards.description import Board, board_names, load_litex_board
from vdla.boards.soc import System

SYSTEM = System(
    "module vdla_soc; endmodule", "LOCATE COMP", ("--85k",), {}, (), None, 0x4000_0000, 1 << 25, 2.0
)


def test_the_page_shows_the_table_of_the_store():
    text = build_boards.PAGE.read_text()
    assert build_boards.page_with(text, build_boards.stored()) == text


def test_the_seed_of_a_row_that_met_its_timing_is_tried_first():
    for row in build_boards.stored():
        if row["met"]:
            assert load_litex_board(row["board"]).seeds(row["target"], 1) == [row["seed"]]


def test_rows_are_boards_of_the_kit_and_no_board_of_litex_is_left_out():
    assert {board for board, _ in build_boards.ROWS} == set(board_names(Board))


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Let the script write into a folder of the test."""
    for name in ("STORE", "PAGE"):
        monkeypatch.setattr(build_boards, name, tmp_path / getattr(build_boards, name).name)
    build_boards.PAGE.write_text(f"before\n{build_boards.BEGIN}{build_boards.END}after\n")
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(build_module, "elaborate", lambda *arguments: SYSTEM)
    return tmp_path


def test_a_board_is_built_stored_and_shown(store, monkeypatch):
    install(store, monkeypatch, {1: 66.0, 2: 60.0, 6: 60.0}, 70.0)  # small tries 6 and 1, tiny 1 and 2
    done = CliRunner().invoke(build_boards.main, ["--board", "ulx3s-85f", "--seeds", "2"])
    assert done.exit_code == 0, done.output
    rows = json.loads(build_boards.STORE.read_text())
    assert [(row["board"], row["target"], row["mhz"], row["met"]) for row in rows] == [
        ("ulx3s-85f", "small", 66.0, False),
        ("ulx3s-85f", "tiny", 66.0, False),
    ]
    page = build_boards.PAGE.read_text()
    assert (
        "| ulx3s-85f | small | 70 | 66.0 | not met | 14,495 of 83,640 | 70 of 156 | 50 of 208 | 140 | 19 |"
        in page
    )
    assert "not built to a bitstream yet: colorlight-i9, ecpix-5-85f, orangecrab-85f." in page
    assert page.startswith("before\n")
    assert page.endswith("after\n")


def test_only_the_rows_of_a_target_are_built_at_their_clocks(store, monkeypatch):
    install(store, monkeypatch, {1: 80.0, 6: 80.0}, 70.0)
    monkeypatch.setattr(build_boards, "ROWS", {("ulx3s-85f", "small"): 55.0, ("ulx3s-85f", "tiny"): 65.0})
    done = CliRunner().invoke(build_boards.main, ["--board", "ulx3s-85f", "--target", "tiny", "--seeds", "1"])
    assert done.exit_code == 0, done.output
    rows = json.loads(build_boards.STORE.read_text())
    assert [(row["target"], row["mhz_asked"], row["mhz"]) for row in rows] == [("tiny", 65.0, 80.0)]


def test_rows_of_other_boards_stay(store, monkeypatch):
    install(store, monkeypatch, {1: 80.0, 6: 80.0}, 70.0)
    for board in ("colorlight-i9", "ulx3s-85f"):
        assert CliRunner().invoke(build_boards.main, ["--board", board, "--seeds", "1"]).exit_code == 0
    boards = [row["board"] for row in json.loads(build_boards.STORE.read_text())]
    assert boards == ["ulx3s-85f", "ulx3s-85f", "colorlight-i9"]


def test_a_failing_tool_ends_the_script_with_its_error(store, monkeypatch):
    install(store, monkeypatch, {}, 70.0)
    done = CliRunner().invoke(build_boards.main, ["--board", "colorlight-i9", "--seeds", "1"])
    assert done.exit_code == 2
    assert "error: nextpnr-ecp5 failed" in done.output
    assert not build_boards.STORE.exists()
    assert [name for name, *_ in calls(store)] == ["yosys", "nextpnr-ecp5"]
