"""Checks of the parameters by which values share hardware: lanes of units, and multipliers."""

from typing import TYPE_CHECKING

from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.vocabulary import Extension

if TYPE_CHECKING:
    from vdla.hw.spec.config import AcceleratorConfig


def check_sharing(config: "AcceleratorConfig") -> None:
    """Refuse lanes and packed multipliers that the configuration has no use for.

    Raises:
        ConfigError: naming the parameter, its value and the limit.
    """
    _check_alu_lanes(config)
    _check_packed(config)
    _check_requantise_lanes(config)


def _check_packed(config: "AcceleratorConfig") -> None:
    if config.packed and config.block_out == 1:
        raise ConfigError(
            f"packed = {config.packed} needs two columns and block_out is 1; set packed = 0, or widen it"
        )


def _check_requantise_lanes(config: "AcceleratorConfig") -> None:
    lanes, least, most = config.requantise_lanes, max(1, 8 // config.out_bits), config.most_requantise_lanes
    if lanes and not config.has(Extension.REQUANTISE):
        raise ConfigError(
            f"requantise_lanes = {lanes} needs the extension requantise; turn it on, or set "
            "requantise_lanes = 0"
        )
    if lanes and not least <= lanes <= most:
        raise ConfigError(
            f"requantise_lanes = {lanes} is outside {least}..{most}: a read gives whole bytes of outputs, at "
            "most a beat or an element"
        )


def _check_alu_lanes(config: "AcceleratorConfig") -> None:
    if config.alu_lanes > config.block_out:
        raise ConfigError(
            f"alu_lanes = {config.alu_lanes} is more than block_out = {config.block_out}; it must be at most "
            "block_out, or 0 for all columns"
        )
