"""`vdla sweep`: what it prints and writes, and its errors."""

import os
import signal
import subprocess
import sys
import time

import pytest
from pyarrow import parquet

from tests.cli.commands import invoke
from vdla.cli._sweeps import conclusion, reasons
from vdla.explore.sweep.folder import JOURNAL
from vdla.explore.sweep.run import Progress

VDLA = """
import signal
from vdla.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with it ignored
main(prog_name="vdla")
"""
SPECIFICATION = """
[base]
config = "small"
[parameters]
inp_buffer_bytes = "8KiB"
memory.latency = [16, 32]
[[workloads]]
conv = {size = 4, channels = 8, outputs = 8, kernel = 1}
"""


@pytest.fixture
def specification(tmp_path):
    """Return a file with the specification above."""
    (tmp_path / "s.toml").write_text(SPECIFICATION)
    return tmp_path / "s.toml"


def test_a_sweep_says_what_it_measured_and_where_it_is(specification, tmp_path):
    out = tmp_path / "out"
    done = invoke("sweep", specification, "-o", out, "--processes", 1)
    assert done.exit_code == 0
    assert done.stdout.startswith(f"{out}: 2 points, 2 of them measured now in ")
    assert f"{out / 'report.html'}: open it in a browser" in done.stdout
    assert (out / "report.html").read_text().startswith("<!doctype html>")
    assert "0 of 2 points" in done.stderr
    assert invoke("sweep", specification, "-o", out).stdout.startswith(
        f"{out}: 2 points, 0 of them measured now"
    )


@pytest.mark.parametrize(
    ("count", "total", "lacking", "earlier"),
    [
        (1, "1 point, ", "1 point lacks cycles", "1 earlier point is not"),
        (1000, "1,000 points, ", "1,000 points lack cycles", "1,000 earlier points are not"),
    ],
)
def test_a_conclusion_counts_points_in_words_that_agree(tmp_path, count, total, lacking, earlier):
    done = Progress(done=count, total=count, failed=count, resumed=0, left_out=count, seconds=1)
    lines = conclusion(tmp_path, done).splitlines()
    assert lines[0].startswith(f"{tmp_path}: {total}")
    assert lines[1].startswith(f"{earlier} in the specification")
    assert lines[2].startswith(f"{lacking} of some workload")


def test_a_sweep_says_why_points_have_no_cycles(specification, tmp_path):
    text = SPECIFICATION.replace(
        "[parameters]", '[parameters]\nblock_in = [8, 12, 20, 24]\nextensions = ["none"]'
    )
    specification.write_text(text)
    done = invoke("sweep", specification, "-o", tmp_path / "out", "--processes", 1)
    lines = done.stdout.splitlines()
    at = lines.index("8 points lack cycles of some workload:")
    assert lines[at + 1].startswith("     6  block_in = 12 is not a power of two; the nearest are 8 and 16")
    assert lines[at + 2].startswith("     2  configuration small with the extensions")
    again = invoke("sweep", specification, "-o", tmp_path / "out", "--processes", 1)
    assert "8 of 8 points, 8 without cycles; 6: block_in = 12 is not a power" in again.stderr


@pytest.mark.parametrize(
    ("shares", "lines"),
    [
        ({}, []),
        ({"Conv c is left to the host, and 2 more: a; b": 3, "too wide": 1}, ["     3  a; b", "     1  too wide"]),
        ({f"reason {n}": 9 - n for n in range(8)}, [*(f"     {9 - n}  reason {n}" for n in range(5)), "     9  for other reasons: the column status has them"]),
    ],
)  # fmt: skip
def test_the_most_frequent_reasons_are_lines(shares, lines):
    assert reasons(Progress(9, 9, 9, 0, 0, 1.0, reasons=shares)) == lines


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        (["--help"], "Usage: main sweep [OPTIONS] SPEC.toml\n"),
        ([], "Usage: main sweep [OPTIONS] SPEC.toml\nTry 'main sweep --help' for help.\n"),
        (["diff", "--help"], "Usage: main sweep diff [OPTIONS] A B\n"),
        (["diff"], "Usage: main sweep diff [OPTIONS] A B\nTry 'main sweep diff --help' for help.\n"),
    ],
)
def test_usage_names_the_words_that_are_typed(arguments, usage):
    assert invoke("sweep", *arguments).output.startswith(usage)


@pytest.mark.parametrize(("area", "source"), [("estimate", "estimated"), ("none", "none")])
def test_the_area_comes_from_where_the_command_says(specification, tmp_path, area, source):
    assert invoke("sweep", specification, "-o", tmp_path / "out", "--area", area).exit_code == 0
    rows = parquet.read_table(tmp_path / "out" / "points.parquet").to_pylist()
    assert {row["area_source"] for row in rows} == {source}
    assert {row["lut"] is None for row in rows} == {area == "none"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("memory.latency", "memory.latncy", "parameter 'memory.latncy' is unknown; did you mean memory.latency?"),
        ("[16, 32]", "[]", "parameters.memory.latency = [] is empty; give at least one value"),
        ('"small"', '"smal"', "base: smal is neither a preset (default, vta, paper, small, tiny, ecp5-25f, ecp5-85f, zynq-7020) nor"),
        ("[base]", "[base", "is not TOML"),
        ("conv = {", 'model = "none.onnx"\nx = {', "key of workloads[0] 'x' is unknown"),
    ],
)  # fmt: skip
def test_a_wrong_specification_is_one_line_and_status_2(specification, tmp_path, old, new, message):
    specification.write_text(SPECIFICATION.replace(old, new))
    done = invoke("sweep", specification, "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {specification}")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_a_folder_is_one_line_and_status_2(specification):
    done = invoke("sweep", specification, "-o", specification)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert f"{specification} is not a folder" in done.stderr


def test_an_interrupted_sweep_ends_at_once_and_keeps_its_points(tmp_path, specification):
    many = SPECIFICATION.replace("[16, 32]", "{from = 1, to = 400, step = 1}")
    specification.write_text(many)
    line = [sys.executable, "-c", VDLA, "sweep", specification, "-o", tmp_path / "out", "--processes", "2"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        line, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    journal = tmp_path / "out" / JOURNAL
    while not (journal.exists() and journal.stat().st_size):
        assert process.poll() is None, "the sweep ended before it could be interrupted"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    errors = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    kept = journal.read_bytes().count(b"\n")
    assert errors.endswith(f"out keeps {kept} points; the same command goes on from there\ninterrupted\n")
    assert "Traceback" not in errors
    assert (tmp_path / "out" / "points.parquet").exists()
    assert 1 <= journal.read_bytes().count(b"\n") < 400


def test_an_expression_without_a_value_names_file_and_parameter(specification, tmp_path):
    specification.write_text(SPECIFICATION.replace("[parameters]", '[parameters]\nbatch = "1 // 0"'))
    refused = invoke("sweep", specification, "-o", tmp_path / "out")
    assert refused.exit_code == 2
    assert refused.stderr.splitlines()[-1].startswith(
        f"error: {specification}: parameters.batch: expression '1 // 0' has no value: "
    )
