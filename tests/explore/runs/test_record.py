"""Reading records of runs: what is refused, and with which message."""

import json

import msgspec
import pytest

from tests.explore.runs.records import layer, run, text
from vdla.explore.runs.record import WRITE_ONE, parse_record, read_record
from vdla.hw.spec.errors import FileFormatError

GOOD = run([layer("c", 100, "c d"), layer("f", None, reason="no room")])


def changed(change) -> bytes:
    """Return a record as text, with its tree changed."""
    tree = json.loads(text(GOOD))
    change(tree)
    return json.dumps(tree).encode()


def test_a_record_reads_back_equal():
    assert parse_record(text(GOOD), "x") == GOOD


def test_further_fields_are_left_out():
    assert parse_record(changed(lambda tree: tree.update(further=[1], seconds="?")), "x") == GOOD


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "Input data was truncated"),
        (text(GOOD)[:-9], "Input data was truncated"),
        (b"PK\x03\x04", "JSON is malformed: invalid character (byte 0)"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "Object missing required field `device`"),
        (b'{"rows": []}', "Object missing required field `device`"),
        (b'{"device": "' + b"\xff" * 9 + b'"}', "'utf-8' codec"),
        (b"[" * 100_000, "Expected `object`, got `array`"),
        (changed(lambda tree: tree.pop("layers")), "Object missing required field `layers`"),
        (changed(lambda tree: tree.pop("summary")), "Object missing required field `summary`"),
        (
            changed(lambda tree: tree["layers"][1].pop("bytes_read")),
            "Object missing required field `bytes_read` - at `$.layers[1]`",
        ),
        (
            changed(lambda tree: tree["layers"][0].update(cycles=-1)),
            "Expected `int` >= 0 - at `$.layers[0].cycles`",
        ),
        (
            changed(lambda tree: tree["layers"][0].update(cycles="many")),
            "Expected `int | null`, got `str` - at `$.layers[0].cycles`",
        ),
        (
            changed(lambda tree: tree["layers"][0].update(bound="luck")),
            "Invalid enum value 'luck' - at `$.layers[0].bound`",
        ),
        (
            changed(lambda tree: tree["layers"][0].update(name="a\nb")),
            "Expected `str` matching regex",
        ),
        (
            changed(lambda tree: tree["summary"].update(clock_hz=0)),
            "Expected `float` >= 1e-09 - at `$.summary",
        ),
        (changed(lambda tree: tree.update(energy_pj=-1)), "Expected `float` >= 0.0 - at `$.energy_pj`"),
        (changed(lambda tree: tree["target"].update(parameters=3)), "Expected `object`, got `int`"),
    ],
)
def test_a_file_that_is_no_record_is_refused(tmp_path, data, problem):
    file = tmp_path / "x.json"
    file.write_bytes(data)
    with pytest.raises(FileFormatError) as raised:
        read_record(file)
    message = str(raised.value)
    assert message.startswith(f"{file} is not the record of a run: {problem}"), message
    assert message.endswith(f"; {WRITE_ONE}")
    assert "\n" not in message


def test_a_run_without_cycles_is_refused(tmp_path):
    file = tmp_path / "x.json"
    file.write_bytes(msgspec.json.encode(run([layer("x")], device="functional", cycles=None)))
    with pytest.raises(FileFormatError) as raised:
        read_record(file)
    assert str(raised.value) == (
        f"{file} has no cycles: the device functional counts none; run the network again with --device cycle"
    )


def test_a_file_that_is_too_long_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("vdla.explore.runs.record.MANIFEST_BYTES", 100)
    file = tmp_path / "x.json"
    file.write_bytes(text(GOOD))
    with pytest.raises(FileFormatError, match="more than 100 bytes"):
        read_record(file)
