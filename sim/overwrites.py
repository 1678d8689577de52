"""Self-modification: no STORE or NORMALISE may write the running stream, or micro-ops that the stream loads.

The bytes that they write follow from the stream alone, so this is decided before a run, row by row and to
the byte.
"""

from dataclasses import dataclass

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.errors import OverwriteError
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.decoded import DecodedStream
from vdla.sim.rows import NO_ROW, DramRows, dram_rows, joined, written_rows

LAW = "a stream must not change what it executes"


def refuse_overwrites(program: DecodedStream, stream_address: int | None) -> None:
    """Refuse a stream that would modify itself.

    Args:
        program: the stream. What stands behind its first FINISH does not execute, but is protected too.
        stream_address: byte address at which the stream stands when it runs; None: outside DRAM.

    Raises:
        OverwriteError: an instruction writes a byte of the stream, or a byte that a LOAD of UOP reads.
    """
    stores = written_rows(program)
    if not len(stores):
        return
    overwrites = [] if stream_address is None else [_stream_overwrite(program, stores, stream_address)]
    overwrites.append(_uop_overwrite(program, stores))
    first = min((each for each in overwrites if each), key=lambda each: each.store, default=None)
    if first:
        raise first.error(program)


@dataclass(frozen=True, slots=True)
class _Overwrite:
    """The instruction at index `store` writes the bytes [begin, end) of `victim`; `remedy` is a way out."""

    store: int
    victim: str
    begin: int
    end: int
    remedy: str

    def error(self, program: DecodedStream) -> OverwriteError:
        """Return the error that names the instruction, the bytes it overwrites, and the remedy."""
        where = f"DRAM bytes {self.begin:#x}..{self.end - 1:#x}"
        did = f"{program.describe(self.store)} overwrites {self.victim}, {where}"
        name = isa.Opcode(int(program.opcode[self.store])).name
        remedy = f"let the {name} write elsewhere, or {self.remedy}"
        return OverwriteError(f"{did}; {LAW}: {remedy}", self.store)


def _stream_overwrite(program: DecodedStream, stores: DramRows, address: int) -> _Overwrite | None:
    """Return the first instruction that writes a byte of the stream at `address`."""
    size = program.config.instruction_bytes
    rows = stores.first_row_in(address, address + len(program) * size)
    if np.all(rows == NO_ROW):
        return None
    place = int(np.argmax(rows != NO_ROW))
    begin, end = _row(stores, place, int(rows[place]))
    begin = max(begin, address)
    victim = (begin - address) // size
    end = min(end, address + (victim + 1) * size)
    return _Overwrite(
        int(stores.index[place]),
        f"instruction {victim} of the stream that is running",
        begin,
        end,
        "put the stream elsewhere",
    )


def _uop_overwrite(program: DecodedStream, stores: DramRows) -> _Overwrite | None:
    """Return the first instruction that writes a byte that a LOAD of UOP reads."""
    loads = dram_rows(program, isa.Load)
    loads = _near(loads.chosen(loads.memory == MemoryType.UOP), stores)
    stores = _near(stores, loads)
    hit = _first_hit(stores.merged(), *_union(loads.merged())) if len(stores) else None
    if hit is None:
        return None
    place, begin, end = hit
    reading = loads.first_row_in(begin, begin + 1)
    load = int(np.argmax(reading != NO_ROW))
    _, load_end = _row(loads, load, int(reading[load]))
    victim = f"micro-ops that {program.describe(int(loads.index[load]))} reads"
    return _Overwrite(
        int(stores.index[place]),
        victim,
        begin,
        min(end, load_end),
        "load the micro-ops from elsewhere",
    )


def _near(rows: DramRows, others: DramRows) -> DramRows:
    """Return the rows of `rows` that reach between the first and the last byte of `others`."""
    if not len(others):
        return rows.chosen(slice(0))
    return rows.chosen((rows.begin < others.end.max()) & (rows.end > others.begin.min()))


def _row(rows: DramRows, place: int, row: int) -> tuple[int, int]:
    """Return begin and end of one row in bytes."""
    begin = int(rows.begin[place] + row * rows.stride[place])
    return begin, begin + int(rows.width[place])


def _union(rows: DramRows) -> tuple[np.ndarray, np.ndarray]:
    """Return int64[k] begins and ends of the disjoint intervals, in order, that hold the bytes of `rows`."""
    begins, ends = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for part in (rows.chosen(rows.count == 1), _distinct(rows.chosen(rows.count > 1))):
        for _, begin, end in part.listed():
            begins, ends = joined(np.append(begins, begin), np.append(ends, end))
    return begins, ends


def _distinct(rows: DramRows) -> DramRows:
    """Return one transfer of each kind: streams load the same micro-ops again and again."""
    order = np.lexsort((rows.begin, rows.stride, rows.width, rows.count))
    same = [getattr(rows, name)[order] for name in ("begin", "stride", "width", "count")]
    changes = np.any([column[1:] != column[:-1] for column in same], axis=0)
    return rows.chosen(order[np.append(np.ones(min(len(rows), 1), bool), changes)])


def _first_hit(stores: DramRows, begins: np.ndarray, ends: np.ndarray) -> tuple[int, int, int] | None:
    """Return the place of the first transfer with bytes in the intervals; begin and end of the first of
    them."""
    near = np.flatnonzero(_meets(stores.begin, stores.end, begins, ends))
    for owner, begin, end in stores.chosen(near).listed():
        inside = _meets(begin, end, begins, ends)
        if inside.any():
            row = int(np.argmax(inside))
            at = np.searchsorted(ends, begin[row], "right")
            return int(near[owner[row]]), int(max(begin[row], begins[at])), int(min(end[row], ends[at]))
    return None


def _meets(begin: np.ndarray, end: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return bool[n]: whether [begin, end) has a byte in one of the intervals, disjoint and in order."""
    interval = np.searchsorted(ends, begin, "right")
    return np.append(begins, np.iinfo(np.int64).max)[interval] < end
