"""Import of VTA's `vta_config.json`: the checks and reports of `vdla config --from-vta`.

`vdla.hw.spec.files.from_vta_json` converts the file. This module refuses a file that leaves a parameter open,
contradicts itself or cannot be built here, and says which keys have no meaning for the kit.

Source: `config/vta_config.json` and `config/pkg_config.py` of VTA's repository, and the older files of TVM.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

from vdla.cli._options import Command, reports_errors, with_settings
from vdla.hw.spec.config import AcceleratorConfig, parameters
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.files import LARGEST_EXPONENT, VTA_IGNORED, VTA_KEYS, from_vta_json, read_text
from vdla.hw.spec.presets import VTA
from vdla.hw.spec.showing import shown

BLOCKS = ("LOG_BLOCK_IN", "LOG_BLOCK_OUT")
DERIVED: dict[str, tuple[str, Callable[[Mapping[str, int]], int]]] = {
    "LOG_OUT_WIDTH": ("LOG_INP_WIDTH", lambda values: values["LOG_INP_WIDTH"]),
    "LOG_OUT_BUFF_SIZE": (
        "LOG_ACC_BUFF_SIZE + LOG_INP_WIDTH - LOG_ACC_WIDTH",
        lambda values: values["LOG_ACC_BUFF_SIZE"] + values["LOG_INP_WIDTH"] - values["LOG_ACC_WIDTH"],
    ),
}
"""Keys of older files whose value follows from the others: how VTA derives it, as text and as a function."""


@dataclass(frozen=True)
class VtaImport:
    """A converted file.

    Attributes:
        config: the configuration, with all extensions off.
        ignored: a sentence for each key of the file that has no meaning for the kit.
    """

    config: AcceleratorConfig
    ignored: tuple[str, ...]

    @property
    def settings(self) -> tuple[str, ...]:
        """The changes that make this configuration of the preset `vta`, as `--set` takes them."""
        before = parameters(VTA)
        changes = {name: value for name, value in parameters(self.config).items() if value != before[name]}
        return (f"name={self.config.name}", *(f"{name}={value}" for name, value in changes.items()))


def read_vta(path: Path) -> VtaImport:
    """Return the configuration in a `vta_config.json`.

    Raises:
        ConfigError: naming file, key, value and what is allowed.
    """
    values = _values(path)
    _check_names(path, values)
    exponents = {key: _exponent(path, key, value) for key, value in values.items() if key not in VTA_IGNORED}
    numbers = _with_blocks(path, exponents)
    _check_complete(path, numbers)
    for key, parameter in VTA_KEYS.items():
        _check_supported(path, key, numbers[key], parameter)
    _check_derived(path, numbers)
    config = from_vta_json(json.dumps({key: numbers[key] for key in VTA_KEYS}), str(path))
    ignored = (
        f"{path}: {key} = {shown(value)} is ignored: {VTA_IGNORED[key]}"
        for key, value in values.items()
        if key in VTA_IGNORED
    )
    return VtaImport(config, tuple(ignored))


def imports_vta(function: Command) -> Command:
    """Add --from-vta and what `with_settings` adds; the command gets the resulting `target`."""
    inner = with_settings(function)

    @click.option(
        "--from-vta",
        "vta",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Import a vta_config.json of VTA instead of NAME or FILE.",
    )
    @reports_errors
    @wraps(inner)
    def wrapped(target: str | None, vta: Path | None, settings: tuple[str, ...], **kwargs: Any) -> None:
        if vta is None:
            inner(target=target or "default", settings=settings, **kwargs)
            return
        if target is not None:
            raise click.UsageError(f"{target} and --from-vta {vta} both name a configuration; give one")
        imported = read_vta(vta)
        for sentence in imported.ignored:
            click.echo(sentence, err=True)
        inner(target=VTA.name, settings=(*imported.settings, *settings), **kwargs)

    return wrapped


def _values(path: Path) -> dict[str, object]:
    """Return the keys and values of the file."""
    form = "write one JSON object, as VTA's config/vta_config.json does"
    try:
        values = json.loads(read_text(path), object_pairs_hook=lambda pairs: _distinct(path, pairs))
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}; {form}") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deeply for a vta_config.json; {form}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds {shown(values)}, which is not a JSON object; {form}")
    return values


def _distinct(path: Path, pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the pairs of a JSON object as a dictionary."""
    values: dict[str, object] = {}
    for key, value in pairs:
        if key in values:
            raise ConfigError(
                f"{path}: key {shown(key)} occurs twice, as {shown(values[key])} and as {shown(value)}; "
                "delete one of the two"
            )
        values[key] = value
    return values


def _check_names(path: Path, values: Mapping[str, object]) -> None:
    known = (*VTA_KEYS, "LOG_BLOCK", *DERIVED, *VTA_IGNORED)
    for key in values:
        if key not in known:
            raise ConfigError(
                f"{path}: key {shown(key)} is unknown; delete or correct it; there are {', '.join(known)}"
            )


def _exponent(path: Path, key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_EXPONENT:
        raise ConfigError(
            f"{path}: {key} = {shown(value)} is not a whole number in 0..{LARGEST_EXPONENT}; write the "
            "base-2 logarithm of the size"
        )
    return value


def _with_blocks(path: Path, exponents: Mapping[str, int]) -> dict[str, int]:
    """Return the values with LOG_BLOCK written as LOG_BLOCK_IN and LOG_BLOCK_OUT."""
    numbers = dict(exponents)
    if (block := numbers.pop("LOG_BLOCK", None)) is None:
        return numbers
    for key in BLOCKS:
        if numbers.setdefault(key, block) != block:
            raise ConfigError(
                f"{path}: {key} = {numbers[key]} contradicts LOG_BLOCK = {block}, which stands for "
                f"{' and '.join(BLOCKS)}; delete LOG_BLOCK or make them equal"
            )
    return numbers


def _check_complete(path: Path, numbers: Mapping[str, int]) -> None:
    missing = [key for key in VTA_KEYS if key not in numbers]
    if missing:
        blocks = "; LOG_BLOCK stands for both blocks" if {*BLOCKS} <= {*missing} else ""
        raise ConfigError(
            f"{path}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; add "
            f"{'it' if len(missing) == 1 else 'them'}, because the kit assumes no sizes{blocks}"
        )


def _check_supported(path: Path, key: str, exponent: int, parameter: str) -> None:
    """Refuse a value outside the range of its parameter."""
    allowed = list(_allowed(parameter))
    if exponent not in allowed:
        listed = ", ".join(map(str, allowed[:-1]))
        span = f"{listed} or {allowed[-1]}" if len(allowed) < 4 else f"{allowed[0]}..{allowed[-1]}"
        raise ConfigError(
            f"{path}: {key} = {exponent} means {parameter} = {1 << exponent}, which the kit cannot build; "
            f"{key} may be {span}"
        )


def _allowed(parameter: str) -> Iterator[int]:
    """Yield the base-2 logarithms of the values that a parameter may have."""
    limits = next(field.metadata for field in fields(AcceleratorConfig) if field.name == parameter)
    for exponent in range(LARGEST_EXPONENT + 1):
        value = 1 << exponent
        if value in limits["choices"] if limits["choices"] else limits["low"] <= value <= limits["high"]:
            yield exponent


def _check_derived(path: Path, numbers: Mapping[str, int]) -> None:
    for key, (formula, derive) in DERIVED.items():
        if key in numbers and numbers[key] != derive(numbers):
            raise ConfigError(
                f"{path}: {key} = {numbers[key]} differs from {formula} = {derive(numbers)}, the only value "
                f"that VTA and the kit build; delete {key} or correct it"
            )
