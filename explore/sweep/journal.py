"""The journal of a sweep: one line for each measured point, appended when it is measured.

The point of a torn last line is measured again; see `vdla.runtime.journal`.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path

import msgspec

from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.measure import Measured
from vdla.explore.sweep.parameters import Value
from vdla.explore.sweep.space import Key
from vdla.explore.sweep.tables import TUNING, LayerRow, PointRow
from vdla.runtime.journal import Appender, Kind

KeyOf = Callable[[Mapping[str, Value]], Key]
LARGEST = 1 << 63
KIND = Kind(
    SweepError,
    "delete that line, and the same command measures its point again",
    "make room and run the same command again, which goes on where this one stopped",
)


class Journal:
    """A journal that is open for appending.

    Args:
        path: of the file; it is made where it does not exist.
        key: tells points apart, as `Space.key` does.

    Attributes:
        measured: every point in it, by key. Numbers are those of the sweep that measured it.

    Raises:
        SweepError: it cannot be opened, or a line before the last is damaged.
    """

    def __init__(self, path: Path, key: KeyOf) -> None:
        self.path, self._key = path, key
        self._appender = Appender(path, KIND)
        try:
            texts = enumerate(self._appender.texts(), 1)
            found = (self._decoded(number, text) for number, text in texts)
            self.measured = {key(one.point.values): one for one in found}
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
            found = msgspec.json.decode(text, type=Measured)
            self._key(found.point.values)
        except (msgspec.MsgspecError, KeyError, RecursionError):  # of another version of the kit, or forged
            raise KIND.damaged(self.path, number) from None
        rows: tuple[PointRow | LayerRow, ...] = (*found.rows, *found.layers)
        if not all(map(_fits, rows)):
            raise KIND.damaged(self.path, number)
        return found


def _fits(row: PointRow | LayerRow) -> bool:
    """Whether the whole numbers of a row fit into the columns of a table."""
    values = (getattr(row, one.name) for one in fields(row))
    return all(-LARGEST <= value < LARGEST for value in values if isinstance(value, int))


def _text(measured: Measured) -> bytes:
    """Return a point as JSON; what only tuning measures is left out where there was none."""
    values = msgspec.to_builtins(measured)
    for row in values["rows"]:
        for name in TUNING:
            if row[name] is None:
                del row[name]
    return msgspec.json.encode(values)
