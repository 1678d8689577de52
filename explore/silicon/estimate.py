"""Area and clock of a configuration for sweeps: stored figures, else estimates, with errors."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from vdla.explore.silicon.clock import estimated_clock
from vdla.explore.silicon.families import RESOURCES
from vdla.explore.silicon.families import family as family_called
from vdla.explore.silicon.grid import SHOWN
from vdla.explore.silicon.model import family_model, sized_components
from vdla.explore.silicon.remembered import remembered
from vdla.explore.silicon.result import ESTIMATED, EXTRAPOLATED, ROUTED, SYNTHESISED, Silicon
from vdla.explore.silicon.store import current_store
from vdla.explore.silicon.synthesis import area_of
from vdla.hw.spec.config import AcceleratorConfig


def silicon_of(config: AcceleratorConfig, family: str = "ecp5", *, exact: bool = False) -> Silicon:
    """Return area and clock of a core.

    A design that was measured, for the shipped store or on this machine, has its measured figures. For
    others, area is the sum of the components: stored figures, or estimates by the linear model of their kind.
    Their clock is estimated from the slowest component. Nothing is synthesised, except with `exact`.

    Args:
        config: the accelerator.
        family: one of `FAMILIES`.
        exact: synthesise the whole core unless that was done; takes minutes.

    Raises:
        ConfigError: there is no such family.
        ToolError: the store is empty for this hardware; with `exact`, Yosys is missing or fails.
    """
    family_called(family)
    known = remembered(config, family) | current_store().designs.get(family, {}).get(config.digest, {})
    if exact and "lut" not in known:
        area = area_of(config, family)
        known |= {resource: getattr(area, resource) for resource in RESOURCES}
    measured = "lut" in known
    sizes = {name: float(known[name]) for name in RESOURCES} if measured else estimated_area(config, family)
    silicon = Silicon(sizes["lut"], sizes["ff"], sizes["dsp"], sizes["block_ram"])
    clock = _routed(known) if "mhz" in known else _estimated(config, family)
    return replace(silicon, **clock, area=SYNTHESISED if measured else ESTIMATED)


def _routed(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a clock that was routed."""
    mhz = float(known["mhz"])
    return {
        "mhz": mhz,
        "mhz_low": mhz,
        "mhz_high": mhz,
        "limited_by": ", ".join(known["path"]["units"]),
        "clock": ROUTED,
    }


def _estimated(config: AcceleratorConfig, family: str) -> dict[str, Any]:
    """Return the fields of an estimated clock; none where there is no estimate."""
    estimate = estimated_clock(config, family)
    if estimate is None:
        return {}
    return {
        "mhz": estimate.mhz,
        "mhz_low": estimate.low,
        "mhz_high": estimate.high,
        "limited_by": estimate.limited_by,
        "clock": EXTRAPOLATED if estimate.extrapolated else ESTIMATED,
    }


def estimated_area(config: AcceleratorConfig, family: str) -> dict[str, float]:
    """Return the sum of the components of a core.

    Raises:
        ToolError: the store holds none of a kind.
    """
    sizes = [size for _, size in sized_components(config, family)]
    return {name: float(round(sum(size[name] for size in sizes), 1)) for name in RESOURCES}


def stored_share(config: AcceleratorConfig, family: str) -> float:
    """Return the part of a core's LUTs (0 to 1) in components that the store holds with equal parameters.

    Raises:
        ToolError: the store holds none of a kind.
    """
    parts, model = sized_components(config, family), family_model(family)
    held = sum(size["lut"] for part, size in parts if model.holds(part))
    return held / sum(size["lut"] for _, size in parts)


@dataclass(frozen=True, slots=True)
class EstimateError:
    """The error of an estimated figure.

    Attributes:
        worst: the largest difference of a measured figure to its estimate, in parts of the estimate.
        designs: that were measured.
    """

    worst: float
    designs: int


@cache
def area_errors(family: str) -> Mapping[str, EstimateError]:
    """Return the errors of estimated areas by resource, over the synthesised designs of the store; empty
    where it has none.

    Args:
        family: one of `FAMILIES`.
    """
    known = current_store().designs.get(family, {})
    designs = [(config, known[config.digest]) for config in SHOWN if "lut" in known.get(config.digest, {})]
    pairs = [(estimated_area(config, family), entry) for config, entry in designs]
    return {
        name: EstimateError(_worst([(guess[name], float(entry[name])) for guess, entry in pairs]), len(pairs))
        for name in RESOURCES
        if pairs
    }


def _worst(pairs: list[tuple[float, float]]) -> float:
    """Return the largest error of pairs of estimate and measurement."""
    return max(abs(real / guess - 1) if guess else 0.0 for guess, real in pairs)
