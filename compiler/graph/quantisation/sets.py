"""Disjoint sets of values that share a scale."""

from collections.abc import Iterable


class Sets:
    """Disjoint sets of values, each with a leader.

    Attributes:
        leaders: for each value, the next value on the way to its leader.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.leaders = {name: name for name in names}

    def leader(self, name: str) -> str:
        """Return the leader of the set of a value."""
        leaders = self.leaders
        while leaders[name] != name:
            leaders[name] = leaders[leaders[name]]
            name = leaders[name]
        return name

    def join(self, name: str, other: str) -> None:
        """Unite the sets of two values; the leader of the set of `other` remains."""
        self.leaders[self.leader(name)] = self.leader(other)
