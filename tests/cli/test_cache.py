"""`vdla cache`: what it shows, and what it deletes."""

import json

import pytest
from click.testing import CliRunner

from vdla.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    (tmp_path / "verilog" / "key").mkdir(parents=True)
    (tmp_path / "verilog" / "key" / "core.v").write_bytes(bytes(1000))
    (tmp_path / "choices.sqlite").write_bytes(bytes(24))
    (tmp_path / "own.txt").write_text("not the kit's")
    return tmp_path


def test_the_folder_and_its_sizes_are_shown(folder):
    values = json.loads(CliRunner().invoke(main, ["cache", "show", "--json"]).stdout)
    assert values == {
        "folder": str(folder),
        "bytes": {"choices.sqlite": 24, "area": 0, "rtl": 0, "verilated": 0, "verilog": 1000},
    }
    assert CliRunner().invoke(main, ["cache", "show"]).stdout.startswith(f"{folder}\n")


def test_clearing_deletes_what_the_kit_keeps_and_nothing_else(folder):
    assert CliRunner().invoke(main, ["cache", "clear"]).stdout == f"{folder}: emptied\n"
    assert [path.name for path in folder.iterdir()] == ["own.txt"]
    assert CliRunner().invoke(main, ["cache", "clear"]).exit_code == 0
