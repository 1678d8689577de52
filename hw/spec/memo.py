"""Remembering the results of pure functions."""

from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar, cast

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def memoised(entries: int) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Return `functools.lru_cache` for the latest `entries` results as a decorator that keeps the function's
    signature, so that type checkers still see its arguments. These must be hashable."""

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        return cast("Callable[Arguments, Result]", lru_cache(maxsize=entries)(function))

    return decorate
