"""Which pieces of weights move before which LOADs, found in compiled code.

A wait of the load unit takes the next pieces of the next groups, as many as the bus has idle cycles for. A
piece moves if its place in WGT is free from the wait to the end of its group. A group of which no piece has
moved may get another place.
"""

from typing import NamedTuple

from vdla.sim.compiled import part, whole
from vdla.sim.records import IntArray, record_dtype

MARGIN_CYCLES = 48  # of a wait, that stay unused
TOKEN_CYCLES = 8  # from the last read of a place until a LOAD that waits for it starts
LOOKAHEAD = 8  # groups that are considered in a wait
PATIENCE = 16  # instructions, after which a group that had no place is considered again
RECENT = 64  # values before the oldest that lives whose last reads may still be in progress
NEVER = -1
STAYS = -1
NO_GROUP = 1 << 62  # size of a group for which WGT had no room, while there was none


class Values(NamedTuple):
    """The values of WGT, int64[v] each, in order of their LOADs.

    Attributes:
        load: number of the LOAD.
        begin, end: its place [begin, end).
        first, last: the numbers between which the place is taken.
        group: that it belongs to.
        element: bytes of an element in DRAM.
    """

    load: IntArray
    begin: IntArray
    end: IntArray
    first: IntArray
    last: IntArray
    group: IntArray
    element: IntArray


class Groups(NamedTuple):
    """Groups of values that move together, int64[g] each unless stated otherwise.

    Attributes:
        low, high: what its LOADs and readers touch of WGT.
        last: number of its last reader.
        shift: elements by which its place has moved.
        members: int64[v], the values of the groups, group behind group.
        starts: int64[g + 1], where the values of each group begin in `members`.
    """

    low: IntArray
    high: IntArray
    last: IntArray
    shift: IntArray
    members: IntArray
    starts: IntArray


class Pieces(NamedTuple):
    """Parts of LOADs, int64[p] each, in the order in which they may move.

    Attributes:
        value: that it belongs to.
        offset: of its first element from the begin of the value.
        size: in elements.
        before: number of the LOAD before which it moves, or STAYS.
    """

    value: IntArray
    offset: IntArray
    size: IntArray
    before: IntArray


class Pending(NamedTuple):
    """The groups of which pieces can move, int64[q] each, in order of their first LOADs.

    Attributes:
        group: its place in Groups.
        piece, end: its next piece, and the end of its pieces.
        begun: whether a piece has moved, so that the place of the group is settled.
        later: number of the instruction before which it is not considered again.
    """

    group: IntArray
    piece: IntArray
    end: IntArray
    begun: IntArray
    later: IntArray


class Waits(NamedTuple):
    """Cycles in which the load unit waits, int64[w] each.

    Attributes:
        number: of the LOAD that waits.
        begin, end: the cycles [begin, end).
    """

    number: IntArray
    begin: IntArray
    end: IntArray


class Bus(NamedTuple):
    """The bus while the recorded stream runs.

    Attributes:
        begin, end: int64[b], the cycles [begin, end) in which it is busy with each burst, in order.
        busy: int64[b + 1], the busy cycles before each burst, and in all.
        retired: int64[n], the cycle in which each recorded instruction is done.
        latency: cycles from a request to its data.
        width: bytes of a beat.
        cycles_per_beat: of a beat.
        element: bytes of the smallest element of WGT in DRAM.
    """

    begin: IntArray
    end: IntArray
    busy: IntArray
    retired: IntArray
    latency: int
    width: int
    cycles_per_beat: int
    element: int


class Search:
    """What the search keeps from wait to wait.

    Attributes:
        oldest: the first value that may live.
        newest: the last value whose place is taken early.
        full, until: size of a group for which WGT had no room, and the number until which no other place is
            looked for, for groups of at least this size.
    """

    oldest: int
    newest: int
    full: int
    until: int


SEARCH = record_dtype(Search)


class Moves(NamedTuple):
    """All of a search.

    Attributes:
        taken: int64[depth], whether a place of WGT is taken; set for each group that looks for a place.
        renames: whether groups may move to other places of WGT.
    """

    values: Values
    groups: Groups
    pieces: Pieces
    pending: Pending
    bus: Bus
    search: Search
    taken: IntArray
    renames: int


