"""docs/from_vta.md: its commands and programs run, and its tables agree with the sources."""

import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from page_blocks import blocks

from tests.docs.pages import CODE, DOCS, ROOT, commands, table
from vdla.cli import main
from vdla.hw.spec import isa
from vdla.hw.spec.memories import MEMORIES
from vdla.hw.spec.presets import VTA
from vdla.hw.spec.vocabulary import VTA_ALU, Extension, MemoryType
from vdla.hw.spec.vta_json import VTA_IGNORED, VTA_KEYS, read_vta
from vdla.runtime.devices.registry import DEVICE_CLASSES, device_factory
from vdla.runtime.vectors import load_vector, replay

PAGE = (DOCS / "from_vta.md").read_text()
VECTORS = sorted((ROOT / "tests" / "vectors" / "vta").glob("*.npz"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return a folder in which the commands find the files of the repository that they read."""
    directory = tmp_path_factory.mktemp("from_vta")
    (directory / "examples").symlink_to(ROOT / "examples")
    (directory / "tests").symlink_to(ROOT / "tests")
    return directory


def run(words: list[str], folder: Path) -> str:
    """Run a command as a person types it, and return what it prints."""
    first = [sys.executable, "-m", "vdla"] if words[0] == "vdla" else [sys.executable]
    done = subprocess.run(
        [*first, *words[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


def test_the_commands_and_programs_of_the_page_run_in_its_order(folder):
    printed = {}
    for block in blocks(PAGE):
        if block.language == "text":
            (folder / block.name).write_text(block.text)
        elif block.language == "python":
            run(["python", "-c", block.text], folder)
        for words in commands(block.text) if not block.language else ():
            printed[" ".join(words)] = run(words, folder)
    assert len(printed) == 14
    replayed = [text for command, text in printed.items() if command.startswith("vdla replay")]
    assert [text.splitlines()[-1] for text in replayed] == ["2 of 2 match"] * 2
    assert printed["vdla disasm add.bin --config mine.toml"].startswith(
        "LOAD(memory_type=UOP, dram_base=1024"
    )
    compiled = next(text for command, text in printed.items() if command.startswith("vdla compile"))
    assert "100.0% of them on the accelerator" in compiled


def test_every_command_and_device_that_the_page_names_exists():
    named = [
        words[1] for words in map(str.split, CODE.findall(PAGE)) if words[0] == "vdla" and len(words) > 1
    ]
    assert set(named) <= set(main.list_commands(None))
    assert {"functional", "cycle", "rtl"} <= set(DEVICE_CLASSES)


def test_the_page_has_every_key_with_its_parameter():
    assert table(PAGE, "key") == [(f"`{key}`", f"`{parameter}`") for key, parameter in VTA_KEYS.items()]


def test_the_page_has_every_key_without_a_meaning_with_the_reason():
    rows = table(PAGE[PAGE.index("| key | why") :], "key")
    assert rows == [(f"`{key}`", reason) for key, reason in VTA_IGNORED.items()]


def test_the_example_is_the_preset():
    file = ROOT / "examples" / "vta_config.json"
    assert read_vta(file.read_text(), file.name).config.digest == VTA.digest


def added(extension: Extension) -> list[str]:
    """Return the instructions, fields and memories that an extension adds."""
    forms = isa.INSTRUCTIONS
    names = [form.opcode.name for form in forms if form.extension is extension]
    names += [
        f"{form.opcode.name}.{field.name}"
        for form in forms
        for field in fields(form)
        if field.metadata["extension"] is extension
    ]
    return names + [memory.name for memory, about in MEMORIES.items() if about.extension is extension]


def test_the_page_has_every_extension_with_what_it_adds():
    rows = table(PAGE, "extension")
    assert [(name, CODE.findall(adds)) for name, adds in rows] == [
        (f"`{extension}`", added(extension)) for extension in Extension
    ]


def test_the_page_has_vtas_memory_types_and_alu_operations():
    rows = dict(table(PAGE, "subject"))
    memories = [memory.name for memory in MemoryType if MEMORIES[memory].extension is None]
    assert rows["memory types"] == ", ".join(memories)
    assert rows["ALU operations"] == ", ".join(opcode.name for opcode in VTA_ALU)


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_a_stream_of_vta_runs_the_same_with_all_extensions_on(path):
    vector = load_vector(path)
    extended = vector.config.with_changes(extensions=tuple(Extension))
    assert replay(replace(vector, config=extended), device_factory("functional")).conforms
