"""`vdla build`: what it prints, and what it refuses."""

import json

import pytest
from click.testing import CliRunner

from tests.boards.fakes import install
from tests.scripts.test_build_boards import SYSTEM
from vdla.boards import build as build_module
from vdla.cli import main


@pytest.fixture
def tools(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(build_module, "elaborate", lambda *arguments: SYSTEM)

    def use(mhz):
        install(tmp_path, monkeypatch, {1: mhz}, 70.0)

    return use


def build(folder, *arguments):
    line = ["build", "--board", "ulx3s-85f", "--target", "tiny", "-o", str(folder), *arguments]
    return CliRunner().invoke(main, line)


def test_the_report_is_printed_and_the_progress_goes_to_standard_error(tools, tmp_path):
    tools(71.25)
    done = build(tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[:3] == [
        "ulx3s-85f, tiny: 71.2 MHz reached, 50 MHz asked, timing met (seed 1)",
        "14,495 of 83,640 LUT4, 70 of 156 multipliers, 50 of 208 block RAMs, 9,000 flip-flops",
        "DRAM: 2 bytes a cycle, 100 MB/s (the cycle simulator models it)",
    ]
    assert [line[:5] for line in done.stderr.splitlines()] == [f"[{stage}/4]" for stage in (1, 2, 3, 4)]


def test_the_report_as_json_is_the_report_of_the_folder(tools, tmp_path):
    tools(71.25)
    done = build(tmp_path / "out", "--json")
    assert json.loads(done.stdout) == json.loads((tmp_path / "out/report.json").read_text())


def test_a_slow_clock_is_an_error_with_exit_status_2_unless_allowed(tools, tmp_path):
    tools(54.4)
    done = build(tmp_path / "out")
    assert done.exit_code == 2
    assert "error: ulx3s-85f: the timing is not met, and no file was written." in done.stderr
    allowed = build(tmp_path / "out", "--allow-slow-clock")
    assert allowed.exit_code == 0
    assert "timing NOT met" in allowed.stdout


def test_an_unknown_board_is_refused():
    done = CliRunner().invoke(main, ["build", "--board", "nothing", "-o", "x"])
    assert done.exit_code == 2
    assert "error: board 'nothing' is unknown; there are " in done.output
