"""Which tests look at a module: the near tests, and the tests of the next ring.

Near tests of `a/b/c.py`, in this order:

1. its mirror `tests/a/b/test_c.py` or `tests/a/test_b.py`, or the cocotb bench of its component
2. tests of its folder that import it, then tests of its folder that reach it by imports
3. tests elsewhere that import it
4. where there are none of these, tests of its top folder that reach it

The next ring runs whole programs and whole networks.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import PurePosixPath

from mutation.graph import Imports, names_in_table, origins

UNITS = "tests/hw/test_units.py"  # one test for each entry of its table UNITS
NEXT = (
    "tests/programs/",
    "tests/runtime/test_vectors.py",
    "tests/cli/test_replay.py",
    "tests/compiler/codegen/test_joined.py",
    "tests/compiler/network/",
    "tests/hw/test_systems.py",
    "tests/test_api.py",
)
SCRIPTS = {
    "scripts/random_programs.py": ("--programs", "24", "--configurations", "2", "--jobs", "1"),
    "scripts/random_operators.py": ("--cases", "40", "--rtl", "20"),
}
MIRROR, USERS, FOLDER, ELSEWHERE, ROOM = range(5)
Rank = tuple[int, int]  # the tier, and how many imports lie between


@dataclass(frozen=True)
class Rings:
    """The rings of a tree, by its imports."""

    imports: Imports

    @cached_property
    def _reached(self) -> dict[str, dict[str, int]]:
        return {file: self.imports.distances(file) for file in (*self.imports.files_of_tests(), *SCRIPTS)}

    @cached_property
    def _units(self) -> dict[str, dict[str, int]]:
        """How far every path is from the component of each unit test."""
        source = (self.imports.root / UNITS).read_bytes()
        files = {name: self.imports.files.get(module, "") for name, module in origins(source).items()}
        hardware = {
            name: file
            for name, file in files.items()
            if file.startswith("hw/") and not file.startswith("hw/spec/")
        }
        return {
            f"{UNITS}::test_unit[{key}]": self.imports.distances(
                *(hardware[name] for name in sorted(names & hardware.keys()))
            )
            for key, names in names_in_table(source, "UNITS").items()
        }

    def near(self, module: str) -> list[str]:
        """Return the test files near `module`, the nearest first."""
        ranks = {file: self._file_rank(module, file) for file in self.imports.files_of_tests()}
        files = [file for file, rank in ranks.items() if rank is not None]
        files.sort(key=lambda file: (ranks[file], file))
        return [file for file in files if ranks[file][0] < ROOM] or files

    def near_tests(self, module: str) -> list[list[str]]:
        """Return the tests near `module` tier by tier: files, and the unit benches that reach it."""
        tests = [(file, self._file_rank(module, file)) for file in self.near(module) if file != UNITS]
        benches = self._units if module.startswith("hw/") and not module.startswith("hw/spec/") else {}
        ranked = [(bench, rank) for bench in benches if (rank := self.rank(module, bench))]
        if not benches and UNITS in self.near(module):
            tests.append((UNITS, self._file_rank(module, UNITS)))
        entries = sorted([*ranked, *tests], key=lambda entry: entry[1])
        return [[test for test, _ in group] for _, group in groupby(entries, lambda entry: entry[1][0])]

    def rank(self, module: str, test: str) -> Rank | None:
        """Return how near a test (`file::name[...]`) is to `module`; None: it is not near."""
        if test not in self._units or module.startswith("hw/spec/"):
            return self._file_rank(module, test.partition("::")[0])
        distance = self._units[test].get(module)
        return None if distance is None else (FOLDER if distance else MIRROR, distance)

    def _file_rank(self, module: str, file: str) -> Rank | None:
        distance = self._reached[file].get(module)
        if distance is None:
            return None
        for tier, holds in enumerate(
            (
                file in _mirrors(module),
                distance == 1 and _folder(file) == f"tests/{_folder(module)}",
                _folder(file) == f"tests/{_folder(module)}",
                distance == 1,
                file.startswith(f"tests/{module.partition('/')[0]}/"),
            )
        ):
            if holds:
                return tier, distance
        return None

    def next(self, module: str) -> list[str]:
        """Return the test files of the next ring.

        Commands import most modules when they run, so the tests of the command line are always among them.
        """
        return [
            file
            for file in self.imports.files_of_tests()
            if file.startswith(NEXT) and (module in self._reached[file] or file.startswith("tests/cli/"))
        ]

    def campaigns(self, module: str) -> list[tuple[str, ...]]:
        """Return the random campaigns of the next ring, each as a script and its arguments."""
        return [
            (script, *arguments) for script, arguments in SCRIPTS.items() if module in self._reached[script]
        ]


def _mirrors(module: str) -> set[str]:
    """Return the test files that are named after a module, or after its folder."""
    path = PurePosixPath("tests", module)
    folder = path.parent
    return {
        f"{folder}/test_{path.stem}.py",
        f"{folder}/test_{folder.name}.py",
        f"{folder.parent}/test_{folder.name}.py",
    }


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
