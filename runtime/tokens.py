"""Dependency tokens for a stream that is being built: each conflict of two units is ordered by as few as can be.

An instruction that must wait for another unit's pops a token that the last instruction it must wait for pushes. What a unit
knows to be done grows with every token it pops, and with what the pushing unit knew, so an order that follows from others costs nothing.
On an edge pushes and pops are added in one order, so the k-th pop takes the k-th push: the condition of the theorem on
virtual threads (review of the TVM paper, appendix A).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping

from vdla.hw.spec.units import TOKEN_EDGES, TokenEdge, Unit

FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")
_BITS = {flag: 1 << number for number, flag in enumerate(FLAGS)}
_POPS, _PUSHES = ({edge: _BITS[getattr(edge, flag)] for edge in TOKEN_EDGES} for flag in ("pop_flag", "push_flag"))
_EDGES = {(edge.producer, edge.consumer): edge for edge in TOKEN_EDGES}

Relay = Callable[[Unit, Mapping[Unit, int]], int]


class TokenPlanner:
    """The flags of a stream's instructions, by position.

    Args:
        token_depth: tokens that an edge can hold.
        relay: appends an instruction of a unit that does nothing but wait, places it here, and returns its position.

    Attributes:
        flags: per instruction, a bit for each of FLAGS.
    """

    def __init__(self, token_depth: int, relay: Relay) -> None:
        self.flags: list[int] = []
        self._depth = token_depth
        self._relay = relay
        self._knew: list[tuple[int, ...]] = []  # by position: the last instruction of each unit that is done when it starts
        self._knows: list[tuple[int, ...]] = [(-1, -1, -1)] * len(Unit)  # the same of what each unit starts next
        self._of_unit: list[list[int]] = [[] for _ in Unit]
        self._pops: dict[TokenEdge, list[int]] = {edge: [] for edge in TOKEN_EDGES}

    def place(self, unit: Unit, needs: Mapping[Unit, int]) -> int:
        """Append an instruction of `unit` that starts behind the instructions `needs` of other units (-1: none); return its position."""
        known = self._knows[unit]
        edges = () if all(known[other] >= position for other, position in needs.items()) else self._waits(unit, needs)
        position = len(self.flags)
        flags = 0
        for edge in edges:
            flags |= _POPS[edge]
            self._pops[edge].append(position)
        self.flags.append(flags)
        self._knew.append(self._knows[unit])
        self._of_unit[unit].append(position)
        return position

    def _waits(self, unit: Unit, needs: Mapping[Unit, int]) -> list[TokenEdge]:
        """Let the next instruction of `unit` wait for `needs`; return the edges on which it pops."""
        return [self._wait(unit, other, position) for other, position in self._on_own_edges(unit, needs).items()
                if position > self._knows[unit][other]]

    def _on_own_edges(self, unit: Unit, needs: Mapping[Unit, int]) -> dict[Unit, int]:
        """Return needs of units from which an edge leads to `unit`: what it needs of another it waits for through the compute unit."""
        direct = {other: position for other, position in needs.items() if (other, unit) in _EDGES}
        for other in needs.keys() - direct.keys():
            if needs[other] > self._knows[unit][other]:
                direct[Unit.COMPUTE] = max(direct.get(Unit.COMPUTE, -1), self._first_behind(other, needs[other]))
        return direct

    def _wait(self, unit: Unit, other: Unit, position: int) -> TokenEdge:
        """Let the next instruction of `unit` wait for `position` of `other`; return the edge on which it pops."""
        edge = _EDGES[other, unit]
        if len(self._pops[edge]) - bisect_right(self._pops[edge], position) >= self._depth:
            position = self._relay(other, {})  # the edge holds no more tokens as early as that
        self.flags[position] |= _PUSHES[edge]
        self._learn(unit, other, position)
        return edge

    def _first_behind(self, other: Unit, position: int) -> int:
        """Return the first compute instruction that starts behind `position` of `other`."""
        own = self._of_unit[Unit.COMPUTE]
        place = bisect_left(own, position, key=lambda at: self._knew[at][other])
        return own[place] if place < len(own) else self._relay(Unit.COMPUTE, {other: position})

    def _learn(self, unit: Unit, other: Unit, position: int) -> None:
        """Let `unit` know that `position` of `other` is done, and all that this one knew."""
        known = [max(pair) for pair in zip(self._knows[unit], self._knew[position], strict=True)]
        known[other] = max(known[other], position)
        self._knows[unit] = tuple(known)
