"""The cache of choices: an SQLite table in the kit's cache folder, shared between processes.

SQLite keeps the table consistent under concurrent writes and after a killed process. Writes are not synced to
the disk, because a sync costs more than most choices; after a crash of the operating system choices may be
missing. A digest detects altered entries.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from vdla.compiler.codegen.choices import choice_from_json, choice_to_json
from vdla.compiler.codegen.choose import Chooser, by_simulator
from vdla.compiler.codegen.space import ChoiceSpace
from vdla.compiler.codegen.version import task_version
from vdla.compiler.tasks.base import Choice
from vdla.hw.spec.cache import cache_folder, digest_of, tell_unusable
from vdla.hw.spec.errors import ToolError

FILE = "choices.sqlite"
MOST_CHOICES = 20_000
WAIT_SECONDS = 30  # for another process that writes
UNUSABLE = (OSError, sqlite3.OperationalError)
"""Errors of a folder that cannot be created, is full, or is not writable."""
TABLE = (
    "CREATE TABLE IF NOT EXISTS kept "
    "(key TEXT PRIMARY KEY, task TEXT, choice TEXT, digest TEXT, made INTEGER)"
)


def cached(choose: Chooser = by_simulator) -> Chooser:
    """Return a chooser that reads choices from the cache, and adds missing choices by `choose`.

    Raises, when it chooses:
        ToolError: the cache is damaged.
    """

    def chosen(space: ChoiceSpace) -> Choice:
        if len(space.usual) == 1 and space.more is None:
            return space.usual.choice(0)
        key = key_of(space)
        choice = read(key)
        if choice is None or choice not in space:
            choice = choose(space)
            write(key, str(space.task), choice)
        return choice

    return chosen


def key_of(space: ChoiceSpace) -> str:
    """Return the key of a space: a digest of the task, of the target's timing, and of the sources that
    determine the choice."""
    return digest_of([str(space.task), space.target.timing_digest, task_version()])


def read(key: str) -> Choice | None:
    """Return the choice with a key; None if there is no entry, or it was altered."""
    try:
        with _table() as table:
            row = table.execute("SELECT choice, digest FROM kept WHERE key = ?", (key,)).fetchone()
    except UNUSABLE as error:
        tell_unusable(error)
        return None
    if row is None or row[1] != digest_of([key, row[0]]):
        return None
    return choice_from_json(json.loads(row[0]))


def write(key: str, task: str, choice: Choice) -> None:
    """Add a choice, and evict the oldest choices beyond MOST_CHOICES."""
    text = json.dumps(choice_to_json(choice))
    values = key, task, text, digest_of([key, text])
    oldest = "SELECT rowid FROM kept ORDER BY rowid DESC LIMIT -1 OFFSET ?"
    try:
        with _table() as table:
            table.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?, unixepoch())", values)
            table.execute(f"DELETE FROM kept WHERE rowid IN ({oldest})", (MOST_CHOICES,))
    except UNUSABLE as error:
        tell_unusable(error)


def count() -> int:
    """Return the number of choices in the cache."""
    with _table() as table:
        return int(table.execute("SELECT count(*) FROM kept").fetchone()[0])


def clear() -> None:
    """Remove all choices. The table is emptied, not deleted, because another process may use it; a file that
    is not a database is deleted.

    Raises:
        OSError: the file cannot be deleted.
    """
    path = cache_folder() / FILE
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(path, timeout=WAIT_SECONDS)) as connection:
            connection.execute("DROP TABLE IF EXISTS kept")
            connection.execute("VACUUM")
    except sqlite3.DatabaseError:
        path.unlink()


@contextmanager
def _table() -> Iterator[sqlite3.Connection]:
    """Open the table for one transaction.

    Raises:
        ToolError: the file is not a database.
        OSError, sqlite3.OperationalError: the folder cannot be used.
    """
    path = cache_folder() / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=WAIT_SECONDS)) as connection, connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute(TABLE)
            yield connection
    except UNUSABLE:
        raise
    except sqlite3.Error as error:
        raise ToolError(
            f"the cache {path} is damaged ({error}); empty it with `vdla cache clear`, or name another "
            "folder with VDLA_CACHE_DIR"
        ) from error
