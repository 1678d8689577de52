"""Actions: compiled forms of loop programs, built once and run for many values of the loop variables."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeVar

from vdla.compiler.codegen.nest import AffineSum, Ranges
from vdla.compiler.ir.nodes import Buffer

Found = TypeVar("Found")
Values = dict[str, int]
Known = Mapping[str, int]  # values that are only read
Action = Callable[[Values], None]


@dataclass(frozen=True)
class IndexedBuffer:
    """A buffer that an instruction accesses, and the index of its element."""

    buffer: Buffer
    index: AffineSum


def in_turn(actions: list[Action]) -> Action:
    """Return the action that runs others, one after another."""

    def act(values: Values) -> None:
        for action in actions:
            action(values)

    return act


def repeated(name: str, extent: int, action: Action) -> Action:
    """Return the action that runs another for every value of a loop variable."""

    def act(values: Values) -> None:
        for value in range(extent):
            values[name] = value
            action(values)
        del values[name]

    return act


def conditional(conditions: list[AffineSum], action: Action) -> Action:
    """Return the action that runs another if conditions hold."""

    def act(values: Values) -> None:
        if all(affine_sum.at(values, {})[0] >= 0 for affine_sum in conditions):
            action(values)

    return act


def once_each(
    sums: Iterable[AffineSum], loops: Mapping[str, int], find: Callable[[Values], Iterable[Found]]
) -> Callable[[Values], tuple[Found, ...]]:
    """Return `find`, asked once for each set of values of the variables that `sums` have outside `loops`: it
    depends on nothing else."""
    names = sorted({name for affine_sum in sums for name, _ in affine_sum.terms if name not in loops})
    key_of = itemgetter(*names) if names else lambda values: None
    known: dict[object, tuple[Found, ...]] = {}

    def found(values: Values) -> tuple[Found, ...]:
        key = key_of(values)
        if key not in known:
            known[key] = tuple(find(values))
        return known[key]

    return found


def box_of(ranges: Ranges) -> tuple[dict[str, int], Values]:
    """Return the extents of a box's loops, and their first iterations."""
    return {name: high - low for name, (low, high) in ranges.items()}, {
        name: low for name, (low, _) in ranges.items()
    }


def moved(
    affine_sum: AffineSum, values: Known, loops: Mapping[str, int], start: Values
) -> tuple[int, dict[str, int]]:
    """Return the first element of a nest's operand, and its step in each loop."""
    fixed, free = affine_sum.at(values, loops)
    return fixed + sum(factor * start[name] for name, factor in free), dict(free)


def shifted(affine_sum: AffineSum, start: Values) -> AffineSum:
    """Return a condition for loops that begin at 0 instead of `start`."""
    return AffineSum(
        affine_sum.constant + sum(factor * start.get(name, 0) for name, factor in affine_sum.terms),
        affine_sum.terms,
    )
