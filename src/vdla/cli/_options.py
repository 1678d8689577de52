"""Options and error handling that several commands share."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias

import click

from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.extras import require_package
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.sdram import AnyMemory
from vdla.hw.spec.target import Target
from vdla.hw.spec.target_files import apply_settings, load

OUTPUT_FILE = click.Path(
    path_type=Path
)  # without checks: `vdla.hw.spec.writing` says what is wrong, in one line

VECTORS = click.argument(
    "vectors",
    nargs=-1,
    required=True,
    metavar="VECTOR...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
CLOCK = click.option(
    "--clock",
    type=click.FloatRange(0, min_open=True),
    help="Clock in MHz, to convert cycles to time.  [default: the target's]",
)
INPUTS = click.option(
    "--input",
    "inputs",
    metavar="IN",
    type=click.Path(exists=True, path_type=Path),
    help="Inputs: an .npz file with an array for each input of the network, an .npy file, an image, a WAV "
    "file, or "
    "a folder of these. The network runs once for each sample. Without it the inputs are random, the same "
    "in each "
    "run.",
)

Command: TypeAlias = Callable[..., None]
"""A command's function; click gives it options and arguments by name."""


def reports_errors(function: Command) -> Command:
    """Turn a VdlaError into one message on standard error and exit status 2."""

    @wraps(function)
    def wrapped(*args: object, **kwargs: object) -> None:
        try:
            function(*args, **kwargs)
        except VdlaError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(2)

    return wrapped


def needs(purpose: str, *packages: str) -> Callable[[Command], Command]:
    """Refuse a command, described by `purpose`, if one of its packages is not installed."""

    def decorated(function: Command) -> Command:
        @reports_errors
        @wraps(function)
        def wrapped(*args: object, **kwargs: object) -> None:
            for package in packages:
                require_package(package, purpose)
            function(*args, **kwargs)

        return wrapped

    return decorated


def with_settings(function: Command) -> Command:
    """Apply --set to the argument `target` (a preset or a file) and pass the resulting target on."""

    @click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Change one parameter, as in block_in=32, extensions=+table, memory.latency=400 or "
        "clock_mhz=120; may be repeated.",
    )
    @reports_errors
    @wraps(function)
    def wrapped(target: str, settings: tuple[str, ...], **kwargs: object) -> None:
        function(target=apply_settings(load(target), settings), **kwargs)

    return wrapped


def takes_target(function: Command) -> Command:
    """Add --config and --target, which are synonyms, and --set; the command gets the resulting `target`."""
    inner = with_settings(function)

    @click.option(
        "--config", metavar="NAME|FILE", help="A preset, or a .toml or VTA .json file.  [default: default]"
    )
    @click.option("--target", metavar="NAME|FILE", help="The same as --config.")
    @wraps(inner)
    def wrapped(config: str | None, target: str | None, **kwargs: object) -> None:
        if None not in (config, target):
            raise click.UsageError(
                f"--config {config} and --target {target} name one record; give one of them"
            )
        inner(target=target or config or "default", **kwargs)

    return wrapped


def takes_config(function: Command) -> Command:
    """Add the options of `takes_target`; the command gets the resulting target's `config`."""
    return takes_target(_of_config(function))


def takes_config_alone(function: Command) -> Command:
    """Add the options of `takes_target_alone`; the command gets the resulting target's `config`."""
    return takes_target_alone(_of_config(function))


def takes_target_alone(function: Command) -> Command:
    """Add --config and --set, for commands that use --target otherwise; the command gets `target`."""
    inner = with_settings(function)

    @click.option(
        "--config",
        default="default",
        show_default=True,
        metavar="NAME|FILE",
        help="A preset, or a .toml or VTA .json file.",
    )
    @wraps(inner)
    def wrapped(config: str, **kwargs: object) -> None:
        inner(target=config, **kwargs)

    return wrapped


def _of_config(function: Command) -> Command:
    """Call a function that takes `config` with the configuration of a target."""

    @wraps(function)
    def wrapped(target: Target, **kwargs: object) -> None:
        function(config=target.config, **kwargs)

    return wrapped


MEMORY_OPTIONS = {
    "latency": "Cycles from a read's acceptance to its first data.",
    "depth": "Requests in flight at once.",
    "cycles_per_beat": "Cycles from one beat of data to the next; 4 is a quarter of the bandwidth.",
}


def overrides_memory(function: Command) -> Command:
    """Add an option for each parameter of memory; the command gets `memory`, a map from the target's memory
    to the memory with these parameters."""

    @wraps(function)
    def wrapped(**kwargs: Any) -> None:
        options = {name: kwargs.pop(name) for name in MEMORY_OPTIONS}
        given = {name: value for name, value in options.items() if value is not None}
        function(memory=lambda known: _overridden(known, given), **kwargs)

    for name, text in MEMORY_OPTIONS.items():
        wrapped = click.option(_flag(name), type=int, help=f"{text}  [default: the target's]")(wrapped)
    return wrapped


def _overridden(known: AnyMemory, given: dict[str, int]) -> AnyMemory:
    """Return a memory with other parameters of the reference memory, which then stands in for an SDRAM."""
    if not given:
        return known
    return replace(known if isinstance(known, MemoryParameters) else REFERENCE_MEMORY, **given)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
