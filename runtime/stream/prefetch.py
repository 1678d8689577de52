"""Prefetch of weights: LOADs of weights move to where the load unit and the bus would wait.

The load unit executes its LOADs in order. Where a LOAD waits for its place in INP, or for its tensor, the
LOADs of weights behind it wait with it, even if their own places in WGT are free. The order of a stream is
known, and so are the cycles in which each instruction runs. Before each LOAD that waits, as many later LOADs
of weights are recorded as the idle cycles of the bus can carry. They are cut into pieces, so that an access
of another unit never waits long behind them.

Only weights before whose first read the compute unit stalls are moved. Where their place is taken, they move
to a place that is free until their last read, and the micro-kernels that read them count from there.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import StreamBuilder
from vdla.runtime.stream.micro_kernels import MicroKernel
from vdla.runtime.stream.record import Record, Recorded
from vdla.runtime.stream.tokens import STEPPING
from vdla.runtime.stream.weights import NEVER, Group, Weights

PIECE_CYCLES = 100  # of the bus, that a piece takes at most
MARGIN_CYCLES = 48  # of a wait, that stay unused
STALL_CYCLES = 64  # of the compute unit before a first read, from which on weights are moved
TOKEN_CYCLES = 8  # from the last read of a place until a LOAD that waits for it starts
LOOKAHEAD = 8  # groups that are considered in a wait
PATIENCE = 16  # instructions, after which a group that had no place is considered again
PADS = slice(6, 10)  # of the fields of a LOAD


@dataclass(frozen=True)
class Schedule:
    """The cycles in which a recorded stream runs.

    Attributes:
        started, retired: int64[n], by recorded number.
        requested: int64[n], the cycle after the last request of each transfer; 0 where it makes none.
        bus_begin, bus_end: the cycles [begin, end) in which the bus is busy with each burst, in order.
        cycles_per_beat: of the bus.
        latency: from a request to its data.
    """

    started: np.ndarray
    retired: np.ndarray
    requested: np.ndarray
    bus_begin: list[int]
    bus_end: list[int]
    cycles_per_beat: int
    latency: int
    _busy: list[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        lengths = np.subtract(self.bus_end, self.bus_begin)
        object.__setattr__(self, "_busy", [0, *np.cumsum(lengths).tolist()])

    def idle(self, begin: int, end: int) -> int:
        """Return the cycles in [begin, end) in which the bus is idle."""
        return end - begin - self._busy_before(end) + self._busy_before(begin) if end > begin else 0

    def _busy_before(self, cycle: int) -> int:
        count = bisect_left(self.bus_begin, cycle)
        return self._busy[count] - max(0, self.bus_end[count - 1] - cycle if count else 0)


@dataclass(frozen=True, slots=True)
class Piece:
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
        """Return whether another piece of the same value begins where this one ends."""
        ends = self.value, self.offset + self.size, self.element + self.size
        return ends == (other.value, other.offset, other.element)


@dataclass(slots=True)
class Pending:
    """A group of which pieces can move.

    Attributes:
        pieces: those that have not moved and whose LOAD is ahead, in order.
        begun: whether a piece has moved, so that the place of the group is settled.
        later: number of the instruction before which it is not considered again.
    """

    group: Group
    pieces: deque[Piece]
    begun: bool = False
    later: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Cycles in which the load unit waits.

    Attributes:
        number: of the LOAD that waits.
        begin, end: the cycles [begin, end).
    """

    number: int
    begin: int
    end: int


def prefetch(
    builder: StreamBuilder, weights: Weights, schedule: Schedule, *, renames: bool = True
) -> StreamBuilder | None:
    """Return a builder that has recorded the same program with LOADs of weights moved; None if none moves.

    Args:
        builder: a finished one.
        weights: those of its record; their places change.
        schedule: of its stream.
        renames: whether weights may move to other places on chip.
    """
    stalled = _stalled(weights, builder.record, schedule)
    if not stalled:
        return None
    mover = _Mover(list(builder.record.instructions()), builder.config, weights, schedule, stalled, renames)
    for wait in _waits(builder.record, schedule):
        mover.fill(wait)
    return builder.rerecorded(mover.instructions()) if mover.moved else None


