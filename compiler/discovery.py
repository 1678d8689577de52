"""Declarations that are collected from the modules of a package, so that no list of modules is kept."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any


def modules_of(package: str) -> Iterator[ModuleType]:
    """Yield the modules of a package in the order of their names, without the modules of its subpackages."""
    for info in iter_modules(import_module(package).__path__):
        yield import_module(f"{package}.{info.name}")


def declared(package: str, table: str) -> dict[str, Any]:
    """Return the entries of the dictionaries called `table` in the modules of a package, sorted by key.

    Raises:
        ValueError: two modules declare the same key.
    """
    entries: dict[str, Any] = {}
    for module in modules_of(package):
        for key, entry in vars(module).get(table, {}).items():
            if key in entries:
                raise ValueError(
                    f"{module.__name__}.{table} declares {key!r}, as another module of {package} does"
                )
            entries[key] = entry
    return dict(sorted(entries.items()))
