"""Every command that writes files: they are whole or as they were, folders are made, and one line says what
is wrong."""

import os
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.models import model
from tests.limits import at_most
from vdla.cli import main
from vdla.hw import verilog
from vdla.hw.spec.writing import ADVICE

ROOT = Path(__file__).parents[2]
GEMM = next((ROOT / "tests" / "vectors" / "vta").glob("gemm*.npz"))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    """Return a folder with what the commands read: a stream as text, a network and its module."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "stream.asm").write_text("FINISH()\n" * 100)
    (folder / "net.onnx").write_bytes(model().SerializeToString())
    done = invoke("compile", folder / "net.onnx", "-o", folder / "net.vdla")
    assert done.exit_code == 0, done.output
    return folder


def invoke(*arguments: object):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


COMMANDS = {  # {} stands for the folder of inputs; the output follows
    "asm": ("asm {}/stream.asm -o", "stream.bin"),
    "verilog": ("verilog --config tiny -o", "."),
    "plot": (f"plot {GEMM} -o", "plot.svg"),
    "plot as PNG": (f"plot {GEMM} -o", "plot.png"),
    "trace": (f"trace {GEMM} -o", "trace.json"),
    "trace as text": (f"trace {GEMM} -o", "trace.txt"),
    "compile": ("compile {}/net.onnx -o", "net.vdla"),
    "run, its outputs": ("run {}/net.vdla --output", "out.npz"),
    "run, its timeline": ("run {}/net.vdla --device cycle --trace", "trace.json"),
}


EMITTED = cache(verilog.emit)


@pytest.fixture(params=COMMANDS)
def write(request, inputs, monkeypatch):
    """Return a function that has a command write into a folder. Verilog is emitted once: Yosys itself writes
    larger files."""
    monkeypatch.setattr(verilog, "emit", EMITTED)
    options, name = COMMANDS[request.param]
    return lambda folder: invoke(*options.format(inputs).split(), folder / name)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_missing_folders_are_made_and_a_full_disk_leaves_what_stood_there(tmp_path, write):
    done = write(tmp_path / "made" / "for it")
    assert done.exit_code == 0, done.output
    before = contents(tmp_path)
    assert before
    for name in before:
        (tmp_path / name).write_bytes(b"here before")
    with at_most(max(map(len, before.values())) // 2):
        done = write(tmp_path / "made" / "for it")
    assert done.exit_code == 2, done.output
    assert_one_line(done, tmp_path / "made" / "for it", "File too large")
    assert contents(tmp_path) == dict.fromkeys(before, b"here before")


def assert_one_line(done, folder: Path, reason: str) -> None:
    """Check that the last line of standard error is the only error, and names the file and the reason."""
    line = done.stderr.splitlines()[-1]
    assert done.stderr.count("error") == 1
    assert "Traceback" not in done.output
    assert line.startswith(f"error: {folder}")
    assert line.endswith(f"cannot be written: {reason}; {ADVICE}")


def test_a_file_in_place_of_a_folder_is_named(tmp_path, write):
    (tmp_path / "file").write_text("before")
    done = write(tmp_path / "file")
    assert done.exit_code == 2
    assert_one_line(done, tmp_path / "file", f"{tmp_path / 'file'} is not a folder")
    assert contents(tmp_path) == {"file": b"before"}


def test_a_folder_in_place_of_a_file_is_named(tmp_path, write):
    assert write(tmp_path).exit_code == 0
    for name in contents(tmp_path):
        (tmp_path / name).unlink()
        (tmp_path / name).mkdir()
    done = write(tmp_path)
    assert done.exit_code == 2
    assert_one_line(done, tmp_path, "Is a directory")
    assert contents(tmp_path) == {}


def test_a_place_that_nobody_may_write_to_is_named(write):
    before = os.listdir("/proc/sys")
    done = write(Path("/proc/sys"))
    assert done.exit_code == 2
    reasons = [
        reason
        for reason in ("Permission denied", "Read-only file system", "Operation not permitted")
        if reason in done.stderr
    ]
    assert_one_line(done, Path("/proc/sys"), *reasons)
    assert os.listdir("/proc/sys") == before


def test_a_full_disk_under_the_tools_is_one_line_too(tmp_path):
    with at_most(1000):
        done = invoke("verilog", "--config", "tiny", "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: Yosys, which writes the Verilog, failed: ")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_full_device_is_named(inputs):
    done = invoke("asm", inputs / "stream.asm", "-o", "/dev/full")
    assert (done.exit_code, done.stderr) == (
        2,
        f"error: /dev/full cannot be written: No space left on device; {ADVICE}\n",
    )
