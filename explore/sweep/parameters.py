"""The parameters of a target by name, as `--set` takes them: their kinds, values, and texts for settings."""

from vdla.explore.sweep.errors import SweepError, unknown
from vdla.hw.spec.config import PARAMETER_NAMES
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.files import whole_number
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.showing import shown
from vdla.hw.spec.target import Target
from vdla.hw.spec.target_files import CLOCK, CLOCK_SOURCE, SETTING_NAMES, TABLES, apply_settings

Value = int | float | str
LARGEST_REAL = 1e300
NAMES = tuple(name for name in SETTING_NAMES if name not in ("name", CLOCK_SOURCE))
"""Parameters that a sweep can change: all but labels."""
LISTS = tuple(name for name in PARAMETER_NAMES if isinstance(getattr(DEFAULT, name), tuple))
REALS = (CLOCK, *(f"energy.{name}" for name in TABLES["energy"]))


def require_name(name: str) -> None:
    """Refuse a parameter that no target has.

    Raises:
        SweepError: with the nearest name.
    """
    if name not in NAMES:
        raise unknown("parameter", name, NAMES)


def checked(name: str, value: object) -> Value:
    """Return a value of a specification in the kind of its parameter: sizes such as "64KiB" as numbers.

    Raises:
        SweepError: it is not of that kind.
    """
    if name in LISTS:
        if isinstance(value, str):
            return value
        raise SweepError(
            f'parameters.{name} = {shown(value)} is not text, such as "none" or names with commas between'
        )
    if isinstance(value, str) and name not in REALS:
        try:
            return whole_number(name, value)
        except ConfigError as error:
            raise SweepError(f"parameters.{error}") from error
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SweepError(f"parameters.{name} = {shown(value)} is not a number")
    if name not in REALS:
        return plain(value)
    if abs(value) > LARGEST_REAL:  # a whole number may be too large for a float
        raise SweepError(f"parameters.{name} = {shown(value)} is beyond {LARGEST_REAL:g}")
    return float(value)


def plain(value: int | float) -> int | float:
    """Return a number that is whole as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def value_of(target: Target, name: str) -> Value:
    """Return the value of a parameter of `NAMES` in a target; lists as text."""
    table, _, field = name.partition(".")
    if field:
        record = target.estimated_memory if table == "memory" else getattr(target, table)
        field_value: Value = getattr(record, field)
        return field_value
    value = target.clock_mhz if name == CLOCK else getattr(target.config, name)
    return ",".join(member.name for member in value) or "none" if isinstance(value, tuple) else value


def with_values(base: Target, values: dict[str, Value]) -> Target:
    """Return a target with parameters changed.

    Raises:
        ConfigError: the values do not make a target.
    """
    return apply_settings(base, settings(values))


def settings(values: dict[str, Value]) -> list[str]:
    """Return values as `--set` takes them."""
    return [f"{name}={value}" for name, value in values.items()]
