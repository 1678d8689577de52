"""`vdla cache`: what it shows, and what it deletes."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.models import model
from vdla.cli import main
from vdla.compiler.codegen import choice_cache
from vdla.compiler.tasks.base import Choice
from vdla.hw.spec.children import python_command
from vdla.hw.spec.shelf import Shelf


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    (tmp_path / "verilog" / "key").mkdir(parents=True)
    (tmp_path / "verilog" / "key" / "core.v").write_bytes(bytes(1000))
    (tmp_path / "choices").mkdir()
    (tmp_path / "choices" / "key").write_bytes(bytes(24))
    (tmp_path / "own.txt").write_text("not the kit's")
    return tmp_path


def test_the_folder_and_its_sizes_are_shown(folder):
    kinds = (
        *("area", "clock", "graphs", "hardware", "machine_code", "modules", "native_code", "netlist", "rtl"),
        *("silicon", "summaries", "verified", "verilated"),
    )
    values = json.loads(CliRunner().invoke(main, ["cache", "show", "--json"]).stdout)
    assert values == {
        "folder": str(folder),
        "bytes": {"choices": 24, "verilog": 1000, **dict.fromkeys(kinds, 0)},
    }
    assert CliRunner().invoke(main, ["cache", "show"]).stdout.startswith(f"{folder}\n")


def test_clearing_deletes_what_the_kit_keeps_and_nothing_else(folder):
    assert CliRunner().invoke(main, ["cache", "clear"]).stdout == f"{folder}: emptied\n"
    assert [path.name for path in folder.iterdir()] == ["own.txt"]
    assert CliRunner().invoke(main, ["cache", "clear"]).exit_code == 0


def test_clearing_leaves_what_another_process_is_building(folder):
    text = (
        "import sys; from vdla.runtime.devices.rtl.cache import built\n"
        "built('rtl', 'key', lambda folder: (print('building', flush=True), sys.stdin.read()))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"building\n"
        cleared = CliRunner().invoke(main, ["cache", "clear"])
        process.communicate()
    assert cleared.stdout == f"{folder}: emptied, but for 1 entries that others are building\n"
    assert process.returncode == 0
    assert (folder / "rtl" / "key").is_dir()
    CliRunner().invoke(main, ["cache", "clear"])
    assert [path.name for path in folder.iterdir()] == ["own.txt"]


def test_clearing_forgets_choices_and_files(folder):
    choice_cache.write("key", Choice(1))
    Shelf("modules", 1 << 20).write("key", b"module")
    CliRunner().invoke(main, ["cache", "clear"])
    assert choice_cache.read("key") is None
    assert Shelf("modules", 1 << 20).read("key") is None


WITHOUT_CACHE = {
    "not a folder": {"VDLA_CACHE_DIR": "/dev/null/cache"},
    "nobody's home": {"VDLA_CACHE_DIR": "~nouser/cache"},
    "home that does not exist": {"VDLA_CACHE_DIR": None, "XDG_CACHE_HOME": None, "HOME": "/dev/null/none"},
}


def settings_without_cache(name: str) -> dict[str, str]:
    """Return an environment in which there can be no cache folder."""
    return {key: value for key, value in (os.environ | WITHOUT_CACHE[name]).items() if value is not None}


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("not a folder", ("compile", "net.onnx", "-o", "out.vdla", "--config", "tiny")),
        ("nobody's home", ("compile", "net.onnx", "-o", "out.vdla", "--config", "tiny")),
        ("home that does not exist", ("run", "net.onnx", "--config", "tiny", "--json")),
    ],
)
def test_a_network_compiles_and_runs_without_a_cache_and_says_so_once(tmp_path, name, line):
    (tmp_path / "net.onnx").write_bytes(model().SerializeToString())
    done = subprocess.run(
        [*python_command("vdla"), *line],
        cwd=tmp_path,
        env=settings_without_cache(name),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told = [text for text in done.stderr.splitlines() if not text.startswith("no --input")]
    assert len(told) == 1, done.stderr
    assert told[0].startswith("the cache folder")
    assert "name another folder with VDLA_CACHE_DIR" in told[0]


def without_power_over_permissions() -> None:
    """Let permissions hold for root, too, in the program that this process becomes."""
    drop, overriding = 24, 1  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
    if os.getuid() == 0:
        assert ctypes.CDLL(None).prctl(drop, overriding, 0, 0, 0) == 0


def compiled_in(folder: Path, config: str) -> subprocess.CompletedProcess[str]:
    """Compile a network with the cache in a folder, as a user who may not override permissions."""
    return subprocess.run(
        [*python_command("vdla"), "compile", "net.onnx", "-o", f"{config}.vdla", "--config", config],
        cwd=folder,
        env=os.environ | {"VDLA_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        preexec_fn=without_power_over_permissions,
    )


@pytest.mark.parametrize(("config", "lines"), [("tiny", 0), ("small", 1)])
def test_a_filled_cache_that_became_read_only_is_read_and_what_is_not_kept_is_told_once(
    tmp_path, config, lines
):
    (tmp_path / "net.onnx").write_bytes(model().SerializeToString())
    assert compiled_in(tmp_path, "tiny").returncode == 0
    places = [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]
    for place in places:
        place.chmod(0o500 if place.is_dir() else 0o400)
    done = compiled_in(tmp_path, config)
    for place in places:
        place.chmod(0o700)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"{config}.vdla").is_file()
    told = done.stderr.splitlines()
    assert len(told) == lines, done.stderr
    assert all(line.startswith(f"the cache folder {tmp_path}/cache cannot be used (") for line in told)


@pytest.mark.parametrize("name", WITHOUT_CACHE)
def test_cache_commands_without_a_cache_end_in_one_line(name):
    for line in (("show",), ("clear",)):
        shown = subprocess.run(
            [*python_command("vdla"), "cache", *line],
            env=settings_without_cache(name),
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in shown.stderr
        assert shown.stderr.count("\n") == (shown.returncode == 2)
