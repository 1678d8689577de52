"""Stored output of measurements: what is stale, what runs first, what is kept; and the shipped store."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from figures import store
from figures.declared import ROOT, Measurement, matched, measurements
from figures.pages import marks, paths, rendered
from figures.store import MeasureError, Output, kept, measure, read_store, stale, write_store

from tests.test_import_floors import PACKAGE, find_modules, imports_of


def script(name: str, text: str, **values) -> Measurement:
    return Measurement(name, f"-c {json.dumps(text)}", **values)


def test_measurements_are_stale_where_their_sources_changed():
    plain = Measurement("one", "vdla config tiny", depends=("hw/spec/presets.py",))
    dated = replace(plain, name="dated", dated=True)
    files = Measurement("files", "vdla config tiny")
    declared = {item.name: item for item in (plain, dated, files)}
    assert [item.name for item in stale(declared, {})] == ["one", "dated"]
    current = {name: Output(declared[name].digest, "") for name in ("one", "dated")}
    assert not list(stale(declared, current))
    old = {name: Output("old", "") for name in current}
    assert [item.name for item in stale(declared, old)] == ["one"]
    assert replace(plain, command="vdla config small").digest != plain.digest
    assert replace(plain, depends=("hw/spec/config.py",)).digest != plain.digest


def test_a_measurement_runs_after_those_whose_files_it_reads(tmp_path):
    path = tmp_path / "file"
    first = script("first", f"open({str(path)!r}, 'a').write('x')")
    second = script("second", f"print(open({str(path)!r}).read())", after=("first",), depends=("sim",))
    prepared: set[str] = set()
    declared = {"first": first, "second": second}
    assert measure(second, declared, prepared).text == "x"
    assert measure(second, declared, prepared).text == "x"


def test_a_failed_command_is_reported_with_what_it_said():
    with pytest.raises(MeasureError, match=r"(?s)exited with 1: .*no such thing"):
        measure(script("bad", "raise ValueError('no such thing')"), {}, set())


def test_omitted_lines_are_not_stored(tmp_path):
    measurement = Measurement("one", "x", omit="^host")
    assert kept(measurement, ["a", "host time 3", "b host"]) == "a\nb host"
    write_store({"b": Output("1", "text"), "a": Output("2", "é")}, tmp_path / "store.json")
    assert list(read_store(tmp_path / "store.json").items()) == [
        ("a", Output("2", "é")),
        ("b", Output("1", "text")),
    ]
    assert read_store(tmp_path / "none.json") == {}


@pytest.mark.parametrize("path", list(paths()), ids=lambda path: path.name)
def test_a_page_shows_the_stored_figures(path):
    text = path.read_text()
    assert rendered(text, measurements(), read_store()) == text, "run make figures"


def test_the_stored_figures_are_those_of_these_sources():
    assert [measurement.name for measurement in stale(measurements(), read_store())] == [], "run make figures"


@pytest.mark.parametrize(
    "name",
    [name for name, measurement in measurements().items() if measurement.depends and not measurement.dated],
)
def test_a_measurement_depends_on_the_modules_above_the_library_that_its_command_imports(name):
    """A measurement names the modules of its command alone, so that it stays valid when another command
    changes."""
    measurement = measurements()[name]
    imported = {
        str(file.relative_to(ROOT))
        for file in imported_files(measurement.command)
        if file.is_relative_to(PACKAGE) and file.resolve().is_relative_to(PACKAGE)
    }
    assert imported - set(measurement.depends) == set()


MODULES = find_modules(PACKAGE)


def imported_files(command: str) -> set[Path]:
    """Return the files of all modules that a command imports, directly or through others."""
    program, *arguments = command.split()
    if program == "vdla":
        left, files = {f"vdla.cli.{arguments[0]}", "vdla.cli"}, set()
    else:
        left, files = set(targets("scripts", ROOT / program)), {ROOT / program}
    while left:
        module = left.pop()
        if MODULES[module] not in files:
            files.add(MODULES[module])
            left |= targets(module, MODULES[module])
    return files


@cache
def targets(module: str, file: Path) -> frozenset[str]:
    """Return the modules of the package that a file imports."""
    return frozenset(
        reference.target for reference in imports_of(module, file, MODULES) if reference.target in MODULES
    )


def test_every_stored_measurement_is_declared_and_shown():
    shown = {name for path in paths() for name in marks(path.read_text())}
    declared = measurements()
    assert set(read_store()) <= set(declared)
    assert {name for name, measurement in declared.items() if measurement.depends} - shown <= needed(declared)


def needed(declared) -> set[str]:
    """Return the names of measurements that others need."""
    return {name for measurement in declared.values() for name in measurement.after}


def test_the_store_stands_in_the_documentation():
    assert store.STORE.is_relative_to(ROOT / "docs")


def test_an_excerpt_is_of_whole_lines():
    declared = measurements()
    for name, output in read_store().items():
        for key, pattern in declared[name].views.items():
            excerpt = matched(pattern, output.text)
            assert excerpt is not None, f"{name}.{key}"
            assert f"\n{excerpt.strip()}\n" in f"\n{output.text.strip()}\n", f"{name}.{key}"
