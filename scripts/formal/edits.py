"""Changes of the hardware's sources while a circuit is built: planted faults and smaller constants."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any


class EditError(ValueError):
    """A text that is to be changed does not stand exactly once in the source."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a module's source.

    Attributes:
        module: its full name.
        old, new: a text that stands in it exactly once, and what takes its place.
    """

    module: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.module.rpartition('.')[2]}.py: {self.old} -> {self.new}"


@contextmanager
def edited(*edits: Edit) -> Iterator[None]:
    """Take functions, methods and whole numbers of modules from the changed sources.

    Classes and functions stay the same objects, so that other modules that import them see the change.

    Raises:
        EditError: a text does not stand exactly once in its module.
    """
    undo = []
    try:
        for module, text in _changed(edits).items():
            undo += _swap(module, text)
        yield
    finally:
        for holder, name, value in reversed(undo):
            setattr(holder, name, value)


def _changed(edits: tuple[Edit, ...]) -> dict[ModuleType, str]:
    """Return the changed text of each module."""
    texts: dict[ModuleType, str] = {}
    for edit in edits:
        module = import_module(edit.module)
        text = texts.get(module) or inspect.getsource(module)
        if (times := text.count(edit.old)) != 1:
            raise EditError(
                f"{edit.old!r} stands {times} times in {edit.module}; an edit needs a text that is there once"
            )
        texts[module] = text.replace(edit.old, edit.new)
    return texts


def _swap(module: ModuleType, text: str) -> list[tuple[Any, str, object]]:
    """Make the changes; return what to set where in order to undo them."""
    namespace: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(text, str(module.__file__), "exec"), namespace)
    old, new = dict(_functions(vars(module), module.__name__)), dict(_functions(namespace, module.__name__))
    undo: list[tuple[Any, str, object]] = []
    for name, function in old.items():
        if function.__code__ != new[name].__code__:
            undo.append((function, "__code__", function.__code__))
            function.__code__ = new[name].__code__
    for name, value in vars(module).copy().items():
        if type(value) is int and value != namespace[name]:
            undo.append((module, name, value))
            setattr(module, name, namespace[name])
    return undo


def _functions(members: Mapping[str, Any], module: str) -> Iterator[tuple[str, FunctionType]]:
    """Yield the functions, methods and (cached) properties that a module or class defines, by name."""
    for name, member in members.items():
        value = getattr(member, "fget", None) or getattr(member, "func", None) or member
        if isinstance(value, FunctionType) and value.__module__ == module:
            yield name, value
        elif isinstance(value, type) and value.__module__ == module:
            yield from ((f"{name}.{inner}", function) for inner, function in _functions(vars(value), module))
