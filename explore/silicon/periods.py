"""The period of a component, from components of its kind that were routed alone.

Every period is that of one placement, and another placement differs by five percent and more. A component
that was routed itself therefore counts as others of its kind do: its figure is no better than the model.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import log2

import numpy as np
from numpy.typing import NDArray

from vdla.explore.silicon.store import RoutedComponent, current_store
from vdla.hw.components import Component

Features = Mapping[str, float]


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
    """Return those of a pipeline. With an ALU of one stage, the path through it is the slowest."""
    lane = max(size["shifts"], size["compares"], size["sums"])
    computes = bool(size["shifts"] or size["multipliers"])
    return PathFeatures(computes and not size["staged"], (lane, size["values"]))


PATHS: Mapping[str, Callable[[Features], PathFeatures]] = {
    "pipeline": _pipeline,
    "load_unit": lambda size: PathFeatures(False, (size["bus"], size["index"])),
    "loader": lambda size: PathFeatures(False, (size["bus"], size["wide"])),
    "store_unit": lambda size: PathFeatures(False, (size["bus"], size["kept"])),
}
"""What periods depend on, by kind. Other kinds have one period: the mean of those that were routed."""

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
        found: dict[bool, list[tuple[NDArray[np.float64], float]]] = defaultdict(list)
        for one in self.routed:
            path = _path_features(one.kind, one.features)
            found[path.form].append((path.doublings, one.ns))
        return {
            form: (np.array([row for row, _ in rows]), np.array([ns for _, ns in rows]))
            for form, rows in found.items()
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

        Of a form that was not routed, it is that of the slowest form.
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
        for one in routed:
            kinds[one.kind].append(one)
        self._kinds = {kind: KindPeriods(found) for kind, found in kinds.items()}

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
