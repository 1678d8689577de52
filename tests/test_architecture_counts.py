"""Counts that keep the architecture small. A count may fall; to raise a limit needs a reason in its review."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_import_floors import PACKAGE, find_modules, imports_of

MOST_WITH_ONE_IMPORTER = 94
MOST_SHARED_NAMES = 0
MOST_LINES = 40  # of a function, without its docstring
BLOCKS = ("block_in", "block_out", "activation_block")


@pytest.fixture(scope="module")
def modules() -> dict[str, Path]:
    return find_modules(PACKAGE)


def of_compiler(modules: dict[str, Path]) -> Iterator[tuple[str, ast.Module]]:
    for name, file in modules.items():
        if name.startswith("vdla.compiler"):
            yield name, ast.parse(file.read_text(encoding="utf-8"))


def test_few_modules_have_a_single_importer(modules):
    importers: dict[str, set[str]] = {}
    for name, file in modules.items():
        for found in imports_of(name, file, modules):
            importers.setdefault(found.target, set()).add(name)
    single = [name for name in modules if len(importers.get(name, ())) == 1]
    assert len(single) <= MOST_WITH_ONE_IMPORTER, sorted(single)


def test_a_class_name_of_the_compiler_means_one_class(modules):
    names = Counter(
        node.name
        for _, tree in of_compiler(modules)
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    shared = sorted(name for name, count in names.items() if count > 1)
    assert len(shared) <= MOST_SHARED_NAMES, shared


def test_pipelines_are_values_of_one_class(modules):
    """What runs passes in order is a `Pipeline`, of graphs; loop programs have a tuple of passes."""
    running = [
        name
        for name, tree in of_compiler(modules)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and "Pipeline" in node.name
    ]
    assert running == ["vdla.compiler.graph.pipeline"]


def test_no_block_size_is_compared_with_a_constant(modules):
    """A block size belongs to a configuration; 1 and 0 are no sizes of presets."""
    compared = [
        f"{name}:{node.lineno}"
        for name, tree in of_compiler(modules)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and _has_block(node) and _has_size(node)
    ]
    assert compared == []


def _has_block(node: ast.Compare) -> bool:
    names = (getattr(part, "attr", getattr(part, "id", "")) for part in ast.walk(node))
    return any(name in BLOCKS for name in names)


def _has_size(node: ast.Compare) -> bool:
    return any(
        isinstance(part, ast.Constant) and isinstance(part.value, int) and part.value > 1
        for part in ast.walk(node)
    )


def test_functions_are_short(modules):
    long = {
        f"{name}.{node.name}": lines
        for name, file in modules.items()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and (lines := _lines(node)) > MOST_LINES
    }
    assert long == {}


def _lines(node: ast.FunctionDef) -> int:
    first = node.body[0]
    docstring = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) is not None else 0
    return node.end_lineno - node.lineno + 1 - docstring
