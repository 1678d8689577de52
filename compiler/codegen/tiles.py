"""Tiles of a convolution: those that fit the memories. `vdla.compiler.codegen.estimate` ranks them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.te.operators.sizes import Convolution, Grouping, blocks, grouping
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import MOST_PARAMETER_SETS, TAPS
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.vocabulary import MemoryType, Parameter

MOST_PARTS = 6  # of an extent that tiles do not divide
GROUPS, OUTPUTS, ROWS = "groups", "outputs", "rows"
LOOPS = (GROUPS, OUTPUTS, ROWS)
NOTHING, WEIGHTS, INPUTS = "nothing", "weights", "inputs"
KEEPS = (NOTHING, WEIGHTS, INPUTS)
USUAL = (NOTHING, WEIGHTS)  # what default choices keep


@dataclass(frozen=True, slots=True)
class Tiles:
    """What one virtual thread computes at a time, and what is kept.

    Attributes:
        outputs, rows, columns: of the result; outputs in blocks.
        inputs: blocks of input channels that are added up at a time.
        keeps: WEIGHTS are loaded once for all rows and columns, INPUTS once for all outputs, or NOTHING is
            kept from tile to tile.
        threads_over: the loop that becomes virtual threads: GROUPS, OUTPUTS or ROWS.
    """

    outputs: int
    rows: int
    columns: int
    inputs: int
    keeps: str = NOTHING
    threads_over: str = OUTPUTS


@dataclass(frozen=True, slots=True)
class Work:
    """A convolution on an accelerator, `threads` tiles at a time.

    Attributes:
        scales: outputs are requantised by parameters, which take room beside the accumulators.
        alike: all blocks of weights are the same one.
        slides: windows slide along the rows.
        memory: behind the accelerator.
        reserved: accumulators that are taken by other things.
        reads, writes: as those of a `vdla.compiler.tasks.convolution.TiledTask`.
    """

    size: Convolution
    config: AcceleratorConfig
    threads: int
    scales: bool
    alike: bool = False
    slides: bool = False
    memory: MemoryParameters = REFERENCE_MEMORY
    reserved: int = 0
    reads: int = 1
    writes: int = 1

    @property
    def kernel_blocks(self) -> int:
        """Blocks of weights of a kernel, for a block of inputs."""
        return prod(self.size.kernel) // (TAPS if self.slides else 1)

    @property
    def groups(self) -> Grouping:
        """How the groups of the convolution lie in blocks."""
        return grouping(self.size, self.config)

    @property
    def sets(self) -> int:
        """Sets of parameters of all outputs."""
        return self.groups.count * self.groups.outputs

    @property
    def keeps_parameters(self) -> bool:
        """Whether the parameters of all outputs stand on chip at once; else those of a tile's."""
        return self.sets <= min(
            MOST_PARAMETER_SETS, self.config.depth(MemoryType.ACC) // (4 * len(Parameter))
        )


IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TileTable:
    """Tiles of one convolution as columns, int64[n] each; names are those of `Tiles`.

    Attributes:
        keeps: places in KEEPS.
        threads_over: places in LOOPS.
    """

    outputs: IntArray
    rows: IntArray
    columns: IntArray
    inputs: IntArray
    keeps: IntArray
    threads_over: IntArray

    def __len__(self) -> int:
        return len(self.outputs)

    def tiles(self, place: int) -> Tiles:
        """Return one of the tiles."""
        outputs, rows, columns, inputs = (
            int(column[place]) for column in (self.outputs, self.rows, self.columns, self.inputs)
        )
        keeps, threads_over = KEEPS[self.keeps[place]], LOOPS[self.threads_over[place]]
        return Tiles(outputs, rows, columns, inputs, keeps, threads_over)

    def place(self, tiles: Tiles) -> int | None:
        """Return the place of these tiles; None where they are not in the table."""
        wanted, names = table_of(tiles), TileTable.__dataclass_fields__
        same = [getattr(self, name) == getattr(wanted, name) for name in names]
        (found,) = np.nonzero(np.logical_and.reduce(same))
        return int(found[0]) if len(found) else None

    def kept(self, what: str) -> NDArray[np.bool_]:
        """Return bool[n]: which tiles keep NOTHING, WEIGHTS or INPUTS."""
        found: NDArray[np.bool_] = self.keeps == KEEPS.index(what)
        return found

    def taken(self, chosen: IntArray | NDArray[np.bool_]) -> "TileTable":
        """Return the chosen tiles: places, or a mask."""
        return TileTable(*(getattr(self, name)[chosen] for name in TileTable.__dataclass_fields__))


def table_of(tiles: Tiles) -> TileTable:
    """Return the table of these tiles alone."""
    sizes = tiles.outputs, tiles.rows, tiles.columns, tiles.inputs
    places = KEEPS.index(tiles.keeps), LOOPS.index(tiles.threads_over)
    return TileTable(*(np.array([number]) for number in (*sizes, *places)))