def _waits(record: Record, schedule: Schedule) -> Iterator[Wait]:
    """Yield where the load unit waits for longer than MARGIN_CYCLES."""
    begin = 0
    numbers = np.flatnonzero(np.frombuffer(record.units, np.uint8) == Unit.LOAD)
    cycles = schedule.started[numbers].tolist(), schedule.requested[numbers].tolist()
    for number, started, requested in zip(numbers.tolist(), *cycles, strict=True):
        if started - begin > MARGIN_CYCLES:
            yield Wait(number, begin, started)
        begin = max(requested, started + 1)


def _stalled(weights: Weights, record: Record, schedule: Schedule) -> list[Group]:
    """Return the groups between whose first LOAD and first read the compute unit stalls for STALL_CYCLES."""
    stepping = np.flatnonzero(np.isin(record.opcodes(), STEPPING))
    started, retired = schedule.started[stepping], np.maximum.accumulate(schedule.retired[stepping])
    stalls = np.maximum(started - np.concatenate(([0], retired[:-1])), 0)
    total = np.concatenate(([0], np.cumsum(stalls)))
    reads = np.array([group.first_read for group in weights.groups], np.int64)
    loads = weights.load[[group.members[0] for group in weights.groups]]
    until = np.searchsorted(stepping, reads, "right")
    since = np.searchsorted(started, schedule.started[loads], "right")
    late = (reads != NEVER) & (total[until] - total[np.minimum(since, until)] >= STALL_CYCLES)
    return [weights.groups[place] for place in np.flatnonzero(late).tolist()]


