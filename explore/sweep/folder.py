"""The folder of a sweep: one sweep at a time, and always the same sweep.

`sweep.json` says which sweep it is. `journal.jsonl` holds what was measured: one line for each point,
appended when it is measured. The point of a torn last line is measured again; see `vdla.runtime.journal`.
`points.parquet` and `layers.parquet` are tables derived from the journal.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock, Timeout

import vdla
from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.figures import Verdict
from vdla.explore.sweep.identity import IDENTITY, read_identity
from vdla.explore.sweep.limits import Limits, worst
from vdla.explore.sweep.measure import Measured
from vdla.explore.sweep.parameters import Value
from vdla.explore.sweep.space import Key, Point
from vdla.explore.sweep.tables import TUNING, LayerRow, PointRow, layers_table, points_table
from vdla.explore.workers.sources import sources
from vdla.hw.spec.showing import short, shown
from vdla.hw.spec.writing import check_writable, whole_file, write_text
from vdla.runtime.journal import Appender, Kind

JOURNAL, LOCK = "journal.jsonl", ".sweep.lock"
POINTS, LAYERS = "points.parquet", "layers.parquet"
CHANGEABLE = ("parameters", "constraints", "objectives", "limits", "budget", "sampler")
"""Keys of a specification that a folder's sweep may change: they choose points and mark results, and no
figure depends on them."""
KeyOf = Callable[[Mapping[str, Value]], Key]
LARGEST = 1 << 63
KIND = Kind(
    SweepError,
    "delete that line, and the same command measures its point again",
    "make room and run the same command again, which resumes this sweep",
)


@dataclass(frozen=True)
class Identity:
    """What tells a sweep from another.

    Attributes:
        specification: as plain JSON values.
        base: name and digest of the target that points differ from.
        base_toml: that target in full; its digest tells it from others.
        workloads: digest of each, by name.
        parameters: names of the sweep's parameters.
        limits: on results.
        warm: digest of what the log of [tune] teaches; "" where there is none.
    """

    specification: Mapping[str, Any]
    base: Mapping[str, str]
    base_toml: str
    workloads: Mapping[str, str]
    parameters: tuple[str, ...]
    limits: Limits
    warm: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, with the kit's version and sources."""
        return {
            "specification": dict(self.specification),
            "base": dict(self.base),
            "base_toml": self.base_toml,
            "workloads": dict(self.workloads),
            "parameters": list(self.parameters),
            "version": vdla.__version__,
            "sources": sources(),
            "family": self.specification.get("family", "ecp5"),
            "limits": self.limits.to_json(),
            **({"tune_log": self.warm} if self.warm else {}),
        }


class Folder:
    """The open folder of a sweep.

    Args:
        path: of the folder.
        identity: of the sweep.
        key: tells points apart, as `Space.key` does.

    Attributes:
        measured: the measured points of the sweep, by number.
        resumed: how many of them the journal held when it was opened.
    """

    def __init__(self, path: Path, identity: Identity, key: KeyOf) -> None:
        self.path, self._identity, self._key = path, identity, key
        self._journal = Journal(path / JOURNAL, key)
        self._before = len(self._journal.measured)
        self.measured: dict[int, Measured] = {}
        self.resumed = 0

    def include(self, points: Iterable[Point]) -> list[Point]:
        """Make points part of the sweep; return the points that the journal does not hold."""
        missing = []
        for point in points:
            known = self._journal.measured.get(self._key(point.values))
            if known is None:
                missing.append(point)
            else:
                self.measured[point.number] = replace(known, point=point)
                self.resumed += 1
        return missing

    @property
    def left_out(self) -> int:
        """Points of the journal, when it was opened, that the sweep does not have."""
        return self._before - self.resumed

    def add(self, measured: Measured) -> None:
        """Keep a point; raises what `Journal.append` raises."""
        self._journal.append(measured)
        self.measured[measured.point.number] = measured

    def write_tables(self) -> None:
        """Write the tables of all points that are measured.

        Raises:
            OutputError: a table cannot be written; the journal has everything that it would hold.
        """
        from pyarrow import parquet

        results, identity = [self.measured[number] for number in sorted(self.measured)], self._identity
        points = (
            (result.point.number, result.point.values, row) for result in results for row in result.rows
        )
        layers = ((result.point.number, layer) for result in results for layer in result.layers)
        judged = identity.limits.judged if identity.limits.values else None
        table_of_points = points_table(
            identity.parameters, points, tuned="tune" in identity.specification, judged=judged
        )
        for name, table in ((LAYERS, layers_table(layers)), (POINTS, table_of_points)):
            with whole_file(self.path / name, "wb") as file:
                parquet.write_table(table, file)

    def verdicts(self) -> Mapping[Verdict, int]:
        """Return how many points stand where to the limits, on the worst of their workloads; points without
        a result are not counted."""
        judged = self._identity.limits.judged
        points = ([judged(row).verdict for row in result.rows] for result in self.measured.values())
        return Counter(worst(filter(None, verdicts)) for verdicts in points if None not in verdicts)

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()


