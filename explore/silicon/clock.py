"""Estimated clocks: from the slowest component of a core, with intervals from errors of routed designs.

The period of a component follows from components of its kind that were routed alone. Every period is from one
placement, and another placement differs by five percent and more. A component that was routed itself
therefore counts as others of its kind do: its figure is no better than the model.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import log2

import numpy as np
from numpy.typing import NDArray

from vdla.explore.silicon.grid import SHOWN
from vdla.explore.silicon.model import sized_components
from vdla.explore.silicon.store import RoutedComponent, current_store
from vdla.hw.components import Component
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import PRESETS

LEAST_DESIGNS = 2
"""Routed designs without which there is no estimate: each shows the error of the estimate from the rest."""
Features = Mapping[str, float]


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
        """Its period over the period of its slowest component."""
        return 1000 / self.mhz / self.core.ns


def estimated_clock(config: AcceleratorConfig, family: str) -> ClockEstimate | None:
    """Return an estimate of the clock; None where fewer than LEAST_DESIGNS others were routed on the family.

    The period is the slowest component's, routed alone, times the ratio of the two in routed designs.
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
    designs = []
    for config in {config.digest: config for config in (*SHOWN, *PRESETS.values())}.values():
        entry = current_store().designs.get(family, {}).get(config.digest, {})
        core = _core(config, family) if "mhz" in entry else None
        if core is not None:
            designs.append(RoutedDesign(config.digest, core, entry["mhz"]))
    return tuple(designs)


def _core(config: AcceleratorConfig, family: str) -> Core | None:
    """Return what a clock is estimated from; None where no component was routed."""
    parts, periods = sized_components(config, family), period_model(family)
    slowest = max(((periods.ns(part), part.name) for part, _ in parts if periods.knows(part)), default=None)
    return None if slowest is None else Core(sum(size["lut"] for _, size in parts), *slowest)


@dataclass(frozen=True, slots=True)
class PathFeatures:
    """What the slowest path of a component depends on.

    Attributes:
        form: components of another form have another slowest path.
        widths: bits that lie side by side, whose doublings make the path slower: wires and choices grow.
    """

    form: bool
    widths: tuple[float, ...]

    @property
    def doublings(self) -> NDArray[np.float64]:
        """The logarithms of the widths to base 2; 0 for less than one bit."""
        return np.array([log2(max(1.0, width)) for width in self.widths])


def _pipeline(size: Features) -> PathFeatures:
    """Return the path features of a pipeline, whose slowest path is in the ALU if the ALU has one stage."""
    lane = max(size["shifts"], size["compares"], size["sums"])
    computes = bool(size["shifts"] or size["multipliers"])
    return PathFeatures(computes and not size["staged"], (lane, size["values"]))


PATHS: Mapping[str, Callable[[Features], PathFeatures]] = {
    "pipeline": _pipeline,
    "load_unit": lambda size: PathFeatures(False, (size["bus"], size["index"])),
    "loader": lambda size: PathFeatures(False, (size["bus"], size["wide"])),
    "store_unit": lambda size: PathFeatures(False, (size["bus"], size["kept"])),
}
"""What periods depend on, by kind. Other kinds have one period: the mean of all that were routed."""
PRIOR = 16.0
"""Weight of the expectation that a width does not matter, in measurements one doubling off the mean.

Of powers of two, the smallest beyond which the errors of routed designs shrink little.
"""


def slopes(rows: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the slopes of values over doublings by ridge regression, with the weight PRIOR.

    Args:
        rows: doublings, less their means; one row for each value.
        values: less their mean.
    """
    penalty = PRIOR * np.eye(rows.shape[1])
    return np.asarray(np.linalg.solve(rows.T @ rows + penalty, rows.T @ values), dtype=np.float64)


def _path_features(kind: str, features: Features) -> PathFeatures:
    return PATHS[kind](features) if kind in PATHS else PathFeatures(False, ())


@dataclass(frozen=True)
class KindPeriods:
    """The periods of one kind of component: the mean of each form, and what a doubling of a width adds.

    Attributes:
        routed: the routed components of the kind, at least one.
    """

    routed: Sequence[RoutedComponent]

    @cached_property
    def _forms(self) -> Mapping[bool, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """The doublings and periods of each form."""
        paths: dict[bool, list[tuple[NDArray[np.float64], float]]] = defaultdict(list)
        for component in self.routed:
            path = _path_features(component.kind, component.features)
            paths[path.form].append((path.doublings, component.ns))
        return {
            form: (np.array([row for row, _ in rows]), np.array([ns for _, ns in rows]))
            for form, rows in paths.items()
        }

    @cached_property
    def _slopes(self) -> NDArray[np.float64]:
        """What a doubling of each width adds in ns: by ridge regression within the forms."""
        forms = self._forms.values()
        rows = np.concatenate([rows - rows.mean(axis=0) for rows, _ in forms])
        periods = np.concatenate([periods - periods.mean() for _, periods in forms])
        return slopes(rows, periods)

    def ns(self, features: Features) -> float:
        """Return the period of a component with these features, in ns.

        A form that was not routed has the period of the slowest form.
        """
        path = _path_features(self.routed[0].kind, features)
        slowest = max(self._forms, key=lambda form: float(self._forms[form][1].mean()))
        rows, periods = self._forms.get(path.form, self._forms[slowest])
        return float(periods.mean() + (path.doublings - rows.mean(axis=0)) @ self._slopes)


class PeriodModel:
    """The periods of components on one family.

    Args:
        routed: the stored components that were routed alone.
    """

    def __init__(self, routed: Sequence[RoutedComponent]) -> None:
        kinds: dict[str, list[RoutedComponent]] = defaultdict(list)
        for component in routed:
            kinds[component.kind].append(component)
        self._kinds = {kind: KindPeriods(components) for kind, components in kinds.items()}

    def knows(self, component: Component) -> bool:
        """Return whether a component of its kind was routed."""
        return component.kind in self._kinds

    def ns(self, component: Component) -> float:
        """Return the period of a component of a kind that `knows` tells of, in ns."""
        return self._kinds[component.kind].ns(component.features)


@cache
def period_model(family: str) -> PeriodModel:
    """Return the model of what the store holds for a family."""
    return PeriodModel(current_store().routed.get(family, []))
