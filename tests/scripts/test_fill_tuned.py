"""What goes into the database of tuned records."""

import pytest
from click.testing import CliRunner

from tests.cli.models import model
from tests.compiler.codegen.tuned.records import TARGET, record
from tests.loading import load_file
from vdla.compiler.codegen.tuned.log import read_log
from vdla.explore.tune.known import DEFAULT


@pytest.fixture(scope="module")
def script():
    return load_file("scripts/fill_tuned.py")


def default_record(cycles, place=0, **changes):
    """Return the record of the compiler's default choice."""
    return record(cycles, place, explorer=DEFAULT, **changes)


def test_the_best_record_that_beats_the_default_is_kept(script):
    records = [default_record(100), record(90, 1), record(80, 2), record(None, 3)]
    assert script.beating(records, TARGET) == [records[2]]
    assert script.beating([default_record(100), record(100, 1)], TARGET) == []
    assert script.beating([record(80, 2)], TARGET) == [], "nothing is known of the default"
    assert script.beating([default_record(100, version="old"), record(80, 2, version="old")], TARGET) == []


def test_records_of_tasks_that_were_not_tuned_stay(script):
    kept, replaced = record(5, 1, task="another"), record(70, 4, version="old")
    foreign = record(1, timing="another")
    records = script.updated([kept, replaced, foreign], [default_record(100), record(80, 2)], TARGET)
    assert sorted(entry.cycles for entry in records) == [5, 80]
    assert [
        entry.cycles for entry in script.updated([replaced], [default_record(100), record(120, 2)], TARGET)
    ] == []


def test_a_network_is_tuned_and_its_gain_printed(script, tmp_path):
    (tmp_path / "net.onnx").write_bytes(model().SerializeToString())
    arguments = ["--preset", "tiny", "--model", tmp_path / "net.onnx", "--trials", 8, "--explorer", "random"]
    arguments += ["--logs", tmp_path / "logs", "--output", tmp_path / "out", "--jobs", 1]
    done = CliRunner().invoke(script.main, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    first = done.stdout.splitlines()[0].split()
    assert first[:2] == ["tiny", "net"]
    assert int(first[3].replace(",", "")) <= int(first[2].replace(",", ""))
    kept = read_log(tmp_path / "out" / "tiny.jsonl").records
    assert {entry.target for entry in kept} <= {"tiny"}
    assert f"{tmp_path / 'out' / 'tiny.jsonl'}: {len(kept)} records" in done.stdout
