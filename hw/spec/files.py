"""Configuration files in TOML, the kit's own format, and settings of single parameters."""

import json
import sys
import tomllib
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from vdla.hw.spec.config import PARAMETER_NAMES, AcceleratorConfig, parameters, unknown_parameter
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.limits import read_at_most
from vdla.hw.spec.presets import PRESETS, preset
from vdla.hw.spec.showing import shown
from vdla.hw.spec.vta_json import from_vta_json

LARGEST_FILE_BYTES = 1 << 20
_SUFFIXES = {"KIB": 1 << 10, "K": 1 << 10, "MIB": 1 << 20, "M": 1 << 20}


def load(name_or_path: str | Path) -> AcceleratorConfig:
    """Return the preset, or the configuration in the `.toml` or `.json` file, of that name.

    Raises:
        ConfigError: there is neither, or the file is no configuration.
    """
    if str(name_or_path) in PRESETS:
        return preset(str(name_or_path))
    path = Path(name_or_path)
    readers = {".toml": from_toml, ".json": from_vta_json}
    if path.suffix not in readers:
        raise ConfigError(
            f"{name_or_path!s} is neither a preset ({', '.join(PRESETS)}) nor a .toml or .json file"
        )
    return readers[path.suffix](read_text(path), str(path))


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return read_at_most(path, LARGEST_FILE_BYTES, ConfigError).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def to_toml(config: AcceleratorConfig) -> str:
    """Return every parameter of `config` as TOML."""
    values = {"name": config.name, **parameters(config)}
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())


def from_toml(text: str, filename: str = "<text>") -> AcceleratorConfig:
    """Return the configuration in `text`; parameters that are not in it have their defaults.

    Raises:
        ConfigError: naming file, parameter, value and what is allowed.
    """
    values = toml_values(text, filename)
    try:
        return AcceleratorConfig().with_changes(**values)
    except ConfigError as error:
        raise ConfigError(f"{filename}: {error}") from error


def toml_reason(error: ValueError | RecursionError) -> str:
    """Return why a text is not TOML."""
    text = str(error)
    if text.startswith("Exceeds the limit"):  # Python's words name a function that no file can call
        return f"a number has more than {sys.get_int_max_str_digits():,} digits"
    return text or "it is nested too deeply"


def toml_values(text: str, filename: str) -> dict[str, object]:
    """Return the values in `text`.

    Raises:
        ConfigError: it is not TOML.
    """
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"{filename} is not TOML: {toml_reason(error)}") from error
    except RecursionError as error:
        raise ConfigError(f"{filename} is nested too deeply for a configuration") from error


def apply_settings(config: AcceleratorConfig, settings: Iterable[str]) -> AcceleratorConfig:
    """Return `config` with the changes of all "key=value" texts in `settings`, applied together.

    Sizes may end in KiB or MiB; lists are separated by commas, and `none` is the empty list. A list whose
    elements begin with + or - changes the list of `config`: `extensions=+table,-depthwise`.

    Raises:
        ConfigError: naming key, value and what is allowed.
    """
    changes: dict[str, object] = {}
    for setting in settings:
        key, separator, text = setting.partition("=")
        key = key.strip()
        if not separator:
            raise ConfigError(f"setting {shown(setting)} is not of the form key=value")
        if key not in PARAMETER_NAMES:
            raise unknown_parameter(key)
        changes[key] = _setting(changes.get(key, getattr(config, key)), key, text.strip())
    return config.with_changes(**changes)


def _setting(before: object, key: str, text: str) -> object:
    match before:
        case int():
            return whole_number(key, text)
        case tuple():
            parts = [part.strip() for part in text.split(",")]
            return () if text.lower() == "none" else _listed(before, key, parts)
        case _:
            return text


def _listed(before: tuple[object, ...], key: str, parts: list[str]) -> tuple[object, ...]:
    """Return a list: `parts`, or `before` with the parts that begin with + and without the parts after -.

    Raises:
        ConfigError: some parts begin so, and some do not; or a part is to be taken away that is not there.
    """
    signs = [part[:1] for part in parts]
    if not {"+", "-"} & {*signs}:
        return tuple(parts)
    plain = next((part for part, sign in zip(parts, signs, strict=True) if sign not in ("+", "-")), None)
    if plain is not None:
        raise ConfigError(
            f"{key} = {shown(','.join(parts))} changes the list by + and -, and names {plain!r} without; "
            "write + or - before each, or before none"
        )
    names = [(entry.name if isinstance(entry, Enum) else str(entry)).lower() for entry in before]
    for part, sign in zip(parts, signs, strict=True):
        name = part[1:].strip().lower()
        if sign == "+":
            names += [] if name in names else [name]
        elif name in names:
            names.remove(name)
        else:
            raise ConfigError(
                f"{key} = {shown(','.join(parts))} takes {name!r} away, which is not there; there are "
                f"{', '.join(names) or 'none'}"
            )
    return tuple(names)


def whole_number(key: str, text: str) -> int:
    """Return the integer that a setting's text states.

    Raises:
        ConfigError: it is not an integer.

    Raises:
        ConfigError: it is none.
    """
    digits = text.rstrip("KkMmIiBb")
    suffix = text[len(digits) :].upper()
    try:
        return int(digits, 0) * (_SUFFIXES[suffix] if suffix else 1)
    except (ValueError, KeyError):
        raise ConfigError(f"{key} = {shown(text)} is not a whole number (it may end in KiB or MiB)") from None
