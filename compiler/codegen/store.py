"""A table of choices in the kit's cache folder, shared between processes.

SQLite keeps it consistent if several processes write at once, or if one is killed. Writes are not synced to
the disk, which costs more than most choices: after a crash of the operating system choices may be missing.
An entry that was altered is found by its digest.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from vdla.compiler.codegen.choose import Chooser, by_simulator
from vdla.compiler.codegen.record import choice_from_json, choice_to_json
from vdla.compiler.codegen.space import Space
from vdla.compiler.codegen.version import task_version
from vdla.compiler.tasks.base import Choice
from vdla.hw.spec.cache import cache_folder, digest_of, tell_unusable
from vdla.hw.spec.errors import ToolError

FILE = "choices.sqlite"
MOST_CHOICES = 20_000
WAIT_SECONDS = 30  # for another process that writes
UNUSABLE = (OSError, sqlite3.OperationalError)
"""What a folder raises that is not there and cannot be made, is full, or may not be written to."""
TABLE = (
    "CREATE TABLE IF NOT EXISTS kept "
    "(key TEXT PRIMARY KEY, task TEXT, choice TEXT, digest TEXT, made INTEGER)"
)


def kept(choose: Chooser = by_simulator) -> Chooser:
    """Return a chooser that looks choices up in the cache, and makes and keeps missing ones by `choose`.

    Raises, when it chooses:
        ToolError: the cache is damaged.
    """

    def chosen(space: Space) -> Choice:
        if len(space.usual) == 1 and space.more is None:
            return space.usual.choice(0)
        key = key_of(space)
        found = read(key)
        if found is None or found not in space:
            found = choose(space)
            write(key, str(space.task), found)
        return found

    return chosen


def key_of(space: Space) -> str:
    """Return the digest of the task, of what the target's cycles depend on, and of the sources that
    decide."""
    return digest_of([str(space.task), space.target.timing_digest, task_version()])


def read(key: str) -> Choice | None:
    """Return the choice that was kept under a key; None where there is none, or it was altered."""
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
    """Keep a choice; of more than MOST_CHOICES the oldest are forgotten."""
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
    """Return the choices that are kept."""
    with _table() as table:
        return int(table.execute("SELECT count(*) FROM kept").fetchone()[0])


def clear() -> None:
    """Forget all choices. A file that is no table is deleted; another process may be using one that is.

    Raises:
        OSError: it cannot be deleted.
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
        ToolError: the file is no table.
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
