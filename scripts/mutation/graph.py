"""Who imports whom, among modules, tests and scripts, as the import statements in their texts say."""

import ast
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mutation.sample import ROOMS

PACKAGE = "vdla"


@dataclass(frozen=True)
class Imports:
    """The import graph of a tree.

    Attributes:
        root: of the tree.
    """

    root: Path

    @cached_property
    def files(self) -> dict[str, str]:
        """The path of every module, below the root, by the name it is imported by."""
        places = {f"{PACKAGE}.{room}": self.root / room for room in ROOMS}
        places |= {
            PACKAGE: self.root / "src" / PACKAGE,
            "tests": self.root / "tests",
            "": self.root / "scripts",
        }
        modules = {}
        for name, folder in places.items():
            for file in sorted(folder.rglob("*.py")):  # which does not follow the links from src to the rooms
                parts = [name, *file.relative_to(folder).with_suffix("").parts]
                modules[".".join(part for part in parts if part and part != "__init__")] = file.relative_to(
                    self.root
                ).as_posix()
        return modules

    @cached_property
    def direct(self) -> dict[str, frozenset[str]]:
        """The paths that each path imports."""
        return {
            path: frozenset(self._imported((self.root / path).read_bytes())) - {path}
            for path in self.files.values()
        }

    def _imported(self, source: bytes) -> Iterator[str]:
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Import(names=names):
                    yield from self._known(*(alias.name for alias in names))
                case ast.ImportFrom(module=str(module), names=names):
                    yield from self._known(*(f"{module}.{alias.name}" for alias in names), module)

    def _known(self, *names: str) -> Iterator[str]:
        yield from (self.files[name] for name in names if name in self.files)

    def distances(self, *paths: str) -> dict[str, int]:
        """Return how many imports away every path is that `paths` reach.

        Test helpers are part of the tests that import them: their import does not count.
        """
        distance_to, queue = dict.fromkeys(paths, 0), deque(paths)
        while queue:
            path = queue.popleft()
            for imported in sorted(self.direct.get(path, ())):
                distance = distance_to[path] + (not imported.startswith("tests/"))
                if distance < distance_to.get(imported, 1 << 30):
                    distance_to[imported] = distance
                    (queue.append if distance > distance_to[path] else queue.appendleft)(imported)
        return distance_to

    def files_of_tests(self) -> list[str]:
        """Return the files that pytest reads tests from."""
        return [
            path
            for path in self.files.values()
            if path.startswith("tests/") and path.rpartition("/")[2].startswith("test_")
        ]


def names_in_table(source: bytes, table: str) -> dict[str, set[str]]:
    """Return the names that each value mentions in the dictionary that a module assigns to `table`."""
    for node in ast.parse(source).body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == table
            and isinstance(node.value, ast.Dict)
        ):
            pairs = zip(node.value.keys, node.value.values, strict=True)
            return {
                key.value: {name.id for name in ast.walk(value) if isinstance(name, ast.Name)}
                for key, value in pairs
            }
    raise ValueError(f"there is no dictionary {table}")


def origins(source: bytes) -> Mapping[str, str]:
    """Return the module that each name of a module's `from ... import` statements comes from."""
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