@whole
def plan_moves(moves: Moves, waits: Waits) -> None:
    """Set `before` of the pieces that move, and `shift` and places of their groups."""
    for wait in range(waits.number.size):
        _fill(moves, waits.number[wait], waits.begin[wait], waits.end[wait])


@part
def _fill(moves: Moves, number: int, begin: int, end: int) -> None:
    """Move pieces of the next groups before the LOAD `number`, which waits in the cycles [begin, end)."""
    pending, bus, used, considered, at = moves.pending, moves.bus, 0, 0, 0
    room = _room(bus, NEVER, begin, end)
    while at < pending.group.size and considered < LOOKAHEAD and _fits(bus, used + bus.element, room):
        _drop_loaded(moves, at, number)
        if pending.later[at] <= number and _fits(bus, used + _next_bytes(moves, at), room):
            used = _move(moves, at, number, begin, end, used)
        considered += pending.piece[at] < pending.end[at]
        at += 1


@part
def _drop_loaded(moves: Moves, at: int, number: int) -> None:
    """Leave out the pieces whose own LOAD is not behind `number`."""
    pending, pieces, load = moves.pending, moves.pieces, moves.values.load
    while pending.piece[at] < pending.end[at] and load[pieces.value[pending.piece[at]]] <= number:
        pending.piece[at] += 1


@part
def _next_bytes(moves: Moves, at: int) -> int:
    """Return the bytes of the next piece of a pending group; 0 if no piece is left."""
    pending = moves.pending
    return _bytes(moves, pending.piece[at]) if pending.piece[at] < pending.end[at] else 0


@part
def _bytes(moves: Moves, piece: int) -> int:
    """Return the bytes of a piece."""
    size: int = moves.pieces.size[piece] * moves.values.element[moves.pieces.value[piece]]
    return size


@part
def _move(moves: Moves, at: int, number: int, begin: int, end: int, used: int) -> int:
    """Move the next pieces of a pending group as long as there is room; return the bytes used."""
    values, pieces, pending, bus = moves.values, moves.pieces, moves.pending, moves.bus
    group = pending.group[at]
    if moves.renames and not pending.begun[at]:
        _settle(moves, at, number, begin, end, used)
    while pending.piece[at] < pending.end[at]:
        piece = pending.piece[at]
        value, needed = pieces.value[piece], used + _bytes(moves, piece)
        low = values.begin[value] + pieces.offset[piece]
        touch = last_touch(moves, group, low, low + pieces.size[piece], number)
        if touch >= number:
            pending.later[at] = number + PATIENCE
            break
        if not _fits(bus, needed, _room(bus, touch, begin, end)):
            break
        _take(moves, value, number)
        pieces.before[piece] = number
        pending.piece[at] += 1
        pending.begun[at], used = 1, needed
    return used


@part
def _settle(moves: Moves, at: int, number: int, begin: int, end: int, used: int) -> None:
    """Take the place of a pending group if it is free; another place, if its place is not free and the other
    is free in time. A group of which a LOAD is behind keeps its place, since that LOAD has filled it."""
    groups, group, search = moves.groups, moves.pending.group[at], moves.search
    low, high = groups.low[group], groups.high[group]
    if _has_loaded(moves, group, number) or last_touch(moves, group, low, high, number) < number:
        return
    if high - low >= search.full and number < search.until:
        return
    lay_out(moves, group, number)
    needed = used + _next_bytes(moves, at)
    place = next_gap(moves.taken, 0, high - low)
    if place == NEVER:
        search.full, search.until = high - low, number + PATIENCE
    while place != NEVER:
        touch = last_touch(moves, group, place, place + high - low, number)
        if touch < number and _fits(moves.bus, needed, _room(moves.bus, touch, begin, end)):
            _shift(moves, group, place - low, number)
            return
        place = next_gap(moves.taken, end_of_gap(moves.taken, place), high - low)


@part
def _has_loaded(moves: Moves, group: int, number: int) -> bool:
    """Return whether a LOAD of a group is not behind `number`."""
    for at in range(moves.groups.starts[group], moves.groups.starts[group + 1]):
        if moves.values.load[moves.groups.members[at]] <= number:
            return True
    return False


