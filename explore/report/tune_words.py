"""What the page of a tuning log calls tasks and choices."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from vdla.compiler.tasks.base import Task

SUFFIX = "Task"
PLAIN = {0, 1}  # sizes that need no mention where they are as usual


def kind_of(text: str) -> str:
    """Return the kind of a task from its text, as in "Convolution"."""
    return text.partition("(")[0].removesuffix(SUFFIX)


def sizes_of(task: Task) -> str:
    """Return what a task has beside its kind, as in "channels 16, kernel 5×1"."""
    return ", ".join(_words(task))


def choice_text(choice: Mapping[str, Any]) -> str:
    """Return a choice as people read it: "threads 2, outputs 4, keeps weights"."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in _leaves(choice))


def _words(value: Any) -> Iterator[str]:
    for one in fields(value):
        own = getattr(value, one.name)
        if _is_plain(own, one):
            continue
        if is_dataclass(own):
            inner = list(_words(own))
            yield from inner if one.name == "size" else [" ".join([one.name, type(own).__name__, *inner])]
        else:
            yield f"{one.name} {_numbers(own) if isinstance(own, tuple) else own}"


def _is_plain(value: Any, one: "Field[Any]") -> bool:
    """Return whether a value is as usual, and nothing but zeros and ones, or settings of a part."""
    if one.default is MISSING or value != one.default:
        return False
    return is_dataclass(value) or set(value if isinstance(value, tuple) else [value]) <= PLAIN


def _numbers(values: tuple[Any, ...]) -> str:
    """Return "5×1" for the extents of a window, else "1" or "1/0/1" for equal and different numbers."""
    if len(values) == 2:
        return f"{values[0]}×{values[1]}"
    return str(values[0]) if len(set(values)) == 1 else "/".join(map(str, values))


def _leaves(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value)
        elif value is not None:
            yield name, value
