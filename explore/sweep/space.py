"""The space of a sweep: every combination of values that satisfies the constraints."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import product
from math import prod
from typing import Any

import msgspec

from vdla.explore.sweep.errors import NoValueError, SweepError, first_repeated, unknown
from vdla.explore.sweep.expressions import Expression, Number, parse
from vdla.explore.sweep.parameters import (
    LISTS,
    NAMES,
    REALS,
    Value,
    checked,
    plain,
    require_name,
    value_of,
)
from vdla.explore.sweep.specification import Range, Specification
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.files import whole_number
from vdla.hw.spec.showing import shown
from vdla.hw.spec.target import Target
from vdla.hw.spec.target_files import CLOCK

MOST_COMBINATIONS = 1_000_000
MOST_VALUES = 10_000
LARGEST_VALUE = 1 << 63
"""Of a number in a range."""
MOST_OPERATIONS = 50_000_000
"""In the expressions of all combinations together: about a minute."""

Key = frozenset[tuple[str, Value]]


@dataclass(frozen=True, slots=True)
class Point:
    """One design of a sweep.

    Attributes:
        number: its place in the sweep, from 0.
        values: of every parameter of the sweep.
    """

    number: int
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Space:
    """The combinations of a sweep.

    Attributes:
        axes: values of the independent parameters, in order.
        formulas: expressions of the dependent parameters, each after the parameters that it reads.
        constraints: that every point satisfies.
        base: value of every parameter that a target has, where the sweep does not change it.
        names: of the sweep's parameters, in the order of the specification.
    """

    axes: Mapping[str, tuple[Value, ...]]
    formulas: Mapping[str, Expression]
    constraints: tuple[Expression, ...]
    base: Mapping[str, Value]
    names: tuple[str, ...]

    @property
    def combinations(self) -> int:
        """How many there are before the constraints."""
        return prod(map(len, self.axes.values()))

    def chosen(self, places: Sequence[int]) -> dict[str, Value]:
        """Return the values of the axes at these places among their values."""
        pairs = zip(self.axes.items(), places, strict=True)
        return {name: values[place] for (name, values), place in pairs}

    def places(self, values: Mapping[str, Value]) -> tuple[int, ...]:
        """Return the places of a point's values on the axes."""
        return tuple(axis.index(values[name]) for name, axis in self.axes.items())

    def complete(self, chosen: Mapping[str, Value]) -> dict[str, Value]:
        """Return the values of all parameters, given the values of the axes.

        Raises:
            SweepError: an expression has no value.
        """
        known = {**self.base, **chosen}
        for name, formula in self.formulas.items():
            value = _value(f"parameters.{name}", formula, known)
            known[name] = float(value) if name in REALS else plain(value)
        return {name: known[name] for name in self.names}

    def key(self, values: Mapping[str, Value]) -> Key:
        """Return what tells a point from others of the same base, whatever parameters their sweeps have: the
        values that are not the base's, and the clock where it is a parameter."""
        return frozenset(
            (name, value) for name, value in values.items() if name == CLOCK or value != self.base[name]
        )

    def broken(self, values: Mapping[str, Value]) -> Expression | None:
        """Return the first constraint that a point breaks; None where it satisfies all."""
        known = {**self.base, **values}
        return next(
            (constraint for constraint in self.constraints if not _value("constraints", constraint, known)),
            None,
        )

    def points(self) -> list[Point]:
        """Return every point, in the order of the axes.

        Raises:
            SweepError: there are more than MOST_COMBINATIONS, or the constraints leave none.
        """
        if self.combinations > MOST_COMBINATIONS:
            raise SweepError(
                f"the parameters have {self.combinations:,} combinations, and at most "
                f"{MOST_COMBINATIONS:,} are enumerated; give a budget, such as budget = 1000, or fewer values"
            )
        size = sum(expression.size for expression in (*self.formulas.values(), *self.constraints))
        if self.combinations * size > MOST_OPERATIONS:
            raise SweepError(
                f"the expressions have {size:,} operations, numbers and names, for each of "
                f"{self.combinations:,} combinations: in all more than {MOST_OPERATIONS:,}; give a budget, "
                "such as budget = 1000, or fewer expressions or values"
            )
        satisfying = [values for values in self._all() if self.broken(values) is None]
        if not satisfying:
            raise self._unsatisfied()
        return [Point(number, values) for number, values in enumerate(satisfying)]

    def _all(self) -> Iterator[dict[str, Value]]:
        for values in product(*self.axes.values()):
            yield self.complete(dict(zip(self.axes, values, strict=True)))

    def _unsatisfied(self) -> SweepError:
        counts: dict[str, int] = {}
        for values in self._all():
            broken = self.broken(values)
            assert broken is not None, "no point satisfies the constraints"
            counts[broken.text] = counts.get(broken.text, 0) + 1
        rejected = ", ".join(f"{shown(text)} rejects {count:,}" for text, count in counts.items())
        return SweepError(
            f"no combination of {self.combinations:,} satisfies the constraints: {rejected}; relax "
            "them, or add values"
        )


