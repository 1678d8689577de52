"""docs/export.md: its commands run, its C compiles, and its tables agree with the sources."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from exported.board import compiler
from page_blocks import blocks

from tests.docs.pages import CODE, DOCS, ROOT, commands, table
from tests.export.programs import STRICT
from vdla.export.files import DRIVER_ERRORS, asset, errors, files_of
from vdla.export.operators import FORMS, OF_THE_GREATEST, ULP, VIEWS
from vdla.runtime.module.file import load

PAGE = (DOCS / "export.md").read_text()
LISTED = dict(table(PAGE, "result"))


def run(words: list[str], folder: Path) -> str:
    """Run a command as a person types it, and return what it prints."""
    python = {"vdla": [sys.executable, "-m", "vdla"], "python": [sys.executable]}
    done = subprocess.run(
        [*python.get(words[0], [words[0]]), *words[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT / "scripts")))},
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return a folder in which the commands of the page have run."""
    directory = tmp_path_factory.mktemp("page")
    for name in ("examples", "scripts"):
        (directory / name).symlink_to(ROOT / name)
    printed = [
        run(words, directory)
        for block in blocks(PAGE)
        for words in commands(block.text, "make")
        if not block.language
    ]
    assert len(printed) == 5
    assert "VDLA_OK" in printed[-1]
    assert printed[-1].endswith("greatest differences: scores 0\n")
    return directory


def test_the_program_of_the_page_is_compiled_and_linked(folder):
    c = folder / "build" / "digits_c"
    program = next(block for block in blocks(PAGE) if block.language == "c")
    (c / program.name).write_text(program.text)
    strict = STRICT.split()
    run([*compiler(), *strict, "-o", "program", program.name, "libdigits.a", "-lm"], c)
    assert (c / "program").exists()


def test_the_page_has_every_file(folder):
    written = set(files_of(load(folder / "build" / "digits.vdla"), "digits"))
    rows = (name for cell, _ in table(PAGE, "file") for name in CODE.findall(cell))
    assert {name.replace("NAME", "digits") for name in rows} == written


def test_the_page_has_every_error_code_with_its_meaning():
    rows = dict(table(PAGE, "code"))
    assert [name for cell in rows for name in CODE.findall(cell)] == list(errors())
    assert {cell: text for cell, text in rows.items() if "FAULT" not in cell} == {
        f"`VDLA_ERROR_{name}`": text for name, text in DRIVER_ERRORS.items()
    }


def test_the_page_has_every_operator_with_its_promise():
    bounds = {op: f"at most {units} units in the last place" for op, units in ULP.items()}
    bounds |= {op: f"{bounds[op]} of the greatest element" for op in OF_THE_GREATEST}
    promises = {op: promise for promise, cell in LISTED.items() for op in CODE.findall(cell)}
    assert promises == {op: bounds.get(op, "exact") for op in (*FORMS, *VIEWS)}
    assert all(ops == sorted(ops) for ops in map(CODE.findall, LISTED.values()))


def test_the_page_has_every_function_of_the_platform():
    named = {name for cell, _ in table(PAGE, "function") for name in CODE.findall(cell)}
    declared = {
        line.split("(")[0].split()[-1].lstrip("*")
        for line in asset("vdla_platform.h").splitlines()
        if line.endswith(");")
    }
    assert named == declared
