"""The size of a component: what is stored for it, else a linear model of its kind fitted to the store.

The model follows the choice that Yosys makes between block RAM and LUT RAM, as far as it was observed. Yosys
compares the costs of LUT RAM and of block RAM, and takes the block mode that needs fewest blocks.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from vdla.explore.silicon.families import RESOURCES
from vdla.explore.silicon.store import Measured, current_store, key_of
from vdla.hw.components import Component, MemoryShape, components
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ToolError

ENABLE_BITS = 9
LUTS_OF_LUT_RAM = 4
ECP5_LUT_RAMS_PER_BLOCK = 23
# measured memories of up to so many LUT RAMs became LUT RAM, and memories of 44 and more block RAM
XC7_LUT_RAMS_PER_BLOCK = 26


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
        return tuple(sorted({name for component in self.measured for name in component.features}))

    @cached_property
    def _scales(self) -> NDArray[np.float64]:
        largest = [
            max(abs(component.features[name]) for component in self.measured) for name in self._features
        ]
        return np.array([1.0, *(value or 1.0 for value in largest)])

    @cached_property
    def _coefficients(self) -> NDArray[np.float64]:
        rows = np.array([self._row(component.features) for component in self.measured])
        sizes = np.array([[component.resources[name] for name in RESOURCES] for component in self.measured])
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
        self._exact = {component.key: component.resources for component in measured}
        kinds: dict[str, list[Measured]] = defaultdict(list)
        for component in measured:
            shapes = [MemoryShape(*figures) for figures in component.memories]
            features = {**component.features, **memory_features(family, shapes)}
            kinds[component.kind].append(replace(component, features=features))
        self._kinds = {kind: KindModel(kind_components) for kind, kind_components in kinds.items()}

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
        """Return the features of a component, with the features of its memories on this family."""
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


@dataclass(frozen=True, slots=True)
class BlockKind:
    """The memories of a family.

    Attributes:
        modes: width and depth of a block, and what it counts.
        lut_bits, lut_depth: of one LUT RAM.
        luts_per_block: a memory of at most so many LUT RAMs for each block it would take is made of LUT RAM.
        bank_luts: for each bit, that add another LUT RAM to the LUT RAMs from which a word is read.
    """

    modes: tuple[tuple[int, int, float], ...]
    lut_bits: int
    lut_depth: int
    luts_per_block: float
    bank_luts: float


_NARROW = ((36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384))
KINDS: Mapping[str, BlockKind] = {
    "ecp5": BlockKind(
        tuple((bits, depth, 1.0) for bits, depth in _NARROW), 4, 16, ECP5_LUT_RAMS_PER_BLOCK, 1
    ),
    "xc7": BlockKind(
        (
            *((bits, depth, 0.5) for bits, depth in _NARROW),
            *((2 * bits, depth, 1.0) for bits, depth in _NARROW),
            (1, 32768, 1.0),
        ),
        6,
        32,
        XC7_LUT_RAMS_PER_BLOCK,
        0,
    ),
}


def blocks(family: str, memory: MemoryShape) -> float:
    """Return the block RAMs of a memory; 0 where LUT RAM holds it."""
    kind = KINDS[family]
    needed = min(
        _columns(memory, bits) * ceil(memory.depth / depth) * size for bits, depth, size in kind.modes
    )
    return 0.0 if _lut_rams(kind, memory) <= kind.luts_per_block * needed else needed


def memory_features(family: str, memories: Iterable[MemoryShape]) -> dict[str, float]:
    """Return what the LUTs of a component depend on in its memories.

    Returns:
        `lut_ram`: LUTs of LUT RAM.
    """
    kind = KINDS[family]
    small = [memory for memory in memories if not blocks(family, memory)]
    return {
        "lut_ram": sum(
            LUTS_OF_LUT_RAM * _lut_rams(kind, memory)
            + kind.bank_luts * memory.bits * (ceil(memory.depth / kind.lut_depth) - 1)
            for memory in small
        ),
    }


def _lut_rams(kind: BlockKind, memory: MemoryShape) -> int:
    return ceil(memory.bits / kind.lut_bits) * ceil(memory.depth / kind.lut_depth)


def _columns(memory: MemoryShape, bits: int) -> int:
    """Return the blocks side by side. Modes of 9 bits and more write units of 9 bits alone."""
    if memory.lanes == 1:
        return ceil(memory.bits / bits)
    lane = memory.bits // memory.lanes
    if bits < ENABLE_BITS:
        return memory.lanes * ceil(lane / bits)
    return ceil(memory.lanes * ENABLE_BITS * ceil(lane / ENABLE_BITS) / bits)
