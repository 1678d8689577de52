"""Which mutants a campaign plants: as many of each room, drawn evenly over the lines of its modules.

The same seed and sources give the same mutants.
"""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from mutation.operators import Change, changes

WEIGHTS = {
    "arguments": 1,
    "arithmetic": 2,
    "boolean": 2,
    "comparison": 2,
    "condition": 2,
    "constant": 2,
    "statement": 2,
}
ROOMS = ("hw", "sim", "compiler", "runtime", "explore", "prove")
GENERATORS = "random_"  # modules named so make test inputs: nothing can depend on which inputs they make


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of a module, and what it looks like.

    Attributes:
        module: path of the file, below the root.
        before, after: the lines that change.
    """

    module: str
    change: Change
    before: str
    after: str

    @property
    def key(self) -> tuple[str, int, str]:
        """What tells it apart from every other mutant of the same sources."""
        return self.module, self.change.start, self.after

    def __str__(self) -> str:
        return f"{self.module}:{self.change.line} [{self.change.operator}]  {self.before}  ->  {self.after}"


def sources(root: Path, rooms: tuple[str, ...] = ROOMS) -> dict[str, bytes]:
    """Return the text of every module in `rooms`, but generators of test inputs, by its path below `root`."""
    files = sorted(
        file for room in rooms for file in (root / room).rglob("*.py") if not file.name.startswith(GENERATORS)
    )
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in files}


def digest(files: Mapping[str, bytes]) -> str:
    """Return what tells a set of files from another (hex)."""
    return hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]


def mutants_of(module: str, source: bytes) -> list[Mutant]:
    """Return every mutant of a module."""
    return [Mutant(module, change, *change.lines(source)) for change in changes(source)]


def draw(modules: Mapping[str, bytes], count: int, seed: int) -> list[Mutant]:
    """Draw as many mutants of each room, in random order.

    Args:
        modules: by path; the rooms are the first folders of the paths.
        count: how many in all; of a room at most as many as it has lines that can change.
    """
    rng, rooms = random.Random(seed), sorted({path.partition("/")[0] for path in modules})
    parts = [count * (place + 1) // len(rooms) - count * place // len(rooms) for place in range(len(rooms))]
    drawn = [
        mutant
        for room, part in zip(rooms, parts, strict=True)
        for mutant in _of_room(
            {path: text for path, text in modules.items() if path.startswith(f"{room}/")}, part, rng
        )
    ]
    rng.shuffle(drawn)
    return drawn


def _of_room(modules: Mapping[str, bytes], count: int, rng: random.Random) -> list[Mutant]:
    """Draw lines at equal distances through all modules, and of each line one change at random."""
    lines = [
        list(group)
        for module, source in modules.items()
        for _, group in groupby(mutants_of(module, source), lambda mutant: mutant.change.line)
    ]
    count = min(count, len(lines))
    offset = rng.random()
    return [_one(rng, lines[int((place + offset) * len(lines) / count)]) for place in range(count)]


def _one(rng: random.Random, line: list[Mutant]) -> Mutant:
    operators = sorted({mutant.change.operator for mutant in line})
    (operator,) = rng.choices(operators, [WEIGHTS[operator] for operator in operators])
    return rng.choice([mutant for mutant in line if mutant.change.operator == operator])
