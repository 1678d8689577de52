"""The values of WGT in a recorded stream, and which of them move together.

A *value* is what one LOAD writes. It lives until its last read. Values that an instruction reads together
form a *group*, whose places can only move together. Numbers of instructions count in recorded order.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.record import FIELDS, Record
from vdla.runtime.stream.weight_moves import NEVER, Values
from vdla.sim.records import IntArray
from vdla.sim.rows import element_bytes

NO_VALUE = -1


@dataclass(slots=True)
class Group:
    """Values that move together.

    Attributes:
        members: its values.
        low, high: what its LOADs and readers touch of WGT.
        first_read, last: numbers of its first and its last reader; NEVER without readers.
    """

    members: list[int]
    low: int
    high: int
    first_read: int = NEVER
    last: int = NEVER

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


@dataclass(frozen=True)
class Weights:
    """The values of a stream.

    Attributes:
        values: in order of their LOADs.
        groups: in order of their first LOADs.
        readers: by number, the place of the group that an instruction reads.
        depth: of WGT.
    """

    values: Values
    groups: list[Group]
    readers: dict[int, int]
    depth: int

    def separate(self, group: Group) -> bool:
        """Return whether no two values of a group have a place in common."""
        order = sorted(group.members, key=self.values.begin.__getitem__)
        return all(self.values.end[value] <= self.values.begin[next_] for value, next_ in pairwise(order))


def weights_of(record: Record, config: AcceleratorConfig) -> Weights:
    """Return the values of WGT of a recorded stream."""
    depth, touched = config.depth(MemoryType.WGT), record.touched()
    here = (touched[:, :, 0] == MemoryType.WGT) & (touched[:, :, 2] > touched[:, :, 1])
    numbers, accesses = np.nonzero(here)
    places = np.clip(touched[numbers, accesses, 1:], 0, depth)
    loads = record.units()[numbers] == Unit.LOAD
    groups, readers = _groups_of(numbers.tolist(), places.tolist(), loads.tolist(), depth)
    group = np.zeros(int(loads.sum()), np.int64)
    for place, each in enumerate(groups):
        group[each.members] = place
    load = numbers[loads]
    last = np.maximum(load, np.array([each.last for each in groups], np.int64)[group])
    begin, end = places[loads].T.copy()
    values = Values(load, begin, end, load.copy(), last, group, _element_bytes(record, load, config))
    return Weights(values, groups, readers, depth)


def _element_bytes(record: Record, loads: IntArray, config: AcceleratorConfig) -> IntArray:
    """Return int64[n]: bytes in DRAM of an element of LOADs of weights, int64[n]."""
    numbers, columns = record.table(isa.Load)
    halvings = columns[np.searchsorted(numbers, loads), FIELDS[isa.Load].index("halvings")]
    return element_bytes(np.full(len(loads), MemoryType.WGT), lambda name: halvings, config)


def _groups_of(
    numbers: list[int], places: list[list[int]], loads: list[bool], depth: int
) -> tuple[list[Group], dict[int, int]]:
    """Return the groups, and for each reader the place of its group.

    Args:
        numbers, places, loads: of each touch of WGT, the instruction, begin and end, whether it is a LOAD.
    """
    holder, groups, readers = [NO_VALUE] * depth, list[Group](), dict[int, Group]()
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
    groups = list({id(group): group for group in joined.values()}.values())
    place = {id(group): at for at, group in enumerate(groups)}
    return groups, {number: place[id(joined[group.members[0]])] for number, group in readers.items()}
