"""Area and clock of a configuration, for sweeps: stored figures, else estimates from components."""

from functools import cache

from vdla.explore.silicon.families import RESOURCES
from vdla.explore.silicon.families import family as family_called
from vdla.explore.silicon.grid import DESIGNS
from vdla.explore.silicon.model import FamilyModel
from vdla.explore.silicon.remembered import remembered
from vdla.explore.silicon.result import ESTIMATED, ROUTED, SYNTHESISED, Silicon
from vdla.explore.silicon.store import current_store
from vdla.explore.silicon.synthesis import area_of
from vdla.hw.components import components
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import PRESETS
from vdla.hw.spec.vocabulary import Extension

MAPPED_FOR_SPEED = 1.35
"""LUTs of the compute pipeline in a core that cannot requantise, over those that it needs without haste: it
then has the slowest path, on which abc9 spends LUTs. Fitted to one design, `CALIBRATION`."""


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
    parts = {component.name: model.size(component) for component in components(config)}
    total = {name: sum(size[name] for size in parts.values()) for name in RESOURCES}
    if family == "ecp5" and not config.has(Extension.REQUANTISE):
        total["lut"] += (MAPPED_FOR_SPEED - 1) * parts["compute_unit.pipeline"]["lut"]
    return {name: float(round(value, 1)) for name, value in total.items()}


@cache
def _model(family: str) -> FamilyModel:
    return FamilyModel(family, current_store().components.get(family, []))


def estimated_mhz(config: AcceleratorConfig, family: str) -> float | None:
    """Return an estimate of the clock; None where no design was routed on the family.

    The period is that of the slowest component, routed alone, times the mean ratio of the two in the routed
    designs. The design itself does not count among them.
    """
    slowest = _model(family).slowest_ns(components(config))
    ratios = [ratio for digest, ratio in _ratios(family) if digest != config.digest]
    if not slowest or not ratios:
        return None
    return round(1000 / (slowest * sum(ratios) / len(ratios)), 1)


@cache
def _ratios(family: str) -> tuple[tuple[str, float], ...]:
    """Return the period of each routed design over that of its slowest component."""
    designs = current_store().designs.get(family, {})
    known = {config.digest: config for config in (*DESIGNS, *PRESETS.values())}
    return tuple(
        (digest, 1000 / design["mhz"] / _model(family).slowest_ns(components(known[digest])))
        for digest, design in designs.items()
        if "mhz" in design and digest in known
    )
