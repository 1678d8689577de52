"""Area and clock of a configuration, for sweeps: stored figures, else estimates from components."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import log

import numpy as np

from vdla.explore.silicon.families import RESOURCES
from vdla.explore.silicon.families import family as family_called
from vdla.explore.silicon.grid import SHOWN
from vdla.explore.silicon.model import FamilyModel
from vdla.explore.silicon.remembered import remembered
from vdla.explore.silicon.result import ESTIMATED, ROUTED, SYNTHESISED, Silicon
from vdla.explore.silicon.store import current_store
from vdla.explore.silicon.synthesis import area_of
from vdla.hw.components import components
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import PRESETS

LINE_POINTS = 3
"""Routed designs from which a line is drawn; of fewer, the mean is taken."""


@dataclass(frozen=True, slots=True)
class RoutedDesign:
    """A design of the store that was routed.

    Attributes:
        digest: of its configuration.
        lut: estimated.
        ratio: of its period to that of its slowest component.
    """

    digest: str
    lut: float
    ratio: float


def silicon_of(config: AcceleratorConfig, family: str = "ecp5", *, exact: bool = False) -> Silicon:
    """Return area and clock of a core.

    A design that was measured, for the shipped store or on this machine, has its measured figures. For
    others, area is the sum of the components: stored ones, or by the linear model of their kind. Their clock
    is estimated from the slowest component. Nothing is synthesised, except with `exact`.

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
    return Silicon(
        **sizes,
        mhz=float(known["mhz"]) if "mhz" in known else estimated_mhz(config, family),
        area=SYNTHESISED if measured else ESTIMATED,
        clock=ROUTED if "mhz" in known else ESTIMATED,
    )


def estimated_area(config: AcceleratorConfig, family: str) -> dict[str, float]:
    """Return the sum of the components of a core.

    Raises:
        ToolError: the store holds none of a kind.
    """
    model = _model(family)
    sizes = [model.size(component) for component in components(config)]
    return {name: float(round(sum(size[name] for size in sizes), 1)) for name in RESOURCES}


def stored_share(config: AcceleratorConfig, family: str) -> float:
    """Return the part of a core's LUTs (0 to 1) in components that the store holds with equal parameters.

    Raises:
        ToolError: the store holds none of a kind.
    """
    model, parts = _model(family), components(config)
    sizes = [model.size(part)["lut"] for part in parts]
    return sum(size for size, part in zip(sizes, parts, strict=True) if model.holds(part)) / sum(sizes)


@cache
def _model(family: str) -> FamilyModel:
    return FamilyModel(family, current_store().components.get(family, []))


def estimated_mhz(config: AcceleratorConfig, family: str) -> float | None:
    """Return an estimate of the clock; None where no other design was routed on the family.

    The period is that of the slowest component, routed alone, times the ratio of the two in routed designs,
    which grows with the core. The design itself does not count.
    """
    slowest = _model(family).slowest_ns(components(config))
    others = [design for design in _routed(family) if design.digest != config.digest]
    if not slowest or not others:
        return None
    return round(1000 / (slowest * _ratio(others, estimated_area(config, family)["lut"])), 1)


def _ratio(designs: Sequence[RoutedDesign], lut: float) -> float:
    """Return the ratio of a core's size: from a line over the logarithm of the size, by least squares."""
    sizes, ratios = zip(*((log(design.lut), design.ratio) for design in designs), strict=True)
    line = np.polyfit(sizes, ratios, 1 if len(designs) >= LINE_POINTS else 0)
    return float(np.polyval(line, log(lut)))


@cache
def _routed(family: str) -> tuple[RoutedDesign, ...]:
    """Return the routed designs of a family whose components were routed, too."""
    found = []
    for config in {config.digest: config for config in (*SHOWN, *PRESETS.values())}.values():
        design = current_store().designs.get(family, {}).get(config.digest, {})
        slowest = _model(family).slowest_ns(components(config)) if "mhz" in design else 0.0
        if slowest:
            lut = estimated_area(config, family)["lut"]
            found.append(RoutedDesign(config.digest, lut, 1000 / design["mhz"] / slowest))
    return tuple(found)