@part
def _shift(moves: Moves, group: int, shift: int, number: int) -> None:
    """Move the place of a group; it is taken from `number` on."""
    values, groups = moves.values, moves.groups
    for at in range(groups.starts[group], groups.starts[group + 1]):
        value = groups.members[at]
        values.begin[value] += shift
        values.end[value] += shift
        _take(moves, value, number)
    groups.low[group] += shift
    groups.high[group] += shift
    groups.shift[group] = shift


@part
def _take(moves: Moves, value: int, number: int) -> None:
    """Let the place of a value be taken from `number` on."""
    moves.values.first[value] = min(moves.values.first[value], number)
    moves.search.newest = max(moves.search.newest, value)


@part
def last_touch(moves: Moves, group: int, low: int, high: int, number: int) -> int:
    """Return the last touch of the places [low, high) by other groups that begin before the end of `group`;
    NEVER if there is none. If it is before `number`, the places are free from there to the end of `group`.

    Args:
        number: at least the number of earlier calls.
    """
    values, until, last = moves.values, moves.groups.last[group], NEVER
    for value in range(_oldest_near(moves, number), _behind_newest(moves, until)):
        over = values.begin[value] < high and values.end[value] > low and values.first[value] <= until
        if over and values.group[value] != group:
            last = max(last, values.last[value])
    return last


@part
def lay_out(moves: Moves, group: int, number: int) -> None:
    """Set which places of WGT are taken by other groups between `number` and the end of `group`."""
    values, until = moves.values, moves.groups.last[group]
    moves.taken[:] = 0
    for value in range(_oldest_near(moves, number), _behind_newest(moves, until)):
        lives = values.last[value] >= number and values.first[value] <= until
        if lives and values.group[value] != group:
            moves.taken[values.begin[value] : values.end[value]] = 1


@part
def next_gap(taken: IntArray, begin: int, size: int) -> int:
    """Return the begin of the first gap of at least `size` free places that begins at `begin` or behind it,
    `begin` itself being the end of a gap or 0; NEVER if there is none."""
    while begin < taken.size:
        end = end_of_gap(taken, begin)
        if end - begin >= size:
            return begin
        begin = max(end, begin + 1)
    return NEVER


@part
def end_of_gap(taken: IntArray, begin: int) -> int:
    """Return the first place from `begin` on that is taken."""
    while begin < taken.size and not taken[begin]:
        begin += 1
    return begin


@part
def _oldest_near(moves: Moves, number: int) -> int:
    """Return the first value that can live at `number`, or less by RECENT."""
    last, search = moves.values.last, moves.search
    while search.oldest < last.size and last[search.oldest] < number:
        search.oldest += 1
    return max(0, search.oldest - RECENT)


@part
def _behind_newest(moves: Moves, until: int) -> int:
    """Return the end of the values that can live before `until`."""
    return max(_count_below(moves.values.load, until + 1), moves.search.newest + 1)


@part
def _fits(bus: Bus, used: int, room: int) -> bool:
    """Return whether the bus can carry so many bytes in `room` cycles."""
    return used * bus.cycles_per_beat <= room * bus.width


@part
def _room(bus: Bus, touch: int, begin: int, end: int) -> int:
    """Return the cycles of a wait [begin, end) that the bus has for a LOAD into a place after its last
    touch."""
    free = 0 if touch == NEVER else bus.retired[touch] + TOKEN_CYCLES
    since = max(begin, free) + bus.latency  # data come so much later than their requests
    return idle_cycles(bus, since, end + bus.latency) - MARGIN_CYCLES


@part
def idle_cycles(bus: Bus, begin: int, end: int) -> int:
    """Return the cycles in [begin, end) in which the bus is idle."""
    if end <= begin:
        return 0
    return end - begin - _busy_before(bus, end) + _busy_before(bus, begin)


@part
def _busy_before(bus: Bus, cycle: int) -> int:
    """Return the cycles before `cycle` in which the bus is busy."""
    count = _count_below(bus.begin, cycle)
    rest = max(0, bus.end[count - 1] - cycle) if count else 0
    return int(bus.busy[count] - rest)


@part
def _count_below(values: IntArray, limit: int) -> int:
    """Return how many of the values, in rising order, are below a limit."""
    low, high = 0, values.size
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < limit:
            low = middle + 1
        else:
            high = middle
    return low
