"""A simulation is built once, and again as soon as any of its sources changes."""

import errno
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Timer

import pytest
from filelock import FileLock

from tests.loading import load_file
from tests.runtime.devices.rtl.memory_probe import PROBE
from vdla.hw.spec.cache import cache_folder
from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.presets import TINY
from vdla.runtime.devices.rtl import RtlDevice, build, cache, design
from vdla.runtime.devices.rtl.build import Optimise, Variant
from vdla.runtime.devices.rtl.cache import (
    KEPT_DAYS,
    SCRATCH_PREFIX,
    SECONDS_PER_DAY,
    _is_older,
    built,
    clear,
)
from vdla.runtime.devices.rtl.waves import WaveFormat


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Give the test an empty cache; return the list of the tools that a build runs."""
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    run_tool, seen = build.run_tool, []

    def recording(command, *arguments):
        seen.append(command)
        return run_tool(command, *arguments)

    monkeypatch.setattr(build, "run_tool", recording)
    return seen


def construct(source=PROBE, **options) -> RtlDevice:
    return RtlDevice(TINY, 1 << 16, optimise=Optimise.BUILD, design=source, **options)


def test_what_is_asked_for_stays_and_what_is_a_little_too_old_goes(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    for key, more in {"young": -20, "old": 20}.items():
        then = time.time() - (30 * 24 * 60 * 60 + more)
        os.utime(built("kind", key, lambda folder: None), (then, then))
    built("kind", "new", lambda folder: None)
    assert {path.name for path in (tmp_path / "kind").iterdir() if path.is_dir()} == {"young", "new"}


def test_a_file_that_another_process_has_deleted_is_not_old(tmp_path):
    assert not _is_older(tmp_path / "gone", time.time() + 1)
    assert _is_older(tmp_path, time.time() + 1)
    assert not _is_older(tmp_path, time.time() - 1)
    assert not _is_older(tmp_path, tmp_path.stat().st_mtime)


def test_a_cache_is_cleared_but_for_what_other_processes_hold(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    assert clear("kind") == 0
    for key in ("a", "b", "c"):
        built("kind", key, lambda folder: (folder / "file").write_text(""))
    held = FileLock(tmp_path / "kind" / "b.lock", thread_local=False)
    held.acquire()
    release = Timer(2.0, held.release)  # for whoever would wait
    release.start()
    assert clear("kind") == 1
    assert {path.name for path in (tmp_path / "kind").iterdir()} == {"b", "b.lock"}
    release.cancel()
    held.release()
    assert clear("kind") == 0
    assert not (tmp_path / "kind").exists()


def test_who_waits_for_an_entry_looks_at_least_twice_a_second(tmp_path, monkeypatch):
    intervals = []

    def noted(path: Path, *, poll_interval: float) -> FileLock:
        intervals.append(poll_interval)
        return FileLock(path, poll_interval=poll_interval)

    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "FileLock", noted)
    built("kind", "key", lambda folder: None)
    assert intervals
    assert max(intervals) <= 0.5


def test_scratch_that_cannot_be_deleted_stops_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    (tmp_path / "kind").mkdir()
    (tmp_path / "kind" / f"{SCRATCH_PREFIX}key-left").write_text("no folder")
    assert built("kind", "key", lambda folder: None).is_dir()

    def fail(folder: Path) -> None:
        folder.rmdir()
        raise ToolError("no")

    with pytest.raises(ToolError, match=r"^no$"):
        built("kind", "other", fail)


def test_a_cache_that_can_only_be_read_gives_what_it_holds(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    there, told = built("kind", "key", lambda folder: None), []
    monkeypatch.setattr(cache, "tell_unusable", told.append)
    error = OSError(errno.EROFS, "Read-only file system")

    def refused(self, *arguments, **options):
        raise error

    monkeypatch.setattr(FileLock, "acquire", refused)
    assert built("kind", "key", lambda folder: pytest.fail("it is there")) == there
    here = built("kind", "other", lambda folder: (folder / "made").write_text(""))
    assert (here / "made").exists()
    assert tmp_path not in here.parents
    assert told == [error, error]


def test_a_second_construction_builds_nothing_and_emits_nothing(commands):
    construct()
    assert commands
    commands.clear()

    def emit(config):
        raise AssertionError("emitted again")

    construct(replace(PROBE, emit=emit))
    assert not commands


def test_a_changed_source_is_built_anew(commands):
    construct()
    commands.clear()
    construct(
        replace(PROBE, emit=lambda config: PROBE.emit(config) + "/* changed */\n", sources=lambda: "changed")
    )
    assert commands


def test_a_changed_comment_builds_nothing(commands):
    construct()
    commands.clear()
    construct(
        replace(
            PROBE, emit=lambda config: "// Fetch, hw/fetch.py:17\n" + PROBE.emit(config), sources=lambda: "c"
        )
    )
    assert not commands


def test_a_failed_build_names_the_tool_and_leaves_nothing(commands, tmp_path):
    with pytest.raises(
        ToolError, match=r"verilator_bin failed with exit code 1; its last lines are:\n.*syntax error"
    ):
        construct(replace(PROBE, emit=lambda config: "this is no Verilog", sources=lambda: "broken"))
    assert [path.suffix for path in (tmp_path / "rtl").iterdir()] == [".lock"]


PLAIN = Variant()
SHIM = ("shim.cpp", "memory.hpp", "recorder.hpp", "sdram.hpp")


def key_of(library) -> str:
    return library.parent.name


@pytest.fixture
def keys(tmp_path, monkeypatch):
    """Return a function from a configuration and a variant to the key of its build; nothing is built."""
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(build, "_build", lambda *arguments: None)
    return lambda config=TINY, variant=PLAIN: key_of(build.build_library(config, PROBE, variant))


def test_each_configuration_and_variant_has_its_own_build(keys):
    wide = TINY.with_changes(bus_bits=128)
    variants = [Variant(), Variant(Optimise.BUILD), *(Variant(waves=format) for format in WaveFormat)]
    assert len({keys(config, variant) for config in (TINY, wide) for variant in variants}) == 8


@pytest.mark.parametrize("name", SHIM)
def test_a_changed_shim_is_built_anew(keys, tmp_path, monkeypatch, name):
    before, folder = keys(), tmp_path / "sources"
    folder.mkdir()
    for file in SHIM:
        (folder / file).write_bytes((build.HERE / file).read_bytes() + b"\n" * (file == name))
    monkeypatch.setattr(build, "HERE", folder)
    assert keys() != before


def test_the_core_depends_on_every_file_of_the_hardware(tmp_path, monkeypatch):
    monkeypatch.setattr(design, "HARDWARE", tmp_path)
    digests = [design.sources_on_disk()]
    for action in (
        lambda path: path.write_text("a"),
        lambda path: path.write_text("b"),
        lambda path: path.unlink(),
    ):
        action(tmp_path / "unit.py")
        digests.append(design.sources_on_disk())
    assert len(set(digests)) == 3
    assert digests[0] == digests[3]


def test_verilog_of_sources_that_were_edited_meanwhile_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "unit.py").write_text("edited = True")
    monkeypatch.setattr(design, "HARDWARE", tmp_path)
    with pytest.raises(ToolError, match=f"{tmp_path} was edited while this process ran.*start again"):
        design.verilog_files(TINY, design.CORE)
    assert not list((tmp_path / "cache").rglob("core.v"))


def test_a_build_is_on_the_disk_before_it_appears(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(Path(os.readlink(f"/proc/self/fd/{file}"))))

    def work(folder: Path) -> None:
        (folder / "deep").mkdir()
        for name in ("a", "deep/b"):
            (folder / name).write_text(name)

    entry = built("kind", "key", work)
    assert {path.name for path in synced} == {"a", "b"}
    assert all(SCRATCH_PREFIX in str(path) for path in synced)
    assert (entry / "deep" / "b").read_text() == "deep/b"


def test_what_nobody_asks_for_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    old = built("kind", "old", lambda folder: None)
    long_ago = time.time() - (KEPT_DAYS + 1) * SECONDS_PER_DAY
    os.utime(old, (long_ago, long_ago))
    built("kind", "new", lambda folder: None)
    assert not old.exists()
    assert cache_folder() == tmp_path


# Several processes


@pytest.mark.parametrize(
    ("keys", "kept_seconds"), [(4, SECONDS_PER_DAY), (1000, SECONDS_PER_DAY), (20, 0.05), (1000, 0.05)]
)
def test_processes_share_a_cache_whose_entries_are_forgotten_all_the_time(
    tmp_path, monkeypatch, keys, kept_seconds
):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    assert load_file("scripts/stress_cache.py").stress(8, 160, keys, kept_seconds).failures == []


BUILDER = """
import sys
from vdla.runtime.devices.rtl.cache import built

