"""Builds with programs that stand in for the FPGA tools: stages, cache, timing, and what is written."""

import json
from pathlib import Path

import msgspec
import pytest

from tests.boards.fakes import calls, install
from vdla.boards import build as build_module
from vdla.boards.board_file import bitstream_digest, read_board_file
from vdla.boards.build import build
from vdla.boards.description import load_board
from vdla.boards.sdram import parameters_at
from vdla.boards.soc import elaborate
from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.presets import SMALL, TINY
from vdla.hw.spec.target import ClockSource, Target

BOARD = msgspec.structs.replace(load_board("ulx3s-85f"), clock_mhz=70.0, first_seeds={})
ASKED = BOARD.clock_mhz


@pytest.fixture(scope="module")
def system():
    return elaborate(BOARD, TINY, ASKED)


@pytest.fixture
def tools(tmp_path, monkeypatch, system):
    """Return a function that installs the programs; elaboration is that of the module, which takes seconds."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(build_module, "elaborate", lambda board, config, mhz: system)

    def use(mhz_of_seed):
        install(folder, monkeypatch, mhz_of_seed, ASKED)
        return folder

    return use


def run(folder: Path, lines: list[str] | None = None, **options):
    return build(BOARD, Target(TINY), folder, [].append if lines is None else lines.append, **options)


def test_a_build_writes_bitstream_report_and_board_file(tools, tmp_path, system):
    tools({1: 75.0})
    report = run(tmp_path / "out")
    bitstream = (tmp_path / "out/bitstream.bit").read_bytes()
    assert bitstream == b"bits of placement 1"
    written = json.loads((tmp_path / "out/report.json").read_text())
    assert written["mhz"] == report.mhz == 75.0
    assert (written["mhz_asked"], written["lut"], written["dsp"], written["block_ram"]) == (
        ASKED,
        14495,
        70,
        50,
    )
    assert written["memory_megabytes_per_second"] == 2 * ASKED  # 16 bits in each cycle
    assert written["memory_modelled"]
    assert read_board_file(tmp_path / "out").target.memory == parameters_at("MT48LC16M16", ASKED)
    file = read_board_file(tmp_path / "out")
    assert file.board.digest == bitstream_digest(report.sources, bitstream)
    assert (file.target.config, file.target.clock_mhz) == (TINY, ASKED)
    assert (file.memory.init, file.csr) == (system.init, system.csr)


def test_tools_get_pins_device_seed_placer_and_router(tools, tmp_path):
    folder = tools({1: 75.0})
    run(tmp_path / "out")
    called = {name: words for name, *words in calls(folder)}
    assert list(called) == ["yosys", "nextpnr-ecp5", "ecppack"]
    assert "synth_ecp5 -top vdla_soc" in called["yosys"][-1]
    routing = " ".join(called["nextpnr-ecp5"])
    assert "--85k --package CABGA381 --speed 6 --placer static --router router2 --tmg-ripup" in routing
    assert "--seed 1" in routing
    assert (
        'FREQUENCY PORT "clk25" 25.500000 MHz;' in (folder / "pins.lpf").read_text()
    )  # 25 MHz with headroom


def test_a_second_build_runs_no_tool(tools, tmp_path):
    folder = tools({1: 75.0})
    run(tmp_path / "out")
    before, lines = calls(folder), []
    run(tmp_path / "again", lines)
    assert calls(folder) == before
    stages = ("elaboration", "synthesis", "routing", "packing")
    assert lines == [
        f"[{number}/4] {name}: kept from an earlier build" for number, name in enumerate(stages, 1)
    ]
    for name in ("bitstream.bit", "board.toml", "report.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_another_clock_or_configuration_is_elaborated_and_synthesised(tools, tmp_path, monkeypatch, system):
    folder, elaborated = tools({1: 75.0}), []

    def counted(board, config, mhz):
        elaborated.append((config.name, mhz))
        return system

    monkeypatch.setattr(build_module, "elaborate", counted)
    for target in (Target(TINY), Target(TINY, clock_mhz=50.0), Target(SMALL), Target(TINY)):
        build(BOARD, target, tmp_path / "out", [].append)
    assert elaborated == [("tiny", ASKED), ("tiny", 50.0), ("small", ASKED)]
    assert [name for name, *_ in calls(folder)] == 3 * ["yosys", "nextpnr-ecp5", "ecppack"]


def test_another_description_of_the_board_is_another_system(tools, tmp_path):
    folder = tools({1: 75.0})
    run(tmp_path / "out")
    slower = msgspec.structs.replace(BOARD, link=msgspec.structs.replace(BOARD.link, baud=115200))
    build(slower, Target(TINY), tmp_path / "out", [].append)
    assert len(calls(folder)) == 6
    assert read_board_file(tmp_path / "out").link.baud == 115200


def test_a_slow_clock_is_refused_with_its_path_and_writes_nothing(tools, tmp_path):
    tools({1: 54.4})
    with pytest.raises(ToolError) as caught:
        run(tmp_path / "out")
    message = str(caught.value)
    assert "54.4 MHz of 70.0 MHz" in message
    assert "vdla_axi.top.core.control.run to sdram.bank, 12.00 ns" in message
    assert "--set clock_mhz=54" in message
    assert not (tmp_path / "out").exists()


def test_a_placement_that_is_not_routed_in_time_is_given_up(tools, tmp_path, monkeypatch):
    monkeypatch.setattr(build_module.os, "cpu_count", lambda: 1)
    monkeypatch.setitem(build_module._SECONDS, "routing", 3.0)
    folder, lines = tools({2: 75.0}), []
    (folder / "endless_1").touch()
    assert run(tmp_path / "out", lines, seeds=2).seed == 2
    assert "seed 1: given up, since it was not routed in 0.05 minutes" in lines
    with pytest.raises(
        ToolError, match=r"^none of the placements \(seeds tried: 1\) was routed in 0\.05 minutes"
    ):
        run(tmp_path / "none", seeds=1)
    assert not (tmp_path / "none").exists()


def test_a_slow_clock_is_handed_over_when_allowed(tools, tmp_path):
    tools({1: 54.4})
    assert not run(tmp_path / "out", allow_slow_clock=True).met
    assert (tmp_path / "out/bitstream.bit").exists()


def test_seeds_are_tried_until_the_timing_is_met(tools, tmp_path, monkeypatch):
    monkeypatch.setattr(build_module.os, "cpu_count", lambda: 1)
    tools({1: 60.0, 2: 71.0, 3: 80.0})
    lines: list[str] = []
    report = run(tmp_path / "out", lines, seeds=3)
    assert (report.seed, report.mhz) == (2, 71.0)
    assert "seed 1: 60.0 MHz, 70.0 asked" in lines


def test_the_first_seed_of_the_board_is_tried_first_and_changes_no_other_stage(tools, tmp_path):
    folder = tools({1: 60.0, 4: 75.0})
    run(tmp_path / "slow", allow_slow_clock=True)
    board = msgspec.structs.replace(BOARD, first_seeds={"tiny": 4})
    assert build(board, Target(TINY), tmp_path / "out", [].append).seed == 4
    assert [name for name, *_ in calls(folder)] == ["yosys", *2 * ["nextpnr-ecp5", "ecppack"]]


def test_the_other_placements_end_with_the_first_whose_timing_is_met(tools, tmp_path, monkeypatch):
    monkeypatch.setattr(build_module.os, "cpu_count", lambda: 3)
    folder, lines = tools({2: 75.0}), []
    for seed in (1, 3, 4):
        (folder / f"endless_{seed}").touch()
    assert run(tmp_path / "out", lines, seeds=4).seed == 2
    assert not [line for line in lines if "given up" in line]


def test_the_fastest_seed_is_handed_over_when_none_is_fast_enough(tools, tmp_path):
    tools({1: 60.0, 2: 65.0, 3: 62.0})
    report = run(tmp_path / "out", seeds=3, allow_slow_clock=True)
    assert (report.seed, report.mhz) == (2, 65.0)


def test_a_build_goes_on_after_the_stage_that_failed(tools, tmp_path):
    folder = tools({})  # nextpnr fails: it has no report for seed 1
    with pytest.raises(ToolError, match=r"(?s)^nextpnr-ecp5 failed: .*report_1\.json"):
        run(tmp_path / "out")
    tools({1: 75.0})
    run(tmp_path / "out")
    assert [name for name, *_ in calls(folder)] == ["yosys", "nextpnr-ecp5", "nextpnr-ecp5", "ecppack"]


def test_an_interrupt_leaves_no_file_and_no_half_stage(tools, tmp_path, monkeypatch):
    folder = tools({1: 75.0})
    real = build_module.ecppack
    monkeypatch.setattr(build_module, "ecppack", lambda purpose: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(build_module, "ecppack", real)
    run(tmp_path / "out")
    assert [name for name, *_ in calls(folder)] == ["yosys", "nextpnr-ecp5", "ecppack"]


def test_a_clock_of_the_target_is_the_system_clock(tools, tmp_path, monkeypatch, system):
    tools({1: 75.0})
    asked = []
    monkeypatch.setattr(build_module, "elaborate", lambda board, config, mhz: asked.append(mhz) or system)
    given = Target(TINY, clock_mhz=50.0, clock_source=ClockSource.GIVEN)
    build(BOARD, given, tmp_path / "out", [].append)
    run(tmp_path / "usual")
    assert asked == [50.0, ASKED]
    assert read_board_file(tmp_path / "out").board.clock_mhz == 50.0


def test_an_output_that_cannot_be_written_is_refused_before_any_work(tools, tmp_path):
    folder = tools({1: 75.0})
    (tmp_path / "out").write_text("a file")
    with pytest.raises(Exception, match="cannot be written"):
        run(tmp_path / "out")
    assert calls(folder) == []
