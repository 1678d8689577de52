"""Configuration files: TOML in the kit's own format, and VTA's JSON."""

import json
import sys
import tomllib
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from vdla.hw.spec.config import PARAMETER_NAMES, AcceleratorConfig, parameters, unknown_parameter
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.limits import read_at_most
from vdla.hw.spec.presets import PRESETS, VTA, preset
from vdla.hw.spec.showing import shown

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


VTA_KEYS = {
    "LOG_BATCH": "batch",
    "LOG_BLOCK_IN": "block_in",
    "LOG_BLOCK_OUT": "block_out",
    "LOG_INP_WIDTH": "inp_bits",
    "LOG_WGT_WIDTH": "wgt_bits",
    "LOG_ACC_WIDTH": "acc_bits",
    "LOG_UOP_BUFF_SIZE": "uop_buffer_bytes",
    "LOG_INP_BUFF_SIZE": "inp_buffer_bytes",
    "LOG_WGT_BUFF_SIZE": "wgt_buffer_bytes",
    "LOG_ACC_BUFF_SIZE": "acc_buffer_bytes",
}
"""The keys of VTA's JSON that set a parameter: its base-2 logarithm."""
VTA_DERIVED = ("LOG_OUT_WIDTH", "LOG_OUT_BUFF_SIZE")
"""Keys of older files whose value follows from the others."""
VTA_IGNORED = {
    "TARGET": "it names VTA's board or simulator; --device names the kit's",
    "HW_VER": "it names a version of VTA; streams of versions before 0.0.2 have another encoding",
    "HW_FREQ": "it is the clock of VTA's board in MHz; --set clock_mhz=N sets the kit's",
    "HW_CLK_TARGET": "it is the clock period that VTA's high-level synthesis aims at",
    "GEMM_II": "it is a setting of VTA's high-level synthesis; here GEMM starts a micro-op in each cycle",
    "TALU_II": "it is a setting of VTA's high-level synthesis; here --set alu_lanes=N sets the ALU's rate",
    "ACC_DEP_DISTANCE": "it is a setting of VTA's high-level synthesis; here sums are forwarded",
}
"""Keys without a meaning for the kit, each with the reason."""
LARGEST_EXPONENT = 30


def from_vta_json(text: str, filename: str = "<text>") -> AcceleratorConfig:
    """Return the configuration in VTA's JSON, with all extensions off.

    LOG_BLOCK stands for both LOG_BLOCK_IN and LOG_BLOCK_OUT. Keys in VTA_IGNORED have no meaning here.

    Raises:
        ConfigError: naming file, key, value and what is allowed.
    """
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{filename} is not JSON: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{filename} is nested too deeply for a configuration") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{filename} is not a JSON object")
    if "LOG_BLOCK" in values:
        block = values.pop("LOG_BLOCK")
        values = {"LOG_BLOCK_IN": block, "LOG_BLOCK_OUT": block, **values}
    changes = {
        VTA_KEYS[key]: _power(filename, key, value) for key, value in values.items() if _known(filename, key)
    }
    try:
        return VTA.with_changes(name=Path(filename).stem or "vta", **changes)
    except ConfigError as error:
        raise ConfigError(f"{filename}: {error}") from error


def _known(filename: str, key: str) -> bool:
    ignored = (*VTA_DERIVED, *VTA_IGNORED)
    if key not in VTA_KEYS and key not in ignored:
        known = ", ".join((*VTA_KEYS, "LOG_BLOCK", *ignored))
        raise ConfigError(f"{filename}: key {shown(key)} is unknown; there are {known}")
    return key in VTA_KEYS


def _power(filename: str, key: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST_EXPONENT:
        raise ConfigError(
            f"{filename}: {key} = {shown(value)} is not a whole number in 0..{LARGEST_EXPONENT}"
        )
    return 1 << value


def to_vta_json(config: AcceleratorConfig) -> str:
    """Return `config` as VTA's JSON.

    Raises:
        ConfigError: extensions are on, which VTA's JSON cannot say.
    """
    if config.extensions:
        raise ConfigError(
            f"extensions = {', '.join(config.extensions)} cannot be said in VTA's JSON; switch them off "
            "or write TOML"
        )
    values = {"TARGET": "sim", "HW_VER": "0.0.2"}
    values |= {key: getattr(config, parameter).bit_length() - 1 for key, parameter in VTA_KEYS.items()}
    if config.block_in == config.block_out:
        values["LOG_BLOCK"] = values.pop("LOG_BLOCK_IN")
        del values["LOG_BLOCK_OUT"]
    return json.dumps(values, indent=2) + "\n"


def apply_settings(config: AcceleratorConfig, settings: Iterable[str]) -> AcceleratorConfig:
    """Return `config` with the changes of all "key=value" texts in `settings`, applied together.

    Sizes may end in KiB or MiB; lists are separated by commas, and `none` is the empty one. A list whose
    elements begin with + or - is added to, and taken from, that of `config`: `extensions=+table,-depthwise`.

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
    """Return a list: `parts`, or `before` with those that begin with + and without those that begin with -.

    Raises:
        ConfigError: some parts begin so, and some do not; or one is to be taken away that is not there.
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
    found = [(one.name if isinstance(one, Enum) else str(one)).lower() for one in before]
    for part, sign in zip(parts, signs, strict=True):
        name = part[1:].strip().lower()
        if sign == "+":
            found += [] if name in found else [name]
        elif name in found:
            found.remove(name)
        else:
            raise ConfigError(
                f"{key} = {shown(','.join(parts))} takes {name!r} away, which is not there; there are "
                f"{', '.join(found) or 'none'}"
            )
    return tuple(found)


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