def build(folder):
    (folder / "half").write_text("")
    print("building", flush=True)
    sys.stdin.read()
    (folder / "whole").write_text("")

built("kind", "key", build)
"""


@pytest.fixture
def builder(tmp_path, monkeypatch):
    """Start a process that has built half of an entry."""
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", BUILDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"building\n"
        yield process


def names(tmp_path) -> set[str]:
    return {path.name for path in (tmp_path / "kind").iterdir()}


def age(tmp_path) -> None:
    """Let everything in the cache be as old as what is forgotten."""
    long_ago = time.time() - (KEPT_DAYS + 1) * SECONDS_PER_DAY
    for path in (tmp_path / "kind").iterdir():
        os.utime(path, (long_ago, long_ago))


def test_what_a_killed_builder_leaves_goes_with_the_next_build_of_the_same(tmp_path, builder):
    builder.kill()
    builder.wait(timeout=10)
    assert any(name.startswith(SCRATCH_PREFIX) for name in names(tmp_path))
    assert not list(built("kind", "key", lambda folder: None).iterdir())
    assert names(tmp_path) == {"key", "key.lock"}


def test_what_a_killed_builder_leaves_goes_with_the_next_build_of_another(tmp_path, builder):
    builder.kill()
    builder.wait(timeout=10)
    built("kind", "other", lambda folder: None)
    assert names(tmp_path) == {"other", "other.lock"}


def test_what_is_being_built_is_not_deleted_however_old_it_is(tmp_path, builder):
    age(tmp_path)
    built("kind", "other", lambda folder: None)
    builder.communicate(timeout=10)
    assert builder.returncode == 0
    assert names(tmp_path) == {"key", "key.lock", "other", "other.lock"}
    assert (tmp_path / "kind" / "key" / "whole").exists()


def test_locks_go_with_their_entries(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    for key in ("a", "b", "c"):
        built("kind", key, lambda folder: None)
    age(tmp_path)
    built("kind", "b", lambda folder: pytest.fail("it is there"))
    built("kind", "new", lambda folder: None)
    assert names(tmp_path) == {"b", "b.lock", "new", "new.lock"}
