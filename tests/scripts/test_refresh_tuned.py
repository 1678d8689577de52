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
    status, _, found = _refreshed(tuned, tmp_path, [replace(one, timing="0" * 64) for one in tuned[1]])
    assert status == 0
    assert {one.timing for one in found} == {TARGETS["tiny"].timing_digest}
    assert [one for one in found if one.network] == [one for one in tuned[1] if one.network]


def test_records_of_older_sources_are_measured_again(tuned, tmp_path):
    records = tuned[1]
    old = [
        replace(one, version="old", layers=(), before=None, network="old" if one.network else "")
        for one in records
    ]
    status, output, found = _refreshed(tuned, tmp_path, old)
    assert status == 0
    assert "(+0.00%)" in output
    assert {one.version for one in found} == {task_version()}
    whole = [one for one in found if one.network]
    assert whole == [one for one in records if one.network]


def test_a_task_that_is_new_to_the_network_takes_the_compilers_choice(tuned, tmp_path):
    whole = [one for one in tuned[1] if one.network]
    status, _, found = _refreshed(tuned, tmp_path, whole[1:])
    assert status in (0, 1)  # the choice that is gone may have saved cycles
    assert {one.task for one in found} == {one.task for one in whole}
    assert all(one.cycles <= one.before for one in found)


def test_a_network_that_became_slower_is_told(tuned, tmp_path):
    whole = [replace(one, cycles=one.cycles - 1) for one in tuned[1] if one.network]
    status, output, found = _refreshed(tuned, tmp_path, whole)
    assert status == 1
    assert output.split()[2:5] == [f"{whole[0].cycles:,}", "->", f"{whole[0].cycles + 1:,}"]
    assert {one.cycles for one in found} == {whole[0].cycles + 1}


def test_records_of_a_missing_model_stay(tuned, tmp_path):
    whole = [replace(one, version="old") for one in tuned[1] if one.network]
    (tmp_path / "models").mkdir()
    status, output, found = _refreshed(tuned, tmp_path, whole, models=tmp_path / "models")
    assert status == 1
    assert "net_int8.onnx" in output
    assert list(found) == whole


def test_a_choice_that_does_not_beat_the_compilers_is_removed(tuned):
    trials, target = [one for one in tuned[1] if not one.network], TARGETS["tiny"]
    assert trials, "random search beats the compiler's choice for a task of this network"
    own = [
        replace(one, choice=choice_to_json(by_simulator(space_of(task_of(one.task), target))))
        for one in trials
    ]
    script = load_file("scripts/refresh_tuned.py")
    assert list(script.still_better(trials + own, target)) == trials
