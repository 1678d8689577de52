"""The values of WGT in a recorded stream, and where WGT has room for them.

A *value* is what one LOAD writes. It lives until its last read. Values that an instruction reads together
form a *group*, whose places can only move together. Numbers of instructions count in recorded order.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.record import Record

NEVER = -1
NO_VALUE = -1
RECENT = 64  # values before the oldest that lives whose last reads may still be in progress


@dataclass(slots=True)
class Group:
    """Values that move together.

    Attributes:
        members: its values.
        low, high: what its LOADs and readers touch of WGT.
        first_read, last: numbers of its first and its last reader; NEVER and its last LOAD without readers.
        shift: elements by which its place has moved.
    """

    members: list[int]
    low: int
    high: int
    first_read: int = NEVER
    last: int = NEVER
    shift: int = 0

    def read(self, number: int, low: int, high: int) -> None:
        """Add the next reader."""
        self.low, self.high, self.last = min(self.low, low), max(self.high, high), number
        self.first_read = number if self.first_read == NEVER else self.first_read

    def join(self, other: "Group") -> None:
        """Add the members of a group."""
        self.members += other.members
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.last = max(self.last, other.last)
        reads = [each.first_read for each in (self, other) if each.first_read != NEVER]
        self.first_read = min(reads, default=NEVER)


@dataclass
class Weights:
    """The values of a stream, in order of their LOADs.

    Attributes:
        load: int64[v], number of the LOAD of each.
        begin, end: int64[v], its place.
        first, last: int64[v], the numbers between which the place is taken.
        group: int64[v], the place of its group in `groups`.
        groups: in order of their first LOADs.
        readers: by number, the place of the group that an instruction reads.
        depth: of WGT.
    """

    load: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    first: np.ndarray
    last: np.ndarray
    group: np.ndarray
    groups: list[Group]
    readers: dict[int, int]
    depth: int
    _oldest: int = field(default=0, repr=False)  # the first value that may live
    _newest: int = field(default=-1, repr=False)  # the last value whose place is taken early

    def last_touch(self, group: Group, low: int, high: int, number: int) -> int | None:
        """Return the last touch before `number` of the places [low, high); NEVER if there is none, None if
        they are not free from there to the end of `group`, apart from the group itself.

        Args:
            number: at least that of earlier calls.
        """
        near = self._near(number, group.last)
        over = (self.begin[near] < high) & (self.end[near] > low) & (self.first[near] <= group.last)
        over &= self.group[near] != self.group[group.members[0]]
        last = self.last[near][over].max(initial=NEVER)
        return None if last >= number else int(last)

    def gaps(self, group: Group, number: int) -> list[int]:
        """Return where in WGT there is room for `group` from `number` to its end."""
        near = self._near(number, group.last)
        lives = (self.last[near] >= number) & (self.first[near] <= group.last)
        lives &= self.group[near] != self.group[group.members[0]]
        begins, ends = self.begin[near][lives], self.end[near][lives]
        changes = np.bincount(begins, minlength=self.depth + 1) - np.bincount(ends, minlength=self.depth + 1)
        taken = np.concatenate(([True], np.cumsum(changes[:-1]) > 0, [True]))
        edges = np.flatnonzero(np.diff(taken)).reshape(-1, 2)  # begin and end of each gap
        room = edges[:, 1] - edges[:, 0] >= group.high - group.low
        return [int(begin) for begin in edges[room, 0]]

    def take(self, values: list[int], number: int) -> None:
        """Let the places of values be taken from `number` on."""
        self.first[values] = np.minimum(self.first[values], number)
        self._newest = max(self._newest, *values)

    def shift(self, group: Group, shift: int) -> None:
        """Move the place of a group."""
        self.begin[group.members] += shift
        self.end[group.members] += shift
        group.low, group.high, group.shift = group.low + shift, group.high + shift, shift

    def separate(self, group: Group) -> bool:
        """Return whether no two values of a group have a place in common."""
        order = sorted(group.members, key=self.begin.__getitem__)
        return all(self.end[one] <= self.begin[next_] for one, next_ in pairwise(order))

    def _near(self, number: int, until: int) -> slice:
        """Return the values that can live between two numbers, and some before them."""
        while self._oldest < len(self.last) and self.last[self._oldest] < number:
            self._oldest += 1
        end = max(int(np.searchsorted(self.load, until, "right")), self._newest + 1)
        return slice(max(0, self._oldest - RECENT), end)


def weights_of(record: Record, config: AcceleratorConfig) -> Weights:
    """Return the values of WGT of a recorded stream."""
    depth, touched = config.depth(MemoryType.WGT), record.touched()
    here = (touched[:, :, 0] == MemoryType.WGT) & (touched[:, :, 2] > touched[:, :, 1])
    numbers, accesses = np.nonzero(here)
    places = np.clip(touched[numbers, accesses, 1:], 0, depth)
    loads = np.frombuffer(record.units, np.uint8)[numbers] == Unit.LOAD
    groups, readers = _groups_of(numbers.tolist(), places.tolist(), loads.tolist(), depth)
    group = np.zeros(int(loads.sum()), np.int64)
    for place, each in enumerate(groups):
        group[each.members] = place
    load = numbers[loads]
    last = np.maximum(load, np.array([each.last for each in groups], np.int64)[group])
    begin, end = places[loads].T.copy()
    return Weights(load, begin, end, load.copy(), last, group, groups, readers, depth)


def _groups_of(
    numbers: list[int], places: list[list[int]], loads: list[bool], depth: int
) -> tuple[list[Group], dict[int, int]]:
    """Return the groups, and for each reader the place of its group.

    Args:
        numbers, places, loads: of each touch of WGT, the instruction, begin and end, whether it is a LOAD.
    """
    holder, found, readers = [NO_VALUE] * depth, list[Group](), dict[int, Group]()
    joined: dict[int, Group] = {}  # by value
    for number, (low, high), is_load in zip(numbers, places, loads, strict=True):
        if is_load:
            holder[low:high] = [len(joined)] * (high - low)
            joined[len(joined)] = Group([len(joined)], low, high)
            continue
        reads = {id(joined[value]): joined[value] for value in set(holder[low:high]) if value != NO_VALUE}
        if reads:
            group, *others = sorted(reads.values(), key=lambda each: each.members[0])
            for other in others:
                group.join(other)
                joined |= dict.fromkeys(other.members, group)
            group.read(number, low, high)
            readers[number] = group
    found = list({id(group): group for group in joined.values()}.values())
    place = {id(group): at for at, group in enumerate(found)}
    return found, {number: place[id(joined[group.members[0]])] for number, group in readers.items()}
