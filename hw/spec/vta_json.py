"""VTA's `vta_config.json`: base-2 logarithms of the sizes of a configuration without extensions.

Source: `config/vta_config.json` and `config/pkg_config.py` of VTA's repository, and the older files of TVM.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from vdla.hw.spec.config import AcceleratorConfig, parameters
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.presets import VTA
from vdla.hw.spec.showing import shown

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
BLOCKS = ("LOG_BLOCK_IN", "LOG_BLOCK_OUT")
VTA_DERIVED: dict[str, tuple[str, Callable[[Mapping[str, int]], int]]] = {
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


def read_vta(text: str, filename: str) -> VtaImport:
    """Return the configuration in a `vta_config.json` that states all of it, without a contradiction.

    Raises:
        ConfigError: naming file, key, value and what is allowed.
    """
    values = _values(filename, text)
    numbers = _with_blocks(filename, _exponents(filename, values))
    _check_complete(filename, numbers)
    for key, parameter in VTA_KEYS.items():
        _check_supported(filename, key, numbers[key], parameter)
    _check_derived(filename, numbers)
    ignored = (
        f"{filename}: {key} = {shown(value)} is ignored: {VTA_IGNORED[key]}"
        for key, value in values.items()
        if key in VTA_IGNORED
    )
    return VtaImport(_configuration(filename, numbers), tuple(ignored))


def from_vta_json(text: str, filename: str = "<text>") -> AcceleratorConfig:
    """Return the configuration in VTA's JSON, with all extensions off.

    Omitted parameters have VTA's defaults. LOG_BLOCK stands for LOG_BLOCK_IN and LOG_BLOCK_OUT where they are
    omitted. Keys in VTA_IGNORED have no meaning here.

    Raises:
        ConfigError: naming file, key, value and what is allowed.
    """
    exponents = _exponents(filename, _values(filename, text))
    block = exponents.pop("LOG_BLOCK", None)
    both = {} if block is None else dict.fromkeys(BLOCKS, block)
    return _configuration(filename, {**both, **exponents})


def _configuration(filename: str, exponents: Mapping[str, int]) -> AcceleratorConfig:
    changes = {VTA_KEYS[key]: 1 << exponent for key, exponent in exponents.items() if key in VTA_KEYS}
    try:
        return VTA.with_changes(name=Path(filename).stem or "vta", **changes)
    except ConfigError as error:
        raise ConfigError(f"{filename}: {error}") from error


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


def _values(filename: str, text: str) -> dict[str, object]:
    """Return the keys and values of the file."""
    form = "write one JSON object, as VTA's config/vta_config.json does"
    try:
        values = json.loads(text, object_pairs_hook=lambda pairs: _distinct(filename, pairs))
    except ValueError as error:
        raise ConfigError(f"{filename} is not JSON: {error}; {form}") from error
    except RecursionError as error:
        raise ConfigError(f"{filename} is nested too deeply for a vta_config.json; {form}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{filename} holds {shown(values)}, which is not a JSON object; {form}")
    return values


def _distinct(filename: str, pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the pairs of a JSON object as a dictionary."""
    values: dict[str, object] = {}
    for key, value in pairs:
        if key in values:
            raise ConfigError(
                f"{filename}: key {shown(key)} occurs twice, as {shown(values[key])} and as {shown(value)}; "
                "delete one of the two"
            )
        values[key] = value
    return values


def _exponents(filename: str, values: Mapping[str, object]) -> dict[str, int]:
    """Return the values of the keys that have a meaning here."""
    known = (*VTA_KEYS, "LOG_BLOCK", *VTA_DERIVED, *VTA_IGNORED)
    for key, value in values.items():
        if key not in known:
            raise ConfigError(
                f"{filename}: key {shown(key)} is unknown; delete or correct it; there are {', '.join(known)}"
            )
        if key not in VTA_IGNORED and (type(value) is not int or not 0 <= value <= LARGEST_EXPONENT):
            raise ConfigError(
                f"{filename}: {key} = {shown(value)} is not a whole number in 0..{LARGEST_EXPONENT}; write "
                "the base-2 logarithm of the size"
            )
    return {key: value for key, value in values.items() if isinstance(value, int) and key not in VTA_IGNORED}


def _with_blocks(filename: str, exponents: Mapping[str, int]) -> dict[str, int]:
    """Return the values with LOG_BLOCK written as LOG_BLOCK_IN and LOG_BLOCK_OUT."""
    numbers = dict(exponents)
    if (block := numbers.pop("LOG_BLOCK", None)) is None:
        return numbers
    for key in BLOCKS:
        if numbers.setdefault(key, block) != block:
            raise ConfigError(
                f"{filename}: {key} = {numbers[key]} contradicts LOG_BLOCK = {block}, which stands for "
                f"{' and '.join(BLOCKS)}; delete LOG_BLOCK or make them equal"
            )
    return numbers


def _check_complete(filename: str, numbers: Mapping[str, int]) -> None:
    missing = [key for key in VTA_KEYS if key not in numbers]
    if missing:
        blocks = "; LOG_BLOCK stands for both blocks" if {*BLOCKS} <= {*missing} else ""
        raise ConfigError(
            f"{filename}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; add "
            f"{'it' if len(missing) == 1 else 'them'}, because the kit assumes no sizes{blocks}"
        )


def _check_supported(filename: str, key: str, exponent: int, parameter: str) -> None:
    """Refuse a value outside the range of its parameter."""
    allowed = list(_allowed(parameter))
    if exponent not in allowed:
        listed = ", ".join(map(str, allowed[:-1]))
        span = f"{listed} or {allowed[-1]}" if len(allowed) < 4 else f"{allowed[0]}..{allowed[-1]}"
        raise ConfigError(
            f"{filename}: {key} = {exponent} means {parameter} = {1 << exponent}, which the kit cannot "
            f"build; {key} may be {span}"
        )


def _allowed(parameter: str) -> Iterator[int]:
    """Yield the base-2 logarithms of the values that a parameter may have."""
    limits = next(field.metadata for field in fields(AcceleratorConfig) if field.name == parameter)
    for exponent in range(LARGEST_EXPONENT + 1):
        value = 1 << exponent
        if value in limits["choices"] if limits["choices"] else limits["low"] <= value <= limits["high"]:
            yield exponent


def _check_derived(filename: str, numbers: Mapping[str, int]) -> None:
    for key, (formula, derive) in VTA_DERIVED.items():
        if key in numbers and numbers[key] != derive(numbers):
            raise ConfigError(
                f"{filename}: {key} = {numbers[key]} differs from {formula} = {derive(numbers)}, the only "
                f"value that VTA and the kit build; delete {key} or correct it"
            )
