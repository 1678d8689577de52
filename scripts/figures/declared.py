"""The declaration of measurements: docs/figures.toml."""

import re
import shlex
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from vdla.hw.spec.cache import digest_of, digest_of_files

ROOT = Path(__file__).parents[2]
DECLARATION = ROOT / "docs" / "figures.toml"


@dataclass(frozen=True)
class Measurement:
    """A command whose output holds figures of the documentation.

    Attributes:
        command: as a person types it in the repository's folder, with the environment activated.
        after: names of measurements that run first, because they write files that this command reads.
        depends: files and folders that decide the output; empty for commands that only write files.
        dated: whether the output is kept as measured, because it holds times of a machine or takes long.
        omit: lines of the output that match this pattern are not stored.
        figures: a pattern for each figure. Its group is the figure's text.
        views: a pattern for each excerpt of the output. Its group is the excerpt.
    """

    name: str
    command: str
    after: tuple[str, ...] = ()
    depends: tuple[str, ...] = ()
    dated: bool = False
    omit: str = ""
    figures: Mapping[str, str] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        """The command for this environment."""
        first, *others = shlex.split(self.command)
        start = [str(Path(sys.executable).parent / first)] if first == "vdla" else [sys.executable, first]
        return [*start, *others]

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the command and of the sources that decide its output."""
        return digest_of([self.command, *(_digest_of(place) for place in self.depends)])


@cache
def measurements(path: Path = DECLARATION) -> Mapping[str, Measurement]:
    """Return the declared measurements by name."""
    tables = tomllib.loads(path.read_text())
    sources: Mapping[str, list[str]] = tables.pop("sources")
    return {name: _measurement(name, table, sources) for name, table in tables.items()}


def _measurement(name: str, table: dict[str, object], sources: Mapping[str, list[str]]) -> Measurement:
    """Return a measurement. A name of `sources` in `depends` stands for the places listed there."""
    depends = tuple(place for entry in table.pop("depends", ()) for place in sources.get(entry, [entry]))
    after = tuple(table.pop("after", ()))
    return Measurement(name, after=after, depends=depends, **table)


@cache
def _digest_of(place: str) -> str:
    path = ROOT / place
    if path.is_file():
        return digest_of_files(path.parent, path.name)
    return digest_of_files(path, "*.py")


def matched(pattern: str, text: str) -> str | None:
    """Return the group of the first match of a pattern, which may span lines; None where nothing matches."""
    match = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    return match and match[1]
