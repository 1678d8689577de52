"""Targets in files and settings: parameters of the configuration, `clock_mhz`, `memory` and `energy`."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from vdla.hw.spec import files
from vdla.hw.spec.config import PARAMETER_NAMES, AcceleratorConfig
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.sdram import KINDS, AnyMemory, SdramParameters
from vdla.hw.spec.target import (
    ENERGY_NAMES,
    MEMORY_NAMES,
    SDRAM_NAMES,
    TARGETS,
    ClockSource,
    EnergyTable,
    Target,
)

CLOCK, CLOCK_SOURCE = "clock_mhz", "clock_source"
KIND, SDRAM = "kind", "sdram"
TABLES = {"memory": MEMORY_NAMES, "energy": ENERGY_NAMES}
SETTING_NAMES = (
    *PARAMETER_NAMES,
    CLOCK,
    CLOCK_SOURCE,
    *(f"{table}.{name}" for table, names in TABLES.items() for name in names),
)


def load(name_or_path: str | Path) -> Target:
    """Return the preset, or the target in the `.toml` or VTA `.json` file, of that name.

    Values that a file omits come from the preset `default`. A `.json` file describes the accelerator only.

    Raises:
        ConfigError: there is neither, or the file is not a target.
    """
    if str(name_or_path) in TARGETS:
        return TARGETS[str(name_or_path)]
    path = Path(name_or_path)
    if path.suffix != ".toml":
        return Target(files.load(path))
    return from_toml(files.read_text(path), str(path))


def target_of(value: Target | AcceleratorConfig | str | Path) -> Target:
    """Return a target as it is, a configuration with default surroundings, or what `load` finds."""
    if isinstance(value, Target):
        return value
    return Target(value) if isinstance(value, AcceleratorConfig) else load(value)


def to_toml(target: Target) -> str:
    """Return everything about `target` as TOML."""
    lines = [
        files.to_toml(target.config),
        f"{CLOCK} = {json.dumps(target.clock_mhz)}\n",
        f"{CLOCK_SOURCE} = {json.dumps(target.clock_source)}\n",
    ]
    for table in TABLES:
        values = asdict(getattr(target, table))
        if table == "memory" and isinstance(target.memory, SdramParameters):
            values = {KIND: SDRAM, **values}
        lines += [f"\n[{table}]\n", *(f"{key} = {json.dumps(value)}\n" for key, value in values.items())]
    return "".join(lines)


def from_toml(text: str, filename: str = "<text>") -> Target:
    """Return the target in `text`. Omitted values come from the preset `default`, with extensions off.

    Raises:
        ConfigError: naming file, parameter, value and what is allowed.
    """
    values = files.toml_values(text, filename)
    around = {name: values.pop(name) for name in (CLOCK, CLOCK_SOURCE, *TABLES) if name in values}
    try:
        return _changed(Target(AcceleratorConfig().with_changes(**values)), around)
    except ConfigError as error:
        raise ConfigError(f"{filename}: {error}") from error


def apply_settings(target: Target, settings: Iterable[str]) -> Target:
    """Return `target` with the changes of all "key=value" texts in `settings`, applied together.

    Keys are a configuration's parameters, `clock_mhz`, `clock_source`, `memory.NAME` and `energy.NAME`;
    `memory.kind=sdram` chooses an SDRAM, whose parameters are then the names of `memory`;
    values as `vdla.hw.spec.files.apply_settings` takes them. A clock without a source was given by the user.

    Raises:
        ConfigError: naming key, value and what is allowed.
    """
    config_settings: list[str] = []
    clock: dict[str, object] = {}
    tables: dict[str, dict[str, float | str]] = {}
    for setting in settings:
        key, separator, text = (part.strip() for part in setting.partition("="))
        table, _, name = key.partition(".")
        if separator and key == CLOCK:
            clock[CLOCK] = _real(key, text)
        elif separator and key == CLOCK_SOURCE:
            clock[CLOCK_SOURCE] = text
        elif separator and key == f"memory.{KIND}":
            tables.setdefault(table, {})[name] = text
        elif separator and name in (*TABLES.get(table, ()), *(SDRAM_NAMES if table == "memory" else ())):
            tables.setdefault(table, {})[name] = (
                files.whole_number(key, text) if table == "memory" else _real(key, text)
            )
        elif separator and key not in PARAMETER_NAMES:
            near = "".join(f"; the nearest is {name}" for name in get_close_matches(key, SETTING_NAMES, 1))
            names = ", ".join(SETTING_NAMES)
            raise ConfigError(f"target parameter {key!r} is unknown{near}; there are {names}")
        else:
            config_settings.append(setting)
    return _changed(
        replace(target, config=files.apply_settings(target.config, config_settings)), clock | tables
    )


def _changed(target: Target, around: Mapping[str, Any]) -> Target:
    """Return `target` with the changes of `around`: values by name, and of tables by name and name."""
    changes: dict[str, Any] = {
        name: _changed_table(target, name, value) if name in TABLES else value
        for name, value in around.items()
    }
    if changes.keys() & {CLOCK, CLOCK_SOURCE}:
        changes[CLOCK_SOURCE] = _source(changes.get(CLOCK_SOURCE, ClockSource.GIVEN))
    return replace(target, **changes)


def _source(value: object) -> ClockSource:
    if value not in tuple(ClockSource):
        raise ConfigError(f"{CLOCK_SOURCE} = {value!r} is unknown; there are {', '.join(ClockSource)}")
    return ClockSource(str(value))


def _changed_table(target: Target, table: str, values: object) -> AnyMemory | EnergyTable:
    if not isinstance(values, Mapping):
        raise ConfigError(
            f"{table} = {values!r} is not a table; write [{table}] and below it {', '.join(TABLES[table])}"
        )
    before: AnyMemory | EnergyTable = getattr(target, table)
    if table == "memory" and KIND in values:
        values = dict(values)
        before = _of_kind(target.memory, values.pop(KIND))
    names = [field.name for field in fields(before)]
    for name in values:
        if name not in names:
            raise ConfigError(f"parameter {f'{table}.{name}'!r} is unknown; there are {', '.join(names)}")
    return replace(before, **values)


def _of_kind(memory: AnyMemory, kind: object) -> AnyMemory:
    """Return a memory if it is of a kind, else that kind with its defaults."""
    if kind not in KINDS:
        raise ConfigError(f"memory.{KIND} = {kind!r} is unknown; there are {', '.join(KINDS)}")
    chosen = KINDS[str(kind)]
    return memory if isinstance(memory, chosen) else chosen()


def _real(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{key} = {text!r} is not a number") from None