def _value(where: str, expression: Expression, known: Mapping[str, Value]) -> Number:
    """Return the value of an expression.

    Raises:
        NoValueError: it has none; the message begins with `where`.
    """
    try:
        return expression.value(known)
    except SweepError as error:
        raise NoValueError(f"{where}: {error}") from error


def space_of(specification: Specification, base: Target) -> Space:
    """Return the space of a specification.

    Raises:
        SweepError: a parameter is unknown or has no values, expressions depend on each other in a circle, or
            an expression names something unknown.
    """
    axes: dict[str, tuple[Value, ...]] = {}
    formulas: dict[str, Expression] = {}
    for name, given in specification.parameters.items():
        require_name(name)
        domain = _domain(name, given)
        if isinstance(domain, Expression):
            formulas[name] = domain
        else:
            axes[name] = domain
    if not specification.parameters:
        raise SweepError(
            "parameters is empty; give at least one parameter with values, as block_in = [8, 16]"
        )
    constraints = tuple(map(parse, specification.constraints))
    for expression in (*formulas.values(), *constraints):
        for name in expression.names:
            if name not in NAMES:
                raise unknown(f"in expression {shown(expression.text)}, parameter", name, NAMES)
    return Space(
        axes,
        _ordered(formulas),
        constraints,
        {name: value_of(base, name) for name in NAMES},
        tuple(specification.parameters),
    )


def _domain(name: str, given: Any) -> tuple[Value, ...] | Expression:
    """Return the values of a parameter, or the expression that gives it."""
    if isinstance(given, str) and name not in LISTS:
        try:
            return (whole_number(name, given),)
        except ConfigError:
            return parse(given)
    if isinstance(given, Mapping):
        return _range(name, given)
    values = tuple(checked(name, value) for value in (given if isinstance(given, list) else [given]))
    if not values:
        raise SweepError(f"parameters.{name} = [] is empty; give at least one value")
    twice = first_repeated(values)
    if twice is not None:
        raise SweepError(f"parameters.{name} holds {shown(twice)} twice; give each value once")
    return values


def _range(name: str, given: Mapping[str, Any]) -> tuple[Value, ...]:
    """Return the values of a range."""
    example = "{from = 8, to = 64, step = 8} or {from = 8, to = 64, times = 2}"
    try:
        progression = msgspec.convert(given, Range)
    except msgspec.ValidationError as error:
        raise SweepError(f"parameters.{name}: {error}; a range is {example}") from error
    numbers = [
        value
        for value in (progression.start, progression.end, progression.step, progression.times)
        if value is not None
    ]
    if not all(abs(value) <= LARGEST_VALUE for value in numbers):
        raise SweepError(
            f"parameters.{name} = {shown(dict(given))} has a number beyond {LARGEST_VALUE}; a range is "
            f"{example}"
        )
    if (progression.step is None) == (progression.times is None):
        raise SweepError(
            f"parameters.{name} = {shown(dict(given))} needs step or times; a range is {example}"
        )
    if (progression.step is not None and progression.step <= 0) or (
        progression.times is not None and (progression.times <= 1 or progression.start <= 0)
    ):
        raise SweepError(f"parameters.{name} = {shown(dict(given))} does not grow; a range is {example}")
    values: list[Number] = []
    while (value := _next(progression, len(values))) <= progression.end:
        values.append(value)
        if len(values) > MOST_VALUES:
            raise SweepError(f"parameters.{name} has more than {MOST_VALUES:,} values; take larger steps")
    if not values:
        raise SweepError(
            f"parameters.{name} is empty: from = {progression.start} is more than to = {progression.end}"
        )
    return tuple(checked(name, value) for value in values)


def _next(progression: Range, number: int) -> Number:
    if progression.step is not None:
        return progression.start + number * progression.step
    assert progression.times is not None, "a range has a step or a factor"
    value: Number = progression.start * progression.times**number
    return value


def _ordered(formulas: Mapping[str, Expression]) -> dict[str, Expression]:
    """Return expressions, each after the expressions that it reads."""
    needs = {
        name: [needed for needed in formula.names if needed in formulas] for name, formula in formulas.items()
    }
    try:
        return {name: formulas[name] for name in TopologicalSorter(needs).static_order()}
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise SweepError(
            f"parameters depend on each other in a circle: {circle}; give one of them values"
        ) from error
