"""What several commands share: the configuration options, and how errors reach the user."""

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

import click

from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.extras import require_package
from vdla.hw.spec.files import apply_settings, load
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters

OUTPUT_FILE = click.Path(path_type=Path)  # without checks: `vdla.hw.spec.writing` says what is wrong, in one line


def reports_errors(function: Callable) -> Callable:
    """Turn a VdlaError into one message on standard error and exit status 2."""
    @wraps(function)
    def wrapped(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except VdlaError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(2)
    return wrapped


def needs(purpose: str, *packages: str) -> Callable:
    """Refuse a command, which `purpose` names, before it does anything where its packages are not installed."""
    def decorated(function: Callable) -> Callable:
        @reports_errors
        @wraps(function)
        def wrapped(*args, **kwargs):
            for package in packages:
                require_package(package, purpose)
            return function(*args, **kwargs)
        return wrapped
    return decorated


def with_settings(function: Callable) -> Callable:
    """Apply --set to the argument `config` (a preset's name or a file) and pass the configuration on instead."""
    @click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change one parameter; may be repeated.")
    @reports_errors
    @wraps(function)
    def wrapped(config: str, settings: tuple[str, ...], **kwargs):
        return function(config=apply_settings(load(config), settings), **kwargs)
    return wrapped


def takes_config(function: Callable) -> Callable:
    """Add --config and --set; the command gets the resulting `config`."""
    option = click.option("--config", default="default", show_default=True, metavar="NAME|FILE",
                          help="A preset, or a .toml or VTA .json file.")
    return option(with_settings(function))


def takes_memory(function: Callable) -> Callable:
    """Add --latency and --depth; the command gets the reference memory's `memory`."""
    @click.option("--latency", default=REFERENCE_MEMORY.latency, show_default=True, help="Cycles from a read's acceptance to its first data.")
    @click.option("--depth", default=REFERENCE_MEMORY.depth, show_default=True, help="Requests in flight at once.")
    @reports_errors
    @wraps(function)
    def wrapped(latency: int, depth: int, **kwargs):
        return function(memory=MemoryParameters(latency, depth), **kwargs)
    return wrapped
