"""`vdla build`: what it prints, and what it refuses."""

import json

import pytest
from click.testing import CliRunner

from tests.boards.fakes import install
from tests.scripts.test_build_boards import SYSTEM
from vdla.boards import build as build_module
from vdla.cli import main
from vdla.explore.silicon import synthesis
from vdla.explore.silicon.synthesis import Area


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


@pytest.fixture
def area(monkeypatch):
    """Let the core take what the test says, without a synthesis; return the calls."""
    asked = []

    def use(**changes):
        taken = {"lut": 5745.0, "ff": 5489.0, "dsp": 20.0, "block_ram": 6.5} | changes

        def measured(config, family, tell):
            asked.append((config.name, family))
            return Area(**taken, hierarchy={})

        monkeypatch.setattr(synthesis, "area_of", measured)
        return asked

    return use


def test_a_zynq_board_gets_a_project_and_needs_no_litex(area, tmp_path, monkeypatch):
    asked = area()
    monkeypatch.setattr("vdla.cli.build.require_package", lambda *names: pytest.fail(f"{names} is asked for"))
    done = build(tmp_path / "my out", "--board", "pynq-z2")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "pynq-z2, tiny: a Vivado project for 100 MHz, not run in Vivado",
        "core after synthesis by Yosys: 5,745 of 53,200 LUTs, 20 of 220 DSP blocks, 6.5 of 140 block RAMs, 5,489 of 106,400 flip-flops",
        f"make the bitstream: cd '{tmp_path}/my out' && vivado -mode batch -source build.tcl",
        f"{tmp_path}/my out",
    ]
    assert asked == [("tiny", "xc7")]
    assert {file.name for file in (tmp_path / "my out").iterdir()} == {
        "board.toml",
        "build.tcl",
        "report.json",
        "vdla_axi.v",
    }


def test_the_report_of_a_project_as_json_is_the_report_of_the_folder(area, tmp_path):
    area()
    done = build(tmp_path, "--board", "kv260", "--json", "--allow-slow-clock")
    assert json.loads(done.stdout) == json.loads((tmp_path / "report.json").read_text())
    assert "set allow_slow_clock {1}" in (tmp_path / "build.tcl").read_text()


def test_a_core_that_is_too_large_for_the_board_is_an_error(area, tmp_path):
    area(dsp=221.0)
    done = build(tmp_path / "out", "--board", "arty-z7-20")
    assert done.exit_code == 2
    assert (
        "error: tiny does not fit into the xc7z020clg400-1 of arty-z7-20: it takes 221 of 220" in done.stderr
    )
    assert not (tmp_path / "out").exists()


def test_placements_are_not_for_vivado(tmp_path):
    done = build(tmp_path / "out", "--board", "kv260", "--seeds", "2")
    assert done.exit_code == 2
    assert "error: --seeds 2 is for boards without Vivado; leave it out for kv260" in done.stderr


def test_flash_refuses_a_project_for_vivado(area, tmp_path):
    area()
    build(tmp_path, "--board", "pynq-z2")
    done = CliRunner().invoke(main, ["flash", str(tmp_path)])
    assert done.exit_code == 2
    assert "board.loader is empty: openFPGALoader is not used for board pynq-z2" in done.stderr
