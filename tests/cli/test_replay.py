"""`vdla replay` keeps its contract: what it prints, and its exit status."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests.explore.report.test_debug_page_data import data_of, decoded_file
from vdla.cli.replay import command
from vdla.runtime import vectors
from vdla.runtime.devices import registry
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.devices.registry import device_factory

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


def test_the_page_of_a_difference_opens_at_the_store_that_wrote_it(changed, tmp_path):
    page = tmp_path / "page.html"
    outcome = invoke("--device", "cycle", "--debug-difference", page, wrong_result(changed))
    assert outcome.exit_code == 1
    assert outcome.stderr == f"{vectors.load_vector(GOOD).name}: differs -> {page}\n"
    meta, _ = decoded_file(data_of(page))
    kind, text, instruction, cycle, _ = meta["errors"][0]
    assert kind == "wrong result"
    assert text.startswith(
        f"cycle, compared with the vector: 1 byte is wrong in what instruction {instruction} writes"
    )
    assert 0 < cycle < meta["cycles"]


def test_the_page_shows_where_two_devices_differ(tmp_path, monkeypatch):
    """A device with a planted fault stands in for the RTL."""

    class Faulty(FunctionalDevice):
        def run(self, *arguments, **options):
            done = super().run(*arguments, **options)
            self.dram[vectors.load_vector(GOOD).segments[-1].address] ^= 1
            return done

    factories = {"cycle": device_factory("cycle"), "rtl": Faulty}
    monkeypatch.setattr("vdla.cli.replay.device_factory", factories.__getitem__)
    page = tmp_path / "page.html"
    outcome = invoke("--device", "cycle", "--device", "rtl", "--debug-difference", page, GOOD)
    assert outcome.exit_code == 1
    errors = decoded_file(data_of(page))[0]["errors"]
    assert [text.split(": ")[0] for _, text, *_ in errors] == [
        "rtl, compared with the vector",
        "rtl, compared with cycle",
    ]


def test_a_program_that_a_device_refuses_opens_at_its_stop(changed, tmp_path):
    page = tmp_path / "page.html"
    invoke("--device", "cycle", "--debug-difference", page, illegal_program(changed))
    errors = decoded_file(data_of(page))[0]["errors"]
    assert errors[0][:2] == ["the hardware stops the run", errors[0][1]]
    assert errors[1][1].startswith("cycle: InvalidInstructionError: instruction 0 ")


def test_no_page_is_written_where_nothing_differs(tmp_path):
    outcome = invoke("--device", "cycle", "--debug-difference", tmp_path / "x.html", GOOD)
    assert outcome.exit_code == 0
    assert outcome.stderr.endswith(f"no difference, so {tmp_path / 'x.html'} was not written\n")
    assert not (tmp_path / "x.html").exists()


def test_a_page_shows_one_vector(tmp_path):
    outcome = invoke("--debug-difference", tmp_path / "x.html", GOOD, GOOD)
    assert outcome.exit_code == 2
    assert outcome.stderr == (
        f"error: --debug-difference {tmp_path / 'x.html'} shows one vector, and 2 were given; give one\n"
    )


def test_an_unknown_device_is_exit_status_2():
    outcome = invoke("--device", "abacus", GOOD)
    assert outcome.exit_code == 2
    assert all(name in outcome.stderr for name in registry.DEVICE_CLASSES)


def test_every_vector_of_the_suite_matches():
    outcome = invoke("--json", *sorted(VECTORS.glob("*.npz")))
    assert outcome.exit_code == 0, [row for row in json.loads(outcome.stdout) if not row["match"]]
