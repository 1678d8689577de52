"""`vdla replay` keeps its contract: what it prints, and its exit status."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from vdla.cli.replay import command
from vdla.runtime import vectors
from vdla.runtime.devices import registry

VECTORS = Path(__file__).parents[1] / "vectors" / "vta"
GOOD = VECTORS / "padacc8_b8.npz"


def invoke(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@pytest.fixture
def changed(tmp_path):
    """Return a function that writes a copy of a good vector with other arrays and returns its path."""

    def write(**arrays):
        path = tmp_path / "changed.npz"
        with np.load(GOOD) as file:
            np.savez(path, **{**{name: file[name] for name in file.files}, **arrays})
        return path

    return write


def wrong_result(changed) -> Path:
    with np.load(GOOD) as file:
        name = next(name for name in file.files if name.endswith("_final"))
        values = file[name].copy()
    values[0] ^= 1
    return changed(**{name: values})


def illegal_program(changed) -> Path:
    finish = np.full((1, 16), 0xFF, np.uint8)
    return changed(instructions=finish)


def test_json_has_one_object_per_run_with_the_fixed_keys():
    outcome = invoke("--json", "--device", "functional", GOOD, VECTORS / "alu_imm4_b8.npz")
    rows = json.loads(outcome.stdout)
    assert outcome.exit_code == 0
    assert [set(row) for row in rows] == [{"name", "device", "match", "cycles", "seconds"}] * 2
    assert [row["name"] for row in rows] == [
        vectors.load_vector(path).name for path in (GOOD, VECTORS / "alu_imm4_b8.npz")
    ]
    assert all(row["match"] is True and row["cycles"] is None and row["seconds"] > 0 for row in rows)


def test_several_devices_each_replay_each_vector():
    outcome = invoke("--json", "--device", "functional", "--device", "rtl", GOOD)
    rows = json.loads(outcome.stdout)
    assert outcome.exit_code == 0
    assert [row["device"] for row in rows] == ["functional", "rtl"]
    assert rows[0]["cycles"] is None
    assert rows[1]["cycles"] > 64


def test_the_table_is_for_people():
    outcome = invoke(GOOD)
    assert outcome.exit_code == 0
    assert outcome.stdout.splitlines()[0].split() == ["vector", "device", "match", "cycles", "seconds"]
    assert outcome.stdout.splitlines()[-1] == "1 of 1 match"


def test_a_mismatch_is_exit_status_1_and_says_where(changed):
    outcome = invoke("--json", GOOD, wrong_result(changed))
    rows = json.loads(outcome.stdout)
    assert outcome.exit_code == 1
    assert [row["match"] for row in rows] == [True, False]
    assert "1 bytes differ; the first: byte 0x" in rows[1]["error"]


def test_an_error_of_execution_is_exit_status_1_and_the_others_still_run(changed):
    outcome = invoke("--json", illegal_program(changed), GOOD)
    rows = json.loads(outcome.stdout)
    assert outcome.exit_code == 1
    assert [row["match"] for row in rows] == [False, True]
    assert rows[0]["error"].startswith("InvalidInstructionError: instruction 0 ")
    assert rows[0]["cycles"] is None


def _missing(folder: Path) -> Path:
    return folder / "missing.npz"


def _folder(folder: Path) -> Path:
    return folder


def _truncated(folder: Path) -> Path:
    (folder / "short.npz").write_bytes(GOOD.read_bytes()[:-100])
    return folder / "short.npz"


def _text(folder: Path) -> Path:
    (folder / "text.npz").write_text("no archive")
    return folder / "text.npz"


@pytest.mark.parametrize("bad", [_missing, _folder, _truncated, _text])
def test_a_bad_file_is_exit_status_2_before_anything_runs(bad, tmp_path, monkeypatch):
    def never(name):
        raise AssertionError("a vector was replayed")

    monkeypatch.setattr("vdla.cli.replay.device_factory", never)
    path = bad(tmp_path)
    outcome = invoke(GOOD, path)
    assert outcome.exit_code == 2
    assert str(path) in outcome.stderr
    assert not outcome.stdout


def test_an_unknown_device_is_exit_status_2():
    outcome = invoke("--device", "abacus", GOOD)
    assert outcome.exit_code == 2
    assert all(name in outcome.stderr for name in registry.DEVICE_CLASSES)


def test_every_vector_of_the_suite_matches():
    outcome = invoke("--json", *sorted(VECTORS.glob("*.npz")))
    assert outcome.exit_code == 0, [row for row in json.loads(outcome.stdout) if not row["match"]]
