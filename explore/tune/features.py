"""Features of the choices for a task: what its lowered program moves, computes and waits for.

They come from the closed forms of the compiler's estimate, for all choices at once, so that no program is
lowered to be judged. Most are logarithms relative to the least that the task needs, so that a model trained
on some tasks and targets serves others. Source of the kinds: Chen et al., "Learning to Optimize Tensor
Programs", NeurIPS 2018, section 3.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.estimate import Costs, costs_of
from vdla.compiler.codegen.space import ChoiceFamily, ChoiceSpace
from vdla.compiler.codegen.tiles import INPUTS, LOOPS, OUTPUTS, ROWS, WEIGHTS, TileFootprint
from vdla.compiler.tasks.base import Choice
from vdla.hw.spec.vocabulary import MemoryType

FloatArray = NDArray[np.float64]
UNKNOWN = 1.0  # estimate of tasks that have none


@dataclass(frozen=True, eq=False)
class SpacePoints:
    """The choices of a space as points of a search."""

    space: ChoiceSpace

    def __len__(self) -> int:
        return len(self.space)

    @property
    def knobs(self) -> NDArray[np.int64]:
        """int64[n, k], as `ChoiceSpace.knobs`."""
        return self.space.knobs

    @cached_property
    def features(self) -> FloatArray:
        """float64[n, FEATURES]."""
        columns = {name: np.concatenate([table[name] for table in self._tables]) for name in FEATURES}
        return np.stack(list(columns.values()), axis=1)

    @cached_property
    def estimates(self) -> FloatArray:
        """float64[n]: cycles by the compiler's estimate; 1 for tasks that are no convolutions."""
        return np.concatenate([family_estimates(family) for family in self.space.families])

    @cached_property
    def _tables(self) -> list[dict[str, FloatArray]]:
        return [_features(family) for family in self.space.families]

    def choice(self, place: int) -> Choice:
        """Return the choice in a place."""
        return self.space.choice(place)


def family_estimates(family: ChoiceFamily) -> FloatArray:
    """Return float64[n]: the estimated cycles of a family's choices."""
    if family.work is None or family.table is None:
        return np.full(len(family), UNKNOWN)
    return costs_of(family.work, family.table).cycles


def _features(family: ChoiceFamily) -> dict[str, FloatArray]:
    """Return float64[n] for each name of FEATURES."""
    none = dict.fromkeys(FEATURES, np.zeros(len(family)))
    threads = {"threads": np.full(len(family), np.log2(family.threads))}
    if family.work is None or family.table is None:
        return none | threads | {"parts": np.log2(np.array(family.parts, np.float64))}
    costs, footprint = costs_of(family.work, family.table), TileFootprint(family.work, family.table)
    least = float(np.min(np.maximum(costs.steps, costs.bus)))  # cycles that the task takes in any case
    return (
        none | threads | _of_cycles(costs, least) | _of_traffic(costs, least) | _of_tiles(family, footprint)
    )


def _of_cycles(costs: Costs, least: float) -> dict[str, FloatArray]:
    return {
        "estimate": _log(costs.cycles / least),
        "steps": _log(costs.steps / least),
        "bus": _log(costs.bus / least),
        "load": _log(costs.load / least),
        "store": _log(costs.store / least),
        "waits": _log(1 + costs.waits / least),
        "overlap": _log(np.maximum(costs.steps, costs.bus) / costs.cycles),
        "balance": _log(costs.bus / costs.steps),
        "steps_of_chunk": _log(costs.steps / costs.chunks),
        "chunks_of_tile": _log(costs.chunks / costs.tiles),
        "tiles": _log(np.asarray(costs.tiles, np.float64)),
        "store_of_tile": _log(costs.store / costs.tiles),
    }


def _of_traffic(costs: Costs, least: float) -> dict[str, FloatArray]:
    columns: dict[str, FloatArray] = {}
    for name, moved in (("inp", costs.inputs), ("wgt", costs.weights), ("out", costs.outputs)):
        columns |= {
            f"{name}_beats": _log((1 + moved.beats) / least),
            f"{name}_reuse": _log(costs.steps / (1 + moved.beats)),
            f"{name}_burst": _log(_each(moved.beats, moved.bursts)),
            f"{name}_instruction": _log(_each(moved.beats, moved.instructions)),
            f"{name}_instructions": _log(1 + np.asarray(moved.instructions, np.float64)),
        }
    return columns


def _each(total: FloatArray, count: FloatArray | NDArray[np.int64]) -> FloatArray:
    mean: FloatArray = (1 + total) / np.maximum(count, 1)
    return mean


def _of_tiles(family: ChoiceFamily, footprint: TileFootprint) -> dict[str, FloatArray]:
    work, table = footprint.work, footprint.table
    extents = {name: _log(getattr(table, name)) for name in ("outputs", "rows", "columns", "inputs")}
    depth = work.config.depth
    shares = {
        "inp_share": footprint.inputs / depth(MemoryType.INP),
        "wgt_share": footprint.weights / depth(MemoryType.WGT),
        "acc_share": (footprint.parameters + work.threads * footprint.acc) / depth(MemoryType.ACC),
    }
    flags = {
        "keeps_inputs": table.kept(INPUTS),
        "keeps_weights": table.kept(WEIGHTS),
        "over_outputs": table.threads_over == LOOPS.index(OUTPUTS),
        "over_rows": table.threads_over == LOOPS.index(ROWS),
    }
    height, width = work.size.out_size
    ragged = {"ragged": (height % table.rows != 0) | (width % table.columns != 0)}
    return {
        **extents,
        **shares,
        **{name: mask.astype(np.float64) for name, mask in {**flags, **ragged}.items()},
    }


def _log(values: FloatArray | NDArray[np.int64]) -> FloatArray:
    logarithms: FloatArray = np.log2(np.maximum(values, 1e-6))
    return logarithms


_CYCLES = (
    "estimate",
    "steps",
    "bus",
    "load",
    "store",
    "waits",
    "overlap",
    "balance",
    "steps_of_chunk",
    "chunks_of_tile",
    "tiles",
    "store_of_tile",
)
_MOVED = tuple(
    f"{memory}_{what}"
    for memory in ("inp", "wgt", "out")
    for what in ("beats", "reuse", "burst", "instruction", "instructions")
)
_TILES = ("outputs", "rows", "columns", "inputs", "inp_share", "wgt_share", "acc_share", "keeps_inputs")
_LOOPS = ("keeps_weights", "over_outputs", "over_rows", "ragged", "threads", "parts")
FEATURES = (*_CYCLES, *_MOVED, *_TILES, *_LOOPS)
