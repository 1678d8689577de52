"""Shipped records get the version of these sources where their cycles are equal, and only there."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from tests.cli.models import model
from tests.loading import load_file
from vdla.compiler.codegen.tuned.log import read_log, write_log
from vdla.compiler.codegen.version import task_version


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a network and the records of its tuning on `tiny`."""
    place = tmp_path_factory.mktemp("stamp")
    (place / "net_int8.onnx").write_bytes(model().SerializeToString())
    script = load_file("scripts/fill_tuned.py")
    arguments = ["--preset", "tiny", "--model", place / "net_int8.onnx", "--trials", 8, "--jobs", 1]
    arguments += ["--explorer", "random", "--logs", place / "logs", "--output", place / "out"]
    assert CliRunner().invoke(script.main, list(map(str, arguments))).exit_code == 0
    return place


def test_records_with_equal_cycles_are_of_this_version(folder):
    path, script = folder / "out" / "tiny.jsonl", load_file("scripts/stamp_tuned.py")
    records = read_log(path).records
    wrong = next(place for place, one in enumerate(records) if one.network == "")
    old = [
        replace(one, version="old", layers=(), model="", before=None, cycles=one.cycles + (place == wrong))
        for place, one in enumerate(records)
    ]
    write_log(old, path)
    arguments = ["--models", str(folder), "--folder", str(folder / "out")]
    done = CliRunner().invoke(script.main, arguments)
    assert (done.exit_code, done.stdout) == (
        1,
        f"tiny.jsonl: {len(records) - 1} records of this version, 1 of others\n",
    )
    found = read_log(path).records
    assert [one.cycles for one in found if one.version != task_version()] == [records[wrong].cycles + 1]
    together = [one for one in found if one.network]
    assert {one.model for one in together} == {"net_int8.onnx"}
    assert all(one.layers and one.before >= one.cycles for one in together)
