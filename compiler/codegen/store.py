"""Choices kept between processes: a table in the kit's cache folder, by everything that decides them.

SQLite keeps it whole where several processes write at once, and where one is killed.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path

import vdla
from vdla.compiler.codegen.choose import Chooser, by_simulator
from vdla.compiler.codegen.record import choice_from_json, choice_to_json
from vdla.compiler.codegen.space import Choice, Space
from vdla.hw.spec.cache import cache_folder, digest_of, digest_of_files
from vdla.hw.spec.errors import ToolError

FILE = "choices.sqlite"
MOST_CHOICES = 20_000
WAIT_SECONDS = 30  # for another process that writes
DECIDING = (
    "compiler/codegen",
    "compiler/ir",
    "compiler/te",
    "hw/spec",
    "sim",
)  # their sources decide which choice is best
TABLE = "CREATE TABLE IF NOT EXISTS choices (key TEXT PRIMARY KEY, task TEXT, choice TEXT, made INTEGER)"


def kept(choose: Chooser = by_simulator) -> Chooser:
    """Return what looks a choice up, and makes it by `choose` and keeps it where it was never made.

    Raises, when it chooses:
        ToolError: the cache cannot be used.
    """

    def chosen(space: Space) -> Choice:
        if len(space) == 1:
            return space.choice(0)
        key = key_of(space)
        found = read(key)
        if found is None:
            found = choose(space)
            write(key, str(space.task), found)
        return found

    return chosen


def key_of(space: Space) -> str:
    """Return the digest of the task, of what the target's cycles depend on, and of the sources that
    decide."""
    return digest_of([str(space.task), space.target.timing_digest, version()])


@lru_cache(maxsize=1)
def version() -> str:
    """Return a digest of the sources that decide."""
    root = Path(vdla.__file__).parent
    stream = (path.read_bytes() for path in sorted((root / "runtime").glob("*.py")))  # the stream builder
    return digest_of([*(digest_of_files(root / package, "*.py") for package in DECIDING), *stream])


def read(key: str) -> Choice | None:
    """Return the choice that was kept under a key; None where there is none."""
    with _table() as table:
        row = table.execute("SELECT choice FROM choices WHERE key = ?", (key,)).fetchone()
    return None if row is None else choice_from_json(json.loads(row[0]))


def write(key: str, task: str, choice: Choice) -> None:
    """Keep a choice; of more than MOST_CHOICES the oldest are forgotten."""
    with _table() as table:
        table.execute(
            "INSERT OR REPLACE INTO choices VALUES (?, ?, ?, unixepoch())",
            (key, task, json.dumps(choice_to_json(choice))),
        )
        table.execute(
            "DELETE FROM choices WHERE rowid IN (SELECT rowid FROM choices ORDER BY rowid DESC LIMIT -1 "
            "OFFSET ?)",
            (MOST_CHOICES,),
        )


def count() -> int:
    """Return the choices that are kept."""
    with _table() as table:
        return table.execute("SELECT count(*) FROM choices").fetchone()[0]


@contextmanager
def _table() -> Iterator[sqlite3.Connection]:
    """Open the table for one transaction."""
    path = cache_folder() / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=WAIT_SECONDS)) as connection, connection:
            connection.execute(TABLE)
            yield connection
    except (OSError, sqlite3.Error) as error:
        raise ToolError(
            f"the cache {path} cannot be used ({error}); empty it with `vdla cache clear`, or name "
            "another folder with "
            "VDLA_CACHE_DIR"
        ) from error