class _Mover:
    """The pieces that move, and the LOADs before which they are recorded.

    Attributes:
        moved: the pieces by the number of that LOAD.
    """

    def __init__(
        self,
        record: Sequence[Recorded],
        config: AcceleratorConfig,
        weights: Weights,
        schedule: Schedule,
        stalled: Iterable[Group],
        renames: bool,
    ) -> None:
        self.record, self.weights, self.schedule = record, weights, schedule
        bus_bytes = config.bus_bits // 8
        self.cycles = config.element_bytes(MemoryType.WGT) * schedule.cycles_per_beat / bus_bytes
        self.moved: dict[int, list[Piece]] = {}
        self._renames = renames
        self._kernels: dict[tuple[MicroKernel, int], MicroKernel] = {}
        self._full = config.depth(MemoryType.WGT) + 1, 0  # size of a group, and until when it finds no room
        written = {each.tensor for each in record if each.form is isa.Store}
        self._pending = [
            Pending(
                group, deque(piece for value in sorted(group.members) for piece in self._pieces_of(value))
            )
            for group in stalled
            if self._only_copies(group, written) and weights.separate(group)
        ]

    def _only_copies(self, group: Group, written: set[int]) -> bool:
        """Return whether the LOADs of a group copy constants, without padding."""
        loads = [self.record[self.weights.load[value]] for value in group.members]
        return not any(each.tensor in written or any(each.row[PADS]) for each in loads)

    def _pieces_of(self, value: int) -> Iterator[Piece]:
        """Yield the pieces of a LOAD."""
        most = max(1, int(PIECE_CYCLES // self.cycles))
        _, _, element, height, width, stride = self.record[self.weights.load[value]].row[: PADS.start]
        if stride == width:
            height, width = 1, height * width
        for row in range(height):
            for column in range(0, width, most):
                size = min(most, width - column)
                yield Piece(value, row * width + column, element + row * stride + column, size)

    # Moving

    def fill(self, wait: Wait) -> None:
        """Move pieces of the next groups into a wait."""
        used, at, room = 0.0, 0, self._room(wait, NEVER)
        while at < min(LOOKAHEAD, len(self._pending)) and used + self.cycles <= room:
            pending = self._pending[at]
            while pending.pieces and self.weights.load[pending.pieces[0].value] <= wait.number:
                pending.pieces.popleft()
            if pending.later <= wait.number and used + self._next_cycles(pending) <= room:
                used = self._move(pending, wait, used)
            if pending.pieces:
                at += 1
            else:
                del self._pending[at]

    def _next_cycles(self, pending: Pending) -> float:
        """Return the cycles of the bus that the next piece of a group takes; 0 if no piece is left."""
        return pending.pieces[0].size * self.cycles if pending.pieces else 0

    def _move(self, pending: Pending, wait: Wait, used: float) -> float:
        """Move the next pieces of a group as long as there is room; return the cycles used."""
        if self._renames and not pending.begun:
            self._settle(pending, wait, used)
        while pending.pieces:
            piece = pending.pieces[0]
            cycles = used + piece.size * self.cycles
            begin = int(self.weights.begin[piece.value]) + piece.offset
            touch = self.weights.last_touch(pending.group, begin, begin + piece.size, wait.number)
            if touch is None or cycles > self._room(wait, touch):
                pending.later = wait.number + PATIENCE * (touch is None)
                break
            self.weights.take([piece.value], wait.number)
            self.moved.setdefault(wait.number, []).append(pending.pieces.popleft())
            pending.begun, used = True, cycles
        return used

    def _settle(self, pending: Pending, wait: Wait, used: float) -> None:
        """Take the place of a group that is free; another place, if its own is not free and the other is in
        time. A group of which a LOAD is behind keeps its place, since that LOAD has filled it."""
        group, weights = pending.group, self.weights
        if (weights.load[group.members] <= wait.number).any():
            return
        cycles, size = used + pending.pieces[0].size * self.cycles, group.high - group.low
        if weights.last_touch(group, group.low, group.high, wait.number) is not None or self._is_full(
            size, wait
        ):
            return
        gaps = weights.gaps(group, wait.number)
        if not gaps:
            self._full = size, wait.number + PATIENCE
        for begin in gaps:
            touch = weights.last_touch(group, begin, begin + size, wait.number)
            if touch is not None and cycles <= self._room(wait, touch):
                weights.shift(group, begin - group.low)
                weights.take(group.members, wait.number)
                return

    def _is_full(self, size: int, wait: Wait) -> bool:
        """Return whether WGT had no room for a group of this size, or a smaller group, a short time ago."""
        least, until = self._full
        return size >= least and wait.number < until

    def _room(self, wait: Wait, touch: int) -> int:
        """Return the cycles of a wait that the bus has for a LOAD into a place after its last touch."""
        free = 0 if touch == NEVER else int(self.schedule.retired[touch]) + TOKEN_CYCLES
        latency = self.schedule.latency  # data come so much later than their requests
        return self.schedule.idle(max(wait.begin, free) + latency, wait.end + latency) - MARGIN_CYCLES

    # Recording

    def instructions(self) -> Iterator[Recorded]:
        """Yield the instructions in their new order."""
        weights, groups = self.weights, self.weights.groups
        values = {number: value for value, number in enumerate(weights.load.tolist())}
        moved = {piece for pieces in self.moved.values() for piece in pieces}
        begun = {piece.value for piece in moved}
        for number, each in enumerate(self.record):
            yield from self._loads(self.moved.get(number, ()))
            value = values.get(number)
            if value in begun:
                left = (piece for piece in self._pieces_of(value) if piece not in moved)
                yield from self._loads(left)
            elif value is not None and (shift := groups[weights.group[value]].shift):
                yield replace(each, row=(each.row[0], each.row[1] + shift, *each.row[2:]))
            elif number in weights.readers and (shift := groups[weights.readers[number]].shift):
                assert each.uops is not None, "what reads weights steps through micro-ops"
                yield replace(each, uops=self._shifted(each.uops, shift))
            else:
                yield each

    def _shifted(self, uops: MicroKernel, shift: int) -> MicroKernel:
        """Return a micro-kernel that reads weights `shift` elements further."""
        if (uops, shift) not in self._kernels:
            self._kernels[uops, shift] = MicroKernel((dst, src, wgt + shift) for dst, src, wgt in uops)
        return self._kernels[uops, shift]

    def _loads(self, pieces: Iterable[Piece]) -> Iterator[Recorded]:
        """Yield the LOADs of pieces; of pieces that follow each other, one LOAD."""
        for piece in _joined(pieces):
            each = self.record[self.weights.load[piece.value]]
            place = int(self.weights.begin[piece.value]) + piece.offset
            rows = 1, piece.size, piece.size
            yield replace(each, row=(each.row[0], place, piece.element, *rows, *each.row[PADS.start :]))


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Return pieces, with those as one that follow each other in DRAM and on chip."""
    joined: list[Piece] = []
    for piece in pieces:
        before = joined[-1] if joined else None
        if before is not None and before.is_followed_by(piece):
            joined[-1] = replace(before, size=before.size + piece.size)
        else:
            joined.append(piece)
    return joined
