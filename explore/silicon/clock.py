"""Estimated clocks: from the slowest component of a core, with intervals from errors of routed designs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import log2

import numpy as np

from vdla.explore.silicon.grid import SHOWN
from vdla.explore.silicon.model import sized_components
from vdla.explore.silicon.periods import period_model, slopes
from vdla.explore.silicon.store import current_store
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import PRESETS

LEAST_DESIGNS = 2
"""Routed designs without which there is no estimate: one of them shows the error of the other."""


@dataclass(frozen=True, slots=True)
class ClockEstimate:
    """An estimated clock.

    Attributes:
        mhz: the estimate.
        low, high: `mhz` times the smallest and the largest quotient of routed and estimated clock of a routed
            design. Each design was estimated without itself.
        limited_by: the slowest component.
        extrapolated: the core is larger than every routed design.
    """

    mhz: float
    low: float
    high: float
    limited_by: str
    extrapolated: bool


@dataclass(frozen=True, slots=True)
class Core:
    """What the clock of a core is estimated from.

    Attributes:
        lut: of the core, estimated.
        ns: period of the slowest component, routed alone.
        limited_by: the slowest component.
    """

    lut: float
    ns: float
    limited_by: str


@dataclass(frozen=True, slots=True)
class RoutedDesign:
    """A design of the store that was routed.

    Attributes:
        digest: of its configuration.
        core: what its clock is estimated from.
        mhz: that it reaches.
    """

    digest: str
    core: Core
    mhz: float

    @property
    def ratio(self) -> float:
        """Its period over that of its slowest component."""
        return 1000 / self.mhz / self.core.ns


def estimated_clock(config: AcceleratorConfig, family: str) -> ClockEstimate | None:
    """Return an estimate of the clock; None where fewer than LEAST_DESIGNS others were routed on the family.

    The period is that of the slowest component, routed alone, times the ratio of the two in routed designs.
    A routed figure of `config` itself does not count, nor for the interval.

    Raises:
        ToolError: the store holds none of a kind of component.
    """
    core = _core(config, family)
    others = tuple(design for design in routed_designs(family) if design.digest != config.digest)
    if core is None or len(others) < LEAST_DESIGNS:
        return None
    mhz, errors = mhz_of(core, others), quotients(others)
    return ClockEstimate(
        mhz=round(mhz, 1),
        low=round(mhz * min(errors), 1),
        high=round(mhz * max(errors), 1),
        limited_by=core.limited_by,
        extrapolated=core.lut > max(design.core.lut for design in others),
    )


def mhz_of(core: Core, designs: Sequence[RoutedDesign]) -> float:
    """Return the clock of a core: its ratio is the mean of `designs`, and what doublings of the LUTs add."""
    sizes = np.array([[log2(design.core.lut)] for design in designs])
    ratios = np.array([design.ratio for design in designs])
    slope = slopes(sizes - sizes.mean(axis=0), ratios - ratios.mean())
    ratio = ratios.mean() + (log2(core.lut) - sizes.mean()) * slope[0]
    return 1000 / (core.ns * float(ratio))


@cache
def quotients(designs: tuple[RoutedDesign, ...]) -> tuple[float, ...]:
    """Return for each design its clock over the clock that the other designs let estimate."""
    return tuple(
        design.mhz / mhz_of(design.core, [other for other in designs if other is not design])
        for design in designs
    )


@cache
def routed_designs(family: str) -> tuple[RoutedDesign, ...]:
    """Return the routed designs of a family whose components were routed, too."""
    found = []
    for config in {config.digest: config for config in (*SHOWN, *PRESETS.values())}.values():
        entry = current_store().designs.get(family, {}).get(config.digest, {})
        core = _core(config, family) if "mhz" in entry else None
        if core is not None:
            found.append(RoutedDesign(config.digest, core, entry["mhz"]))
    return tuple(found)


def _core(config: AcceleratorConfig, family: str) -> Core | None:
    """Return what a clock is estimated from; None where no component was routed."""
    parts, periods = sized_components(config, family), period_model(family)
    slowest = max(((periods.ns(part), part.name) for part, _ in parts if periods.knows(part)), default=None)
    return None if slowest is None else Core(sum(size["lut"] for _, size in parts), *slowest)
