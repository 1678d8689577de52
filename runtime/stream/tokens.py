"""Dependency tokens of a stream: each conflict of two units is ordered by as few as can be.

An instruction that must wait for another unit's pops a token that the last instruction it must wait for
pushes. What a unit knows to be done grows with every token it pops, and with what the pushing unit knew, so
an order that follows from others costs nothing. On an edge pushes and pops are added in one order, so the
k-th pop takes the k-th push: the condition of the theorem on virtual threads (review of the TVM paper,
appendix A).
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import gt

import numpy as np

from vdla.hw.spec.isa import FLAGS
from vdla.hw.spec.units import TOKEN_EDGES, Unit

LOAD, COMPUTE, STORE = map(int, Unit)  # plain numbers are quicker to compare
_NONE = (-1,) * len(Unit)
_BITS = {flag: 1 << number for number, flag in enumerate(FLAGS)}
_POPS: Mapping[tuple[int, int], int] = {
    (edge.producer, edge.consumer): _BITS[edge.pop_flag] for edge in TOKEN_EDGES
}
_PUSHES: Mapping[tuple[int, int], int] = {
    (edge.producer, edge.consumer): _BITS[edge.push_flag] for edge in TOKEN_EDGES
}


@dataclass(slots=True)
class TokenPlanner:
    """Puts the instructions of a stream in place, and those in between that do nothing but wait.

    Attributes:
        depth: tokens that an edge can hold.
        numbers: by position, the number that an instruction was placed with; `-1 - unit` where it does
            nothing but wait.
        flags: by position, a bit for each of FLAGS.
    """

    depth: int
    numbers: list[int] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    _knew: list[tuple[int, ...]] = field(
        default_factory=list
    )  # by position: the last instruction of each unit that is done when it starts
    _knows: list[tuple[int, ...]] = field(
        default_factory=lambda: [_NONE] * len(Unit)
    )  # the same of what each unit starts next
    _computes: list[int] = field(default_factory=list)  # positions of the compute unit
    _pops: dict[tuple[int, int], list[int]] = field(
        default_factory=lambda: {edge: [] for edge in _POPS}
    )  # positions, by edge

    def place(self, number: int, unit: int, needs: tuple[int, ...]) -> int:
        """Append an instruction of `unit` that starts behind the positions `needs` of each unit (-1: none);
        return its position."""
        edges = self._waits(unit, needs) if any(map(gt, needs, self._knows[unit])) else ()
        flags, position = 0, len(self.flags)
        for edge in edges:
            flags |= _POPS[edge]
            self._pops[edge].append(position)
        self.numbers.append(number)
        self.flags.append(flags)
        self._knew.append(self._knows[unit])
        if unit == COMPUTE:
            self._computes.append(position)
        return position

    def _waits(self, unit: int, needs: tuple[int, ...]) -> list[tuple[int, int]]:
        """Let the next instruction of `unit` wait for `needs`; return the edges on which it pops."""
        load, compute, store = needs
        if unit == COMPUTE:
            return self._wait(unit, STORE, store) + self._wait(unit, LOAD, load)
        other, beyond = (STORE, store) if unit == LOAD else (LOAD, load)
        if beyond > self._knows[unit][other]:  # no edge leads from there
            compute = max(compute, self._first_behind(other, beyond))
        return self._wait(unit, COMPUTE, compute)

    def _wait(self, unit: int, other: int, position: int) -> list[tuple[int, int]]:
        """Let the next instruction of `unit` wait for `position` of `other`; return the edge on which it
        pops, if it must."""
        edge = other, unit
        if position <= self._knows[unit][other]:
            return []
        pops = self._pops[edge]
        if (
            len(pops) >= self.depth and pops[-self.depth] > position
        ):  # the edge holds no more tokens as early as that
            position = self.place(-1 - other, other, _NONE)
        self.flags[position] |= _PUSHES[edge]
        known = list(map(max, self._knows[unit], self._knew[position]))
        known[other] = position
        self._knows[unit] = tuple(known)
        return [edge]

    def _first_behind(self, other: int, position: int) -> int:
        """Return the first compute instruction that starts behind `position` of `other`."""
        place = bisect_left(self._computes, position, key=lambda at: self._knew[at][other])
        if place < len(self._computes):
            return self._computes[place]
        return self.place(
            -1 - COMPUTE, COMPUTE, tuple(position if unit == other else -1 for unit in range(len(Unit)))
        )


def plan_tokens(units: np.ndarray, needs: np.ndarray, depth: int) -> TokenPlanner:
    """Return the plan of a stream.

    Args:
        units: uint8[n].
        needs: int64[n, units]: of each unit, the instruction that must be done before; -1: none.
        depth: tokens that an edge can hold.
    """
    planner, positions = TokenPlanner(depth), [-1] * (len(units) + 1)  # the last is where -1 is looked up
    for number, (unit, load, compute, store) in enumerate(
        zip(units.tolist(), *needs.T.tolist(), strict=True)
    ):
        positions[number] = planner.place(
            number, unit, (positions[load], positions[compute], positions[store])
        )
    return planner
