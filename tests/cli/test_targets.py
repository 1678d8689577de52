"""Targets on the command line: given by --config, --target and --set, recorded in modules, overridden by
`vdla run`."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import invoke
from tests.cli.models import model
from vdla import api
from vdla.explore.silicon.clock import estimated_clock
from vdla.hw.spec.presets import TINY
from vdla.runtime.module.file import load

FAR = ("--set", "memory.latency=400", "--set", "clock_mhz=50")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("targets")
    (folder / "net.onnx").write_bytes(model().SerializeToString())
    for name, options in {
        "near": ("--config", "tiny"),
        "same": ("--target", "tiny"),
        "far": ("--target", "tiny", *FAR),
    }.items():
        result = invoke("compile", folder / "net.onnx", "-o", folder / f"{name}.vdla", *options)
        assert result.exit_code == 0, result.stderr
    return folder


def ran(module: Path, *options: object) -> dict:
    return json.loads(invoke("run", module, "--device", "cycle", "--json", *options).stdout)


def test_config_and_target_name_the_same_record(folder):
    assert (folder / "same.vdla").read_bytes() == (folder / "near.vdla").read_bytes()
    refused = invoke(
        "compile", folder / "net.onnx", "-o", folder / "x.vdla", "--config", "tiny", "--target", "small"
    )
    assert refused.exit_code == 2
    assert "--config tiny and --target small name one record; give one of them" in refused.stderr


def test_a_module_records_memory_and_clock(folder):
    target = load(folder / "far.vdla").target
    assert (target.config.digest, target.memory.latency, target.memory.depth, target.clock_mhz) == (
        TINY.digest,
        400,
        16,
        50.0,
    )
    assert (
        json.loads(invoke("inspect", folder / "far.vdla", "--json").stdout)["target_digest"] == target.digest
    )
    assert (
        "50 MHz, memory of 400 cycles' latency and 16 requests in flight, 8 bytes per cycle"
        in invoke("inspect", folder / "far.vdla").stdout
    )


def test_a_module_runs_with_its_own_memory_and_clock_unless_told_otherwise(folder):
    untold, told = ran(folder / "far.vdla"), ran(folder / "far.vdla", "--latency", 64, "--clock", 100)
    assert untold["seconds"] == pytest.approx(untold["cycles"] / 50e6)
    assert told["seconds"] == pytest.approx(told["cycles"] / 100e6)
    assert told["cycles"] < untold["cycles"]
    assert ran(folder / "far.vdla", "--depth", 1)["cycles"] > untold["cycles"]


@pytest.mark.parametrize(
    ("settings", "options", "text"),
    [
        ((), (), "100 MHz (the preset's clock, not a design's)"),
        (("clock_mhz=50",), (), "50 MHz (from --set, --clock or the target's file)"),
        (("clock_mhz=100",), (), "100 MHz (from --set, --clock or the target's file)"),
        ((), ("--clock", 40), "40 MHz (from --set, --clock or the target's file)"),
        (
            ("clock_mhz=51.9", "clock_source=estimated"),
            (),
            "51.9 MHz (estimated, see vdla timing --estimate)",
        ),
        (("clock_mhz=52", "clock_source=routed"), (), "52 MHz (routed)"),
        (("clock_mhz=52", "clock_source=routed"), ("--clock", 9), "9 MHz (from --set, --clock or"),
    ],
)
def test_a_run_says_where_its_clock_is_from(folder, settings, options, text):
    target = [part for setting in settings for part in ("--set", setting)]
    written = invoke("config", "tiny", *target, "-o", folder / "own.toml")
    assert written.exit_code == 0, written.stderr
    compiled = invoke(
        "compile", folder / "net.onnx", "-o", folder / "own.vdla", "--config", folder / "own.toml"
    )
    assert compiled.exit_code == 0, compiled.stderr
    assert options or text in compiled.stdout
    assert text in invoke("run", folder / "own.vdla", "--device", "cycle", *options).stdout


@pytest.mark.parametrize(("source", "word"), [("estimated", "estimated"), ("extrapolated", "extrapolated: ")])
def test_a_time_at_an_estimated_clock_is_shown_with_its_interval_and_its_limit(folder, source, word):
    clock = estimated_clock(TINY, "ecp5")
    settings = ("--set", f"clock_mhz={clock.mhz}", "--set", f"clock_source={source}")
    written = invoke("config", "tiny", *settings, "-o", folder / "estimated.toml")
    assert written.exit_code == 0, written.stderr
    file = folder / f"{source}.vdla"
    compiled = invoke("compile", folder / "net.onnx", "-o", file, "--config", folder / "estimated.toml")
    limit = f"{clock.low:g} to {clock.high:g} MHz, limited by {clock.limited_by}), "
    shown = invoke("run", file, "--device", "cycle").stdout
    for text in (compiled.stdout, shown, str(api.load(file).summary())):
        assert f" at {clock.mhz:g} MHz ({word}" in text
        assert limit in text
    assert limit not in invoke("run", file, "--device", "cycle", "--clock", 9).stdout


def test_a_bad_latency_is_refused_in_one_line(folder):
    refused = invoke("run", folder / "far.vdla", "--latency", 0)
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (
        2,
        "error: memory latency = 0 is outside 1..1048576",
    )


def test_config_shows_a_whole_target():
    values = json.loads(invoke("config", "tiny", *FAR, "--json").stdout)
    assert (values["memory"], values["clock_mhz"], values["digest"]) == (
        {"latency": 400, "depth": 16, "cycles_per_beat": 1},
        50.0,
        TINY.digest,
    )
    text = invoke("config", "tiny", *FAR).stdout
    assert "400 cycles of latency, 16 requests in flight, 1 cycles per beat" in text
    assert "50 MHz" in text
