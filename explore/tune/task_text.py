"""Tasks from the texts that records have, and what people call them."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from vdla.compiler.codegen.tasks import Task
from vdla.hw.spec.errors import VdlaError

MEMBER = re.compile(r"<(\w+\.\w+): [^<>]*>")  # of an enumeration, as Python writes it
SUFFIX = "Task"
PLAIN = {0, 1}  # sizes that need no mention where they are as usual
REFUSED = (
    SyntaxError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RecursionError,
    ArithmeticError,
    VdlaError,
)
"""What is raised for texts that are no tasks, and for sizes that no operator has."""


def task_from(text: str) -> Task | None:
    """Return the task whose text this is; None where this version of the kit has none such."""
    try:
        found = _value(ast.parse(MEMBER.sub(r"\1", text), mode="eval").body)
    except REFUSED:
        return None
    return cast(Task, found) if isinstance(found, get_args(Task)) and str(found) == text else None


def kind_of(text: str) -> str:
    """Return the kind of a task from its text, as in "Convolution"."""
    return text.partition("(")[0].removesuffix(SUFFIX)


def sizes_of(task: Task) -> str:
    """Return what a task has beside its kind, as in "channels 16, kernel 5×1"."""
    return ", ".join(_words(task))


def _value(node: ast.expr) -> Any:
    """Return the value of an expression that Python wrote for a task or a part of one."""
    match node:
        case ast.Call(ast.Name(name), [], keywords):
            return _classes()[name](**{str(one.arg): _value(one.value) for one in keywords})
        case ast.Attribute(ast.Name(name), member):
            return getattr(_classes()[name], member)
        case ast.Tuple(items):
            return tuple(map(_value, items))
        case _:
            return ast.literal_eval(node)


@cache
def _classes() -> Mapping[str, type]:
    """Return the classes that tasks consist of, by name."""
    found: dict[str, type] = {}
    waiting: list[type] = list(get_args(Task))
    while waiting:
        one = waiting.pop()
        if one.__name__ in found:
            continue
        found[one.__name__] = one
        waiting += one.__subclasses__()
        waiting += [other for hint in _hints(one) for other in _named(hint)]
    return found


def _hints(one: type) -> list[Any]:
    return list(get_type_hints(one).values()) if is_dataclass(one) else []


def _named(hint: Any) -> Iterator[type]:
    """Yield the dataclasses and enumerations in a type hint."""
    if get_origin(hint) in (Union, UnionType, tuple):
        for part in get_args(hint):
            yield from _named(part)
    elif isinstance(hint, type) and (is_dataclass(hint) or issubclass(hint, Enum)):
        yield hint


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
