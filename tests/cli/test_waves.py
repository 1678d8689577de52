"""`--waves` of `vdla run` and `vdla replay`: files of the cycles that were asked for, and one-line errors."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.models import model
from tests.runtime.devices.rtl.waveforms import read_fst, read_vcd
from vdla.cli import main
from vdla.runtime.vectors import load_vector

VECTORS = sorted((Path(__file__).parents[1] / "vectors" / "vta").glob("*.npz"))
BY_SIZE = sorted(VECTORS, key=lambda path: load_vector(path).config.macs_per_cycle)
FIRST = BY_SIZE[0]
SECOND = next(
    path for path in BY_SIZE[1:] if load_vector(path).config.digest == load_vector(FIRST).config.digest
)


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def module(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("waves")
    (folder / "net.onnx").write_bytes(model().SerializeToString())
    done = invoke("compile", folder / "net.onnx", "-o", folder / "net.vdla", "--config", "tiny")
    assert done.exit_code == 0, done.output
    return folder / "net.vdla"


def test_run_writes_a_waveform_of_each_launch(module, tmp_path):
    arguments = ("--device", "rtl", "--waves", tmp_path / "w.vcd", "--waves-from", 30, "--waves-to", 50)
    done = invoke("run", module, *arguments)
    assert done.exit_code == 0, done.output
    files = sorted(tmp_path.iterdir())
    assert (tmp_path / "w.vcd") in files
    assert all(f"{path}: open it in" in done.stderr for path in files)
    waveform = read_vcd(tmp_path / "w.vcd")
    assert waveform.cycles == (30, 50)
    assert "TOP.device_top.core.datapath.load_unit.gate.start" in waveform.signals
    assert "busy" in " ".join(waveform.signals)


@pytest.mark.slow
def test_replay_numbers_the_waveforms_of_several_vectors(tmp_path):
    arguments = ("--device", "functional", "--device", "rtl", "--waves", tmp_path / "w.fst", "--waves-to", 9)
    done = invoke("replay", *arguments, FIRST, SECOND)
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w-2.fst", "w.fst"]
    assert read_fst(tmp_path / "w.fst").cycles == read_fst(tmp_path / "w-2.fst").cycles == (0, 9)


def test_cycles_that_no_run_reaches_are_an_error_after_the_result(tmp_path):
    done = invoke("replay", "--device", "rtl", "--waves", tmp_path / "w.fst", "--waves-from", 10**9, FIRST)
    assert done.exit_code == 2
    assert "1 of 1 match" in done.stdout
    assert done.stderr.endswith(
        "error: no waveform was written: no run reached cycle 1000000000, the first to record\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--waves", "w.vcd"), "--waves needs --device rtl"),
        (("--device", "cycle", "--waves", "w.vcd"), "--waves needs --device rtl"),
        (("--device", "rtl", "--waves-from", 3), "--waves-from and --waves-to need --waves"),
        (("--device", "rtl", "--waves", "w.txt"), "must end in .vcd or .fst"),
        (("--device", "rtl", "--waves", "/proc/sys/w.vcd"), "cannot be written"),
        (
            ("--device", "rtl", "--waves", "w.vcd", "--waves-from", 9, "--waves-to", 3),
            "no cycles from 9 to 3",
        ),
        (("--device", "rtl", "--waves", "w.vcd", "--waves-from", -1), "'--waves-from': -1"),
    ],
)
@pytest.mark.parametrize("command", ["run", "replay"])
def test_bad_options_are_one_line_before_anything_runs(
    command, arguments, message, module, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("vdla.api.Module.run", lambda *_, **__: pytest.fail("it ran"))
    monkeypatch.setattr("vdla.cli.replay.replay", lambda *_: pytest.fail("it ran"))
    done = invoke(command, *arguments, module if command == "run" else FIRST)
    assert done.exit_code == 2
    assert message in done.stderr.splitlines()[-1]
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())