@contextmanager
def opened(path: Path, identity: Identity, key: KeyOf) -> Iterator[Folder]:
    """Open the folder of a sweep for writing; make it where it does not exist.

    A folder takes another specification where that changes CHANGEABLE only; points that both have are kept.

    Raises:
        SweepError: another process writes to it, it holds another sweep, or is damaged.
        OutputError: it cannot be written.
    """
    check_writable(path / IDENTITY)
    path.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise SweepError(f"{path} is in use by another sweep; wait for it, or give another folder") from None
    try:
        _claim(path, identity)
        folder = Folder(path, identity, key)
        try:
            yield folder
        finally:
            folder.close()
    finally:
        lock.release()


def measured_in(path: Path) -> int:
    """Return how many points the folder of a sweep keeps; 0 where there is no journal yet."""
    journal = path / JOURNAL
    if not journal.exists():
        return 0
    with journal.open("rb") as file:
        return sum(line.endswith(b"\n") for line in file)


def _claim(path: Path, identity: Identity) -> None:
    """Write `sweep.json`. Where it exists, refuse a sweep that differs in more than the choice of points."""
    wanted = identity.to_json()
    if not (path / IDENTITY).exists():
        if (path / JOURNAL).exists():
            raise SweepError(f"{path} has a {JOURNAL} and no {IDENTITY}; sweep into another folder")
        _write_identity(path, {**wanted, "created": datetime.now(UTC).isoformat(timespec="seconds")})
        return
    existing = read_identity(path)
    for key in ("specification", "base", "workloads", "tune_log"):
        different = _difference(_fixed(existing.get(key)), _fixed(wanted.get(key)), key)
        if different:
            raise SweepError(f"{path} holds another sweep: {different}; sweep into another folder")
    if existing.get("sources") != wanted["sources"]:
        raise SweepError(
            f"{path} was measured with other sources of the kit ({short(str(existing.get('sources')))[:12]}, "
            f"now {wanted['sources'][:12]}), so cycles may differ; sweep into another folder and "
            "compare the two with vdla sweep diff"
        )
    if existing != {**existing, **wanted}:
        _write_identity(path, {**existing, **wanted})


def _write_identity(path: Path, values: Mapping[str, Any]) -> None:
    write_text(path / IDENTITY, json.dumps(values, indent=1) + "\n")


def _fixed(part: Any) -> Any:
    """Return a part of `sweep.json` without what may change."""
    if not isinstance(part, dict):
        return part
    return {name: value for name, value in part.items() if name not in CHANGEABLE}


def _difference(there: Any, here: Any, where: str) -> str:
    """Return the first difference of two JSON values; "" where there is none."""
    if isinstance(there, dict) and isinstance(here, dict):
        texts = (
            _difference(there.get(key), here.get(key), f"{where}.{key}") for key in sorted({*there, *here})
        )
        return next((text for text in texts if text), "")
    return (
        ""
        if there == here
        else f"{short(where.removeprefix('specification.'))} is {shown(there)} there and {shown(here)} here"
    )


class Journal:
    """A journal that is open for appending.

    Args:
        path: of the file; it is created where it does not exist.
        key: tells points apart, as `Space.key` does.

    Attributes:
        measured: every point in it, by key. Its number is from the sweep that measured it.

    Raises:
        SweepError: it cannot be opened, or a line before the last is damaged.
    """

    def __init__(self, path: Path, key: KeyOf) -> None:
        self.path, self._key = path, key
        self._appender = Appender(path, KIND)
        try:
            texts = enumerate(self._appender.texts(), 1)
            results = (self._decoded(number, text) for number, text in texts)
            self.measured = {key(result.point.values): result for result in results}
        except BaseException:
            self.close()
            raise

    def append(self, measured: Measured) -> None:
        """Add a point.

        Raises:
            SweepError: it cannot be written; the journal is as before.
        """
        self._appender.append([_text(measured)])
        self.measured[self._key(measured.point.values)] = measured

    def close(self) -> None:
        """Close the file."""
        self._appender.close()

    def _decoded(self, number: int, text: bytes) -> Measured:
        try:
            measured = msgspec.json.decode(text, type=Measured)
            self._key(measured.point.values)
        except (msgspec.MsgspecError, KeyError, RecursionError):  # of another version of the kit, or forged
            raise KIND.damaged(self.path, number) from None
        rows: tuple[PointRow | LayerRow, ...] = (*measured.rows, *measured.layers)
        if not all(map(_fits, rows)):
            raise KIND.damaged(self.path, number)
        return measured


def _fits(row: PointRow | LayerRow) -> bool:
    """Whether the whole numbers of a row fit into the columns of a table."""
    values = (getattr(row, field.name) for field in fields(row))
    return all(-LARGEST <= value < LARGEST for value in values if isinstance(value, int))


def _text(measured: Measured) -> bytes:
    """Return a point as JSON; what only tuning measures is left out where there was none."""
    values = msgspec.to_builtins(measured)
    for row in values["rows"]:
        for name in TUNING:
            if row[name] is None:
                del row[name]
    return msgspec.json.encode(values)
