"""Prefetch of weights: LOADs of weights move to where the load unit and the bus would wait.

The load unit executes its LOADs in order. Where a LOAD waits for its place in INP, or for its tensor, the
LOADs of weights behind it wait with it, even if their own places in WGT are free. The order of a stream is
known, and so are the cycles in which each instruction runs. Before each LOAD that waits, as many later LOADs
of weights are recorded as the idle cycles of the bus can carry. They are cut into pieces, so that an access
of another unit never waits long behind them.

Only weights before whose first read the compute unit stalls are moved. Where their place is taken, they move
to a place that is free until their last read, and the micro-kernels that read them count from there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import StreamBuilder
from vdla.runtime.stream.micro_kernels import MicroKernel
from vdla.runtime.stream.record import Edit, InsertedLoad, Record
from vdla.runtime.stream.tokens import STEPPING
from vdla.runtime.stream.weight_moves import (
    MARGIN_CYCLES,
    NEVER,
    NO_GROUP,
    SEARCH,
    STAYS,
    Bus,
    Groups,
    Moves,
    Pending,
    Pieces,
    Values,
    Waits,
    plan_moves,
)
from vdla.runtime.stream.weights import Group, Weights

PIECE_CYCLES = 100  # of the bus, that a piece takes at most
STALL_CYCLES = 64  # of the compute unit before a first read, from which on weights are moved
PADS = slice(6, 10)  # of the fields of a LOAD


@dataclass(frozen=True)
class Schedule:
    """The cycles in which a recorded stream runs.

    Attributes:
        started, retired: int64[n], by recorded number.
        requested: int64[n], the cycle after the last request of each transfer; 0 where it makes none.
        bus_begin, bus_end: int64[b], the cycles [begin, end) in which the bus is busy with each burst, in
            order.
        cycles_per_beat: of the bus.
        latency: from a request to its data.
    """

    started: np.ndarray
    retired: np.ndarray
    requested: np.ndarray
    bus_begin: np.ndarray
    bus_end: np.ndarray
    cycles_per_beat: int
    latency: int


class Piece(NamedTuple):
    """A part of a LOAD of weights, whose elements follow each other in DRAM and on chip.

    Attributes:
        value: that it belongs to.
        offset: of its first element from the begin of the value.
        element: its first element of the tensor.
        size: in elements.
    """

    value: int
    offset: int
    element: int
    size: int

    def is_followed_by(self, other: "Piece") -> bool:
        """Return whether another piece of the same value begins where this piece ends."""
        ends = self.value, self.offset + self.size, self.element + self.size
        return ends == (other.value, other.offset, other.element)


def prefetch(
    builder: StreamBuilder, weights: Weights, schedule: Schedule, *, renames: bool = True
) -> StreamBuilder | None:
    """Return a builder that has recorded the same program with LOADs of weights moved; None if none moves.

    Args:
        builder: a finished builder.
        weights: the weights of its record.
        schedule: of its stream.
        renames: whether weights may move to other places on chip.
    """
    stalled = _stalled(weights, builder.record, schedule)
    if not stalled:
        return None
    values = Values(*(column.copy() for column in weights.values))  # moves change their places
    weights = replace(weights, values=values)
    bus = bus_of(schedule, builder.config)
    longest = PIECE_CYCLES * bus.width // bus.cycles_per_beat
    loads = _Loads(builder.record, weights, longest)
    pieces = {
        group: list(loads.pieces_of(group)) for group in stalled if loads.can_move(weights.groups[group])
    }
    moves = moves_of(weights, pieces, bus, renames)
    plan_moves(moves, _waits(builder.record, schedule))
    moved = dict[int, list[Piece]]()
    for piece, number in zip(chain.from_iterable(pieces.values()), moves.pieces.before.tolist(), strict=True):
        if number != STAYS:
            moved.setdefault(number, []).append(piece)
    return builder.edited(_edit(loads, moved, moves.groups.shift.tolist())) if moved else None


def _waits(record: Record, schedule: Schedule) -> Waits:
    """Return where the load unit waits for longer than MARGIN_CYCLES. Waits of which NORMALISEs take the
    greater part are left out: LOADs would delay their writes, which the store unit does not make up for."""
    numbers = np.flatnonzero(record.units() == Unit.LOAD)
    started = schedule.started[numbers]
    begin = np.concatenate(([0], np.maximum(schedule.requested[numbers], started + 1)[:-1]))
    normalising = np.diff(
        [_normalising_cycles(record, schedule, until) for until in (begin, started)], axis=0
    )
    kept = (started - begin > MARGIN_CYCLES) & (2 * normalising[0] <= started - begin)
    return Waits(numbers[kept], begin[kept], started[kept])


def _normalising_cycles(record: Record, schedule: Schedule, until: np.ndarray) -> np.ndarray:
    """Return float64[n]: the cycles before each of the cycles `until` in which a NORMALISE runs."""
    numbers = np.flatnonzero(record.opcodes() == int(isa.Normalise.opcode))
    ends = schedule.retired[numbers]
    begins = np.maximum(schedule.started[numbers], np.concatenate(([0], ends))[:-1])
    cycles, taken = (
        np.concatenate(([0], np.stack(columns, axis=1).ravel()))
        for columns in ((begins, ends), (np.zeros_like(ends), ends - begins))
    )
    total: np.ndarray = np.interp(until, cycles, np.cumsum(taken))
    return total


def _stalled(weights: Weights, record: Record, schedule: Schedule) -> list[int]:
    """Return the groups between whose first LOAD and first read the compute unit stalls for STALL_CYCLES, by
    their places."""
    stepping = np.flatnonzero(np.isin(record.opcodes(), STEPPING))
    started, retired = schedule.started[stepping], np.maximum.accumulate(schedule.retired[stepping])
    stalls = np.maximum(started - np.concatenate(([0], retired[:-1])), 0)
    total = np.concatenate(([0], np.cumsum(stalls)))
    reads = np.array([group.first_read for group in weights.groups], np.int64)
    loads = weights.values.load[[group.members[0] for group in weights.groups]]
    until = np.searchsorted(stepping, reads, "right")
    since = np.searchsorted(started, schedule.started[loads], "right")
    late = (reads != NEVER) & (total[until] - total[np.minimum(since, until)] >= STALL_CYCLES)
    places: list[int] = np.flatnonzero(late).tolist()
    return places


def bus_of(schedule: Schedule, config: AcceleratorConfig) -> Bus:
    """Return the bus during a schedule."""
    busy = np.concatenate(([0], np.cumsum(schedule.bus_end - schedule.bus_begin)))
    smallest, width = config.halvings(MemoryType.WGT)[-1], config.bus_bits // 8
    element = config.element_bytes(MemoryType.WGT, smallest)
    times = schedule.bus_begin, schedule.bus_end, busy, schedule.retired
    return Bus(*times, schedule.latency, width, schedule.cycles_per_beat, element)


def moves_of(weights: Weights, pieces: Mapping[int, Sequence[Piece]], bus: Bus, renames: bool) -> Moves:
    """Return the search for moves of `pieces`, by the place of their group."""
    groups, flat = weights.groups, list(chain.from_iterable(pieces.values()))
    members = _column(chain.from_iterable(group.members for group in groups))
    starts = _starts(len(group.members) for group in groups)
    low, high, last = (_column(getattr(group, name) for group in groups) for name in ("low", "high", "last"))
    value, offset, _, size = _column(chain.from_iterable(flat)).reshape(-1, len(Piece._fields)).T.copy()
    ends = _starts(map(len, pieces.values()))
    begun, later = np.zeros((2, len(pieces)), np.int64)
    return Moves(
        weights.values,
        Groups(low, high, last, np.zeros(len(groups), np.int64), members, starts),
        Pieces(value, offset, size, np.full(len(flat), STAYS)),
        Pending(_column(pieces), ends[:-1].copy(), ends[1:].copy(), begun, later),
        bus,
        np.array([(0, NEVER, NO_GROUP, 0)], SEARCH)[0],
        np.zeros(weights.depth, np.int64),
        renames,
    )


def _column(values: Iterable[int]) -> np.ndarray:
    return np.fromiter(values, np.int64)


def _starts(sizes: Iterable[int]) -> np.ndarray:
    """Return int64[n + 1]: where each of n things begins that stand behind each other, and their end."""
    return _column(accumulate(sizes, initial=0))


@dataclass(frozen=True)
class _Loads:
    """The LOADs of weights in a record.

    Attributes:
        longest: bytes of a piece of several elements, at most.
    """

    record: Record
    weights: Weights
    longest: int

    @cached_property
    def rows(self) -> list[list[int]]:
        """The fields of the LOAD of each value."""
        numbers, columns = self.record.table(isa.Load)
        rows: list[list[int]] = columns[np.searchsorted(numbers, self.weights.values.load)].tolist()
        return rows

    @cached_property
    def tensors(self) -> list[int]:
        """The number of the tensor that the LOAD of each value copies."""
        tensors: list[int] = self.record.tensors()[self.weights.values.load].tolist()
        return tensors

    @cached_property
    def written(self) -> set[int]:
        """Tensors that instructions write."""
        return set(self.record.written().tolist())

    def can_move(self, group: Group) -> bool:
        """Return whether the LOADs of a group copy constants, without padding, each to its own place."""
        copies = not any(
            self.tensors[value] in self.written or any(self.rows[value][PADS]) for value in group.members
        )
        return copies and self.weights.separate(group)

    def pieces_of(self, group: int) -> Iterator[Piece]:
        """Yield the pieces of the LOADs of a group."""
        for value in sorted(self.weights.groups[group].members):
            yield from self.pieces(value)

    def pieces(self, value: int) -> Iterator[Piece]:
        """Yield the pieces of a LOAD."""
        _, _, element, height, width, stride = self.rows[value][: PADS.start]
        longest = max(1, self.longest // int(self.weights.values.element[value]))
        if stride == width:
            height, width = 1, height * width
        for row in range(height):
            for column in range(0, width, longest):
                size = min(longest, width - column)
                yield Piece(value, row * width + column, element + row * stride + column, size)

    def inserted(self, before: int, pieces: Iterable[Piece]) -> list[InsertedLoad]:
        """Return LOADs of pieces before an instruction; a single LOAD of pieces that follow each other."""
        return [self._load(before, piece) for piece in _joined(pieces)]

    def _load(self, before: int, piece: Piece) -> InsertedLoad:
        value, whole = piece.value, self.rows[piece.value]
        place = int(self.weights.values.begin[value]) + piece.offset
        row = whole[0], place, piece.element, 1, piece.size, piece.size, *whole[PADS.start :]
        return InsertedLoad(before, row, self.tensors[value], self.record.owners[self.number(value)])

    def number(self, value: int) -> int:
        """Return the number of the LOAD of a value."""
        return int(self.weights.values.load[value])


def _edit(loads: _Loads, moved: Mapping[int, Sequence[Piece]], shifts: Sequence[int]) -> Edit:
    """Return the edit that moves pieces of LOADs.

    Args:
        moved: pieces by the number of the LOAD before which they move.
        shifts: of each group, the elements by which its place has moved.
    """
    pieces = set(chain.from_iterable(moved.values()))
    begun = sorted({piece.value for piece in pieces})
    inserted = [load for before, moving in moved.items() for load in loads.inserted(before, moving)]
    for value in begun:
        staying = (piece for piece in loads.pieces(value) if piece not in pieces)
        inserted += loads.inserted(loads.number(value), staying)
    dropped = [loads.number(value) for value in begun]
    places = {
        loads.number(value): loads.rows[value][1] + shifts[group]
        for value, group in enumerate(loads.weights.values.group.tolist())
        if shifts[group]
    }
    return Edit(dropped, inserted, places, _shifted_kernels(loads, shifts))


def _shifted_kernels(loads: _Loads, shifts: Sequence[int]) -> dict[int, MicroKernel]:
    """Return the micro-kernels of the instructions whose weights have moved, by number."""
    kernels = loads.record.kernels()

    @cache
    def shifted(uops: MicroKernel, shift: int) -> MicroKernel:
        return MicroKernel((dst, src, wgt + shift) for dst, src, wgt in uops)

    return {
        number: shifted(kernels[number], shifts[group])
        for number, group in loads.weights.readers.items()
        if shifts[group]
    }


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Return pieces; pieces that follow each other in DRAM and on chip are joined."""
    joined: list[Piece] = []
    for piece in pieces:
        before = joined[-1] if joined else None
        if before is not None and before.is_followed_by(piece):
            joined[-1] = before._replace(size=before.size + piece.size)
        else:
            joined.append(piece)
    return joined
