"""The error of sweeps, and how unknown names are reported."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TypeVar

from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.showing import shown

Known = TypeVar("Known", bound=int | float | str)


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
    """Return the error for a name that does not exist, with the nearest one that does.

    Args:
        kind: what is named, as in "parameter".
    """
    known = list(names)
    own = name.rpartition(".")[2]
    moved = [one for one in known if one.rpartition(".")[2] == own]  # in another table
    near = moved or get_close_matches(name, known, 1, 0.5)
    there = f"there are {', '.join(known)}"
    return SweepError(
        f"{kind} {shown(name)} is unknown; " + (f"did you mean {near[0]}? {there}" if near else there)
    )
