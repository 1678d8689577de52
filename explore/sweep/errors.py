"""The error of sweeps, how unknown names are reported, and values that msgspec does not take: in plain words,
with the name in the file, the value, and what is allowed."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.showing import shown

Known = TypeVar("Known", bound=int | float | str)
KINDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "a table",
    "str": "text",
}
"""What msgspec calls a kind of values, and what a person does; a file holds no null."""
TYPES = {"array": list | tuple, "bool": bool, "float": float, "int": int, "object": Mapping, "str": str}
BOUNDS = {">=": (" of at least", operator.lt), "<=": (" of at most", operator.gt)}
EXPECTED = re.compile(r"Expected `([^`]*)`(?: ([<>]=) (\S+)| of length (\d+))?(?:, got `(\w+)`)?")
MISSING = re.compile(r"Object missing required field `(\w+)`")
STEPS = re.compile(r"\[\.\.\.\]|\[\d+\]|[^.\[\]]+")

Fits = Callable[[Any], bool]


class SweepError(VdlaError):
    """A sweep that cannot run: its specification, its folder or its results are at fault."""


class NoValueError(SweepError):
    """An expression of a specification that has no value for a point."""


def first_repeated(values: Iterable[Known]) -> Known | None:
    """Return the first of some values that is there before; None where each is there once."""
    seen: set[Known] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def unknown(kind: str, name: str, names: Iterable[str]) -> SweepError:
    """Return the error for a name that does not exist, with the nearest name that does.

    Args:
        kind: what is named, as in "parameter".
    """
    known = list(names)
    field = name.rpartition(".")[2]
    moved = [candidate for candidate in known if candidate.rpartition(".")[2] == field]  # in another table
    near = moved or get_close_matches(name, known, 1, 0.5)
    there = f"there are {', '.join(known)}"
    return SweepError(
        f"{kind} {shown(name)} is unknown; " + (f"did you mean {near[0]}? {there}" if near else there)
    )


def reworded(error: str, values: Mapping[str, Any], tables: Iterable[type]) -> str:
    """Return an error of `msgspec.convert` in plain words.

    Args:
        values: what was converted.
        tables: the structs, whose fields have hints.
    """
    said, _, place = error.partition(" - at `$")
    place = place.removesuffix("`").removeprefix(".")
    missing = MISSING.match(said)
    if missing:
        return f"{place and f'{place}.'}{missing[1]} is missing; give it"
    steps = STEPS.findall(place)
    named = next((step for step in reversed(steps) if step[0] != "["), "")
    hints = {name: hint for table in tables for name, hint in get_type_hints(table).items()}
    expected = EXPECTED.match(said)
    fault = _value_at(values, steps, _fault(expected)) or _value_at(values, steps, lambda value: True)
    if fault is None:
        return error.replace("`$.", "`")
    name, value = fault
    return f"{name[1:]} = {shown(value)} is not allowed; it takes {_allowed(expected, hints.get(named))}"


def _fault(expected: re.Match[str] | None) -> Fits:
    """Return whether a value can be at fault."""
    if expected is None:
        return lambda value: True
    _, sign, bound, _, got = expected.groups()
    if sign:
        beyond = BOUNDS[sign][1]
        return lambda value: isinstance(value, int | float) and beyond(value, float(bound))
    kind: Any = TYPES.get(got, object)
    return lambda value: isinstance(value, kind) and isinstance(value, bool) == (got == "bool")


def _value_at(value: Any, steps: Sequence[str], fits: Fits) -> tuple[str, Any] | None:
    """Return the name and the value at the end of steps, at a step "[...]" of the first key that fits; None
    where there is none."""
    if not steps:
        return ("", value) if fits(value) else None
    first, *rest = steps
    inside: list[tuple[str, Any]]
    if first == "[...]":
        inside = [(f".{key}", child) for key, child in value.items()]
    elif first[0] == "[":
        place = int(first[1:-1])
        inside = [(first, value[place])] if isinstance(value, list | tuple) and place < len(value) else []
    else:
        inside = [(f".{first}", value[first])]
    ends = ((name, _value_at(child, rest, fits)) for name, child in inside)
    return next(((name + end[0], end[1]) for name, end in ends if end is not None), None)


def _allowed(expected: re.Match[str] | None, hint: Any) -> str:
    """Return what is allowed: the texts of a hint's literals, and the kinds that msgspec names."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    literals = [f'"{literal}"' for part in parts if get_origin(part) is Literal for literal in get_args(part)]
    if expected is None:
        return " or ".join([*([KINDS["int"]] if int in parts else []), *literals])
    kinds, sign, bound, length, _ = expected.groups()
    words = [KINDS[kind] for kind in kinds.split(" | ") if kind in KINDS and not (literals and kind == "str")]
    more = f"{BOUNDS[sign][0]} {bound}" if sign else f" of {length}" if length else ""
    return " or ".join([*words, *literals]) + more
