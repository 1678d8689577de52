"""Shipped records are measured again by these sources, without a search."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from tests.cli.models import model
from tests.loading import load_file
from vdla.compiler.codegen.choose import by_simulator
from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.tuned.log import read_log, write_log
from vdla.compiler.codegen.version import task_version
from vdla.compiler.tasks.base import choice_to_json
from vdla.compiler.tasks.task_text import task_of
from vdla.hw.spec.target import TARGETS


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """Return a folder with a network, and the records of its tuning on `tiny`."""
    place = tmp_path_factory.mktemp("tuned")
    (place / "net_int8.onnx").write_bytes(model().SerializeToString())
    script = load_file("scripts/fill_tuned.py")
    arguments = ["--preset", "tiny", "--model", place / "net_int8.onnx", "--trials", 8, "--jobs", 1]
    arguments += ["--explorer", "random", "--logs", place / "logs", "--output", place / "out"]
    assert CliRunner().invoke(script.main, list(map(str, arguments))).exit_code == 0
    return place, read_log(place / "out" / "tiny.jsonl").records


def _refreshed(tuned, folder, records, *, models=None):
    """Return exit status, output and records after a run of the script on `records`."""
    write_log(records, folder / "tiny.jsonl")
    arguments = ["--models", str(models or tuned[0]), "--folder", str(folder)]
    done = CliRunner().invoke(load_file("scripts/refresh_tuned.py").main, arguments)
    return done.exit_code, done.stdout, read_log(folder / "tiny.jsonl").records


def test_records_of_the_preset_before_a_change_of_its_hardware_are_those_of_the_preset_now(tuned, tmp_path):
    status, _, refreshed = _refreshed(
        tuned, tmp_path, [replace(record, timing="0" * 64) for record in tuned[1]]
    )
    assert status == 0
    assert {record.timing for record in refreshed} == {TARGETS["tiny"].timing_digest}
    assert [record for record in refreshed if record.network] == [
        record for record in tuned[1] if record.network
    ]


def test_records_of_older_sources_are_measured_again(tuned, tmp_path):
    records = tuned[1]
    old = [
        replace(record, version="old", layers=(), before=None, network="old" if record.network else "")
        for record in records
    ]
    status, output, refreshed = _refreshed(tuned, tmp_path, old)
    assert status == 0
    assert "(+0.00%)" in output
    assert {record.version for record in refreshed} == {task_version()}
    whole = [record for record in refreshed if record.network]
    assert whole == [record for record in records if record.network]


def test_a_task_that_is_new_to_the_network_takes_the_compilers_choice(tuned, tmp_path):
    whole = [record for record in tuned[1] if record.network]
    status, _, refreshed = _refreshed(tuned, tmp_path, whole[1:])
    assert status in (0, 1)  # the choice that is gone may have saved cycles
    assert {record.task for record in refreshed} == {record.task for record in whole}
    assert all(record.cycles <= record.before for record in refreshed)


def test_a_network_that_became_slower_is_told(tuned, tmp_path):
    whole = [replace(record, cycles=record.cycles - 1) for record in tuned[1] if record.network]
    status, output, refreshed = _refreshed(tuned, tmp_path, whole)
    assert status == 1
    assert output.split()[2:5] == [f"{whole[0].cycles:,}", "->", f"{whole[0].cycles + 1:,}"]
    assert {record.cycles for record in refreshed} == {whole[0].cycles + 1}


def test_records_of_a_missing_model_stay(tuned, tmp_path):
    whole = [replace(record, version="old") for record in tuned[1] if record.network]
    (tmp_path / "models").mkdir()
    status, output, refreshed = _refreshed(tuned, tmp_path, whole, models=tmp_path / "models")
    assert status == 1
    assert "net_int8.onnx" in output
    assert list(refreshed) == whole


def test_a_choice_that_does_not_beat_the_compilers_is_removed(tuned):
    trials, target = [record for record in tuned[1] if not record.network], TARGETS["tiny"]
    assert trials, "random search beats the compiler's choice for a task of this network"
    defaults = [
        replace(record, choice=choice_to_json(by_simulator(space_of(task_of(record.task), target))))
        for record in trials
    ]
    script = load_file("scripts/refresh_tuned.py")
    assert list(script.still_better(trials + defaults, target)) == trials
