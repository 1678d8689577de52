"""A hardware-software co-design kit for deep-learning accelerators."""

from importlib import import_module

__version__ = "0.1.0"

_API = ("Module", "compile", "load", "sweep")


def __getattr__(name: str) -> object:
    """Return a part of `vdla.api`; it is imported at its first use."""
    if name in _API:
        return getattr(import_module("vdla.api"), name)
    raise AttributeError(f"module 'vdla' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_API]
