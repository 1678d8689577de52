"""A simulation is built once, and again as soon as anything it is made from changes."""

import os
import time
from dataclasses import replace

import pytest

from tests.runtime.devices.memory_probe import PROBE
from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.presets import TINY
from vdla.runtime.devices.rtl import RtlDevice, build, design
from vdla.runtime.devices.rtl.build import Optimise, Variant
from vdla.runtime.devices.rtl.cache import KEPT_DAYS, built, cache_folder


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
    construct(replace(PROBE, emit=lambda config: PROBE.emit(config) + "// changed\n", sources=lambda: "changed"))
    assert commands


def test_a_failed_build_names_the_tool_and_leaves_nothing(commands, tmp_path):
    with pytest.raises(ToolError, match=r"verilator_bin failed with exit code 1; its last lines are:\n.*syntax error"):
        construct(replace(PROBE, emit=lambda config: "this is no Verilog", sources=lambda: "broken"))
    assert [path.suffix for path in (tmp_path / "rtl").iterdir()] == [".lock"]


PLAIN = Variant()


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
    variants = [Variant(), Variant(Optimise.BUILD), Variant(trace=True)]
    assert len({keys(config, variant) for config in (TINY, wide) for variant in variants}) == 6


@pytest.mark.parametrize("name", ["shim.cpp", "memory.hpp"])
def test_a_changed_shim_is_built_anew(keys, tmp_path, monkeypatch, name):
    before, folder = keys(), tmp_path / "sources"
    folder.mkdir()
    for file in ("shim.cpp", "memory.hpp"):
        (folder / file).write_bytes((build.HERE / file).read_bytes() + b"\n" * (file == name))
    monkeypatch.setattr(build, "HERE", folder)
    assert keys() != before


def test_the_core_depends_on_every_file_of_the_hardware(tmp_path, monkeypatch):
    monkeypatch.setattr(design, "HARDWARE", tmp_path)
    digests = [design.core_sources()]
    for action in (lambda path: path.write_text("a"), lambda path: path.write_text("b"), lambda path: path.unlink()):
        action(tmp_path / "unit.py")
        digests.append(design.core_sources())
    assert len(set(digests)) == 3
    assert digests[0] == digests[3]


def test_what_nobody_asks_for_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    old = built("kind", "old", lambda folder: None)
    long_ago = time.time() - (KEPT_DAYS + 1) * 86400
    os.utime(old, (long_ago, long_ago))
    built("kind", "new", lambda folder: None)
    assert not old.exists()
    assert cache_folder() == tmp_path