@dataclass(frozen=True, eq=False)
class Footprint:
    """What each tile of a table needs on chip at a time, in elements of each memory: int64[n].

    Attributes:
        height, width: of the input's part, in pixels.
        inp, wgt, acc: of one tile, in one chunk of input blocks.
        inputs: that stand on chip at a time, for all threads.
        parameters: accumulators that parameters take beside it, and what is reserved.
        weights: that stand on chip at a time, for all threads.
    """

    work: Work
    table: TileTable

    @cached_property
    def height(self) -> IntArray:
        size = self.work.size
        return (
            (self.table.rows - 1) * (1 if size.skips_rows else size.stride[0])
            + size.dilation[0] * (size.kernel[0] - 1)
            + 1
        )

    @cached_property
    def width(self) -> IntArray:
        size = self.work.size
        return (self.table.columns - 1) * size.stride[1] + size.dilation[1] * (size.kernel[1] - 1) + 1

    @cached_property
    def inp(self) -> IntArray:
        return self.table.inputs * self.height * self.width

    @cached_property
    def products(self) -> IntArray:
        """Blocks of weights of one output pixel."""
        return self.table.outputs * self.table.inputs * self.work.kernel_blocks

    @cached_property
    def wgt(self) -> IntArray:
        return np.ones_like(self.products) if self.work.alike else self.products

    @cached_property
    def acc(self) -> IntArray:
        return self.table.outputs * self.table.rows * self.table.columns

    @cached_property
    def thread_weights(self) -> IntArray:
        """Threads whose weights differ."""
        return np.where(self.table.threads_over == LOOPS.index(ROWS), 1, self.work.threads)

    @cached_property
    def parameters(self) -> IntArray:
        work = self.work
        if not work.scales:
            return np.zeros_like(self.acc)
        sets = (
            np.full_like(self.acc, work.sets)
            if work.keeps_parameters
            else self.table.outputs * self.thread_weights
        )
        return sets * len(Parameter) + work.reserved

    @cached_property
    def weights(self) -> IntArray:
        kept = self.wgt * (self.work.groups.inputs // self.table.inputs) * self.thread_weights
        return np.where(self.table.kept(WEIGHTS), kept, self.work.threads * self.wgt)

    @cached_property
    def inputs(self) -> IntArray:
        kept = self.work.groups.inputs * self.height * self.width
        return np.where(self.table.kept(INPUTS), kept, self.work.threads * self.inp)

    @cached_property
    def needs(self) -> Mapping[MemoryType, IntArray]:
        """What stands in each memory at a time."""
        return {
            MemoryType.INP: self.inputs,
            MemoryType.WGT: self.weights,
            MemoryType.ACC: self.parameters + self.work.threads * self.acc,
            MemoryType.UOP: 4 * self.products,
        }

    @property
    def legal(self) -> NDArray[np.bool_]:
        """bool[n]: whether parameters stay within what instructions reach."""
        legal: NDArray[np.bool_] = self.parameters <= MOST_PARAMETER_SETS * len(Parameter)
        return legal

    def fits(self) -> NDArray[np.bool_]:
        """Return bool[n]: which tiles fit the memories."""
        fitting = [need <= self.work.config.depth(memory) for memory, need in self.needs.items()]
        found: NDArray[np.bool_] = np.logical_and.reduce([self.legal, *fitting])
        return found


def tile_sizes(extent: int) -> list[int]:
    """Return the sizes worth trying: those that divide `extent`, and those that part it into a few, of which
    the last is smaller."""
    return sorted(
        {size for size in range(1, extent + 1) if extent % size == 0}
        | {blocks(extent, parts) for parts in range(1, MOST_PARTS + 1)}
    )


@lru_cache(maxsize=1024)
def fitting_tiles(work: Work, keeps: tuple[str, ...] = USUAL) -> TileTable:
    """Return every tile that fits the memories and keeps one of `keeps`; there may be none."""
    table = _candidates(work, keeps)
    return table.taken(Footprint(work, table).fits())


def short_memories(work: Work) -> dict[MemoryType, int]:
    """Return the memories that are too small for the tile that is nearest to fitting, with the bytes that it
    takes of each; none where a tile fits, or none can."""
    footprint = Footprint(work, _candidates(work, USUAL))
    if footprint.fits().any() or not footprint.legal.any():
        return {}
    config, needs = work.config, footprint.needs
    ratios = np.max([need / max(1, config.depth(memory)) for memory, need in needs.items()], axis=0)
    nearest = int(np.argmin(np.where(footprint.legal, ratios, np.inf)))
    taken = {memory: int(need[nearest]) for memory, need in needs.items()}
    return {
        memory: count * config.element_bytes(memory)
        for memory, count in taken.items()
        if count > config.depth(memory)
    }


def _candidates(work: Work, keeps: tuple[str, ...]) -> TileTable:
    """Return all combinations of sizes worth trying, of which threads take whole shares. Kept inputs serve
    threads over outputs."""
    groups, (height, width) = work.groups, work.size.out_size
    whole = [size for size in tile_sizes(groups.inputs) if groups.inputs % size == 0]
    sizes = (
        tile_sizes(groups.outputs),
        tile_sizes(height),
        tile_sizes(width),
        whole,
        [KEEPS.index(what) for what in keeps],
        range(len(LOOPS)),
    )
    table = TileTable(
        *(
            column.ravel()
            for column in np.meshgrid(*(np.array(part, np.int64) for part in sizes), indexing="ij")
        )
    )
    trips: IntArray = np.choose(
        table.threads_over,
        [
            np.full_like(table.rows, groups.count),
            -(-groups.outputs // table.outputs),
            -(-height // table.rows),
        ],
    )
    over_outputs = table.threads_over == LOOPS.index(OUTPUTS)
    return table.taken((trips % work.threads == 0) & (over_outputs | ~table.kept(INPUTS)))
