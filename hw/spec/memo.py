"""Memoisation of pure functions."""

from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar, cast

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def memoised(entries: int) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Return a decorator that caches the latest `entries` results.

    It keeps the function's signature for type checkers. The arguments must be hashable.
    """

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        return cast("Callable[Arguments, Result]", lru_cache(maxsize=entries)(function))

    return decorate
