"""The size of a component: what is stored for it, else a linear model of its kind fitted to the store."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from vdla.explore.silicon.families import RESOURCES
from vdla.explore.silicon.memory_blocks import blocks, memory_features
from vdla.explore.silicon.store import Measured, current_store, key_of
from vdla.hw.components import Component, MemoryShape, components
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ToolError


@dataclass(frozen=True)
class KindModel:
    """A linear model of one kind of component, by least squares.

    Where the store holds fewer components than there are features, the smallest coefficients that fit are
    taken, in features scaled to their largest stored value.

    Attributes:
        measured: the stored components of the kind.
    """

    measured: Sequence[Measured]

    @cached_property
    def _features(self) -> tuple[str, ...]:
        return tuple(sorted({name for one in self.measured for name in one.features}))

    @cached_property
    def _scales(self) -> NDArray[np.float64]:
        largest = [max(abs(one.features[name]) for one in self.measured) for name in self._features]
        return np.array([1.0, *(value or 1.0 for value in largest)])

    @cached_property
    def _coefficients(self) -> NDArray[np.float64]:
        rows = np.array([self._row(one.features) for one in self.measured])
        sizes = np.array([[one.resources[name] for name in RESOURCES] for one in self.measured])
        fitted: NDArray[np.float64] = np.linalg.lstsq(rows, sizes, rcond=1e-9)[0]
        return fitted

    def _row(self, features: Mapping[str, float]) -> NDArray[np.float64]:
        row: NDArray[np.float64] = np.array([1.0, *(float(features[name]) for name in self._features)])
        return row / self._scales

    def size(self, features: Mapping[str, float]) -> dict[str, float]:
        """Return the resources of a component with these features; none is negative, DSPs are whole."""
        sizes = dict(zip(RESOURCES, map(float, self._row(features) @ self._coefficients), strict=True))
        return {
            **{name: max(0.0, size) for name, size in sizes.items()},
            "dsp": max(0.0, round(sizes["dsp"])),
        }


class FamilyModel:
    """The sizes of components on one family.

    Args:
        family: one of `FAMILIES`.
        measured: the stored components.
    """

    def __init__(self, family: str, measured: Sequence[Measured]) -> None:
        self.family = family
        self._exact = {one.key: one.resources for one in measured}
        kinds: dict[str, list[Measured]] = defaultdict(list)
        for one in measured:
            shapes = [MemoryShape(*figures) for figures in one.memories]
            features = {**one.features, **memory_features(family, shapes)}
            kinds[one.kind].append(replace(one, features=features))
        self._kinds = {kind: KindModel(found) for kind, found in kinds.items()}

    def size(self, component: Component) -> Mapping[str, float]:
        """Return the resources of a component.

        Raises:
            ToolError: the store holds no component of its kind.
        """
        stored = self._exact.get(key_of(component))
        if stored is not None:
            return stored
        if component.kind not in self._kinds:
            raise ToolError(
                f"no {component.kind} of this hardware has been synthesised for {self.family}; "
                "make area measures it (explore/silicon/store.json)"
            )
        fitted = self._kinds[component.kind].size(self._features(component))
        return {**fitted, "block_ram": sum(blocks(self.family, memory) for memory in component.memories)}

    def holds(self, component: Component) -> bool:
        """Return whether a component with equal features and memories is stored."""
        return key_of(component) in self._exact

    def _features(self, component: Component) -> dict[str, float]:
        """Return the features of a component, with those of its memories on this family."""
        return {**component.features, **memory_features(self.family, component.memories)}


RECENT = 64
"""Configurations whose components are kept: area and clock are asked for one after the other."""


@lru_cache(RECENT)
def sized_components(
    config: AcceleratorConfig, family: str
) -> tuple[tuple[Component, Mapping[str, float]], ...]:
    """Return the components of a core, each with its resources.

    Raises:
        ToolError: the store holds none of a kind.
    """
    model = family_model(family)
    return tuple((part, model.size(part)) for part in components(config))


@cache
def family_model(family: str) -> FamilyModel:
    """Return the model of what the store holds for a family."""
    return FamilyModel(family, current_store().components.get(family, []))
