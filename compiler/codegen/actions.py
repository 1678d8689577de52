"""Actions: compiled statements of loop programs, built once and run for many values of the loop variables."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeVar

from vdla.compiler.codegen.nest import AffineSum, Ranges
from vdla.compiler.ir.nodes import Buffer

Item = TypeVar("Item")
Values = dict[str, int]
Known = Mapping[str, int]  # read-only values of loop variables
Action = Callable[[Values], None]


@dataclass(frozen=True)
class IndexedBuffer:
    """A buffer that an instruction accesses, and the index of the accessed element."""

    buffer: Buffer
    index: AffineSum


def sequence(actions: list[Action]) -> Action:
    """Return the action that runs `actions` in order."""

    def act(values: Values) -> None:
        for action in actions:
            action(values)

    return act


def repeated(name: str, extent: int, action: Action) -> Action:
    """Return the action that runs `action` for every value of the loop variable `name`."""

    def act(values: Values) -> None:
        for value in range(extent):
            values[name] = value
            action(values)
        del values[name]

    return act


def bound(name: str, value: Callable[[Known], int], action: Action) -> Action:
    """Return the action that runs `action` with a value as the variable `name`."""

    def act(values: Values) -> None:
        values[name] = value(values)
        action(values)
        del values[name]

    return act


def conditional(conditions: list[AffineSum], action: Action) -> Action:
    """Return the action that runs `action` if all conditions hold, that is, no sum is negative."""

    def act(values: Values) -> None:
        if all(affine_sum.at(values, {})[0] >= 0 for affine_sum in conditions):
            action(values)

    return act


def memoized(
    sums: Iterable[AffineSum], loops: Mapping[str, int], compute: Callable[[Values], Iterable[Item]]
) -> Callable[[Values], tuple[Item, ...]]:
    """Return `compute` with a cache.

    Args:
        sums: all sums that the result of `compute` depends on.
        loops: loops of the nest. The key of the cache holds the values of all other variables of `sums`.
    """
    names = sorted({name for affine_sum in sums for name, _ in affine_sum.terms if name not in loops})
    key_of = itemgetter(*names) if names else lambda values: None
    cache: dict[object, tuple[Item, ...]] = {}

    def cached_items(values: Values) -> tuple[Item, ...]:
        key = key_of(values)
        if key not in cache:
            cache[key] = tuple(compute(values))
        return cache[key]

    return cached_items


def box_of(ranges: Ranges) -> tuple[dict[str, int], Values]:
    """Return the extents and the first iterations of the loops of a box, by name."""
    return {name: high - low for name, (low, high) in ranges.items()}, {
        name: low for name, (low, _) in ranges.items()
    }


def first_and_steps(
    affine_sum: AffineSum, values: Known, loops: Mapping[str, int], start: Values
) -> tuple[int, dict[str, int]]:
    """Return the element of an operand in the first iteration of a box, and its step per loop."""
    fixed, free = affine_sum.at(values, loops)
    return fixed + sum(factor * start[name] for name, factor in free), dict(free)


def shifted(affine_sum: AffineSum, start: Values) -> AffineSum:
    """Return a condition on loops from `start` on as a condition on loops from 0 on."""
    return AffineSum(
        affine_sum.constant + sum(factor * start.get(name, 0) for name, factor in affine_sum.terms),
        affine_sum.terms,
    )
