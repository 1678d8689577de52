"""Tile sizes of a convolution that fit the memories. `vdla.compiler.codegen.estimate` ranks them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.te.operators.convolution import Windows, odd_pitch, windows_of
from vdla.compiler.te.operators.sizes import Convolution, Grouping, blocks, grouping
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import MOST_PARAMETER_SETS
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.vocabulary import MemoryType, Parameter

MOST_PARTS = 6  # number of tiles of an extent that they do not divide evenly
GROUPS, OUTPUTS, ROWS = "groups", "outputs", "rows"
LOOPS = (GROUPS, OUTPUTS, ROWS)
NOTHING, WEIGHTS, INPUTS = "nothing", "weights", "inputs"
KEEPS = (NOTHING, WEIGHTS, INPUTS)
DEFAULT_KEEPS = (NOTHING, WEIGHTS)  # operands that default choices keep


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tile sizes of a convolution, per virtual thread, and the operand that is kept on chip.

    Attributes:
        outputs: blocks of output channels per tile.
        rows, columns: pixels of the result per tile.
        inputs: blocks of input channels per chunk of a sum.
        keeps: WEIGHTS are loaded once for all rows and columns, INPUTS once for all outputs, or NOTHING is
            kept from tile to tile.
        threads_over: loop that becomes virtual threads: GROUPS, OUTPUTS or ROWS.
    """

    outputs: int
    rows: int
    columns: int
    inputs: int
    keeps: str = NOTHING
    threads_over: str = OUTPUTS


@dataclass(frozen=True, slots=True)
class TilingProblem:
    """A tiling problem: a convolution on an accelerator, with `threads` tiles at a time.

    Attributes:
        scales: outputs are requantised by parameters, which occupy accumulators.
        alike: all blocks of weights are equal.
        slides: windows slide along the rows.
        memory: timing of the external memory.
        adds: residuals, which the bus moves, are added to the results; parameters of the addition occupy
            accumulators.
        reads, writes: interleaved channel blocks, see `vdla.compiler.tasks.convolution.TiledTask`.
        step: bytes between the elements of a row of the input, which GATHER loads; 0: LOAD loads them.
        halvings: of LOADs of weights.
    """

    size: Convolution
    config: AcceleratorConfig
    threads: int
    scales: bool
    alike: bool = False
    slides: bool = False
    memory: MemoryParameters = REFERENCE_MEMORY
    adds: bool = False
    reads: int = 1
    writes: int = 1
    step: int = 0
    halvings: int = 0

    @property
    def kernel_blocks(self) -> int:
        """Blocks of weights of a kernel per block of inputs."""
        return self.windows.count if self.windows else prod(self.size.kernel)

    @property
    def windows(self) -> Windows | None:
        """The windows that cover the kernel, if windows slide along the rows."""
        return windows_of(self.size, self.config) if self.slides else None

    @property
    def groups(self) -> Grouping:
        """The groups of the convolution, joined to fill whole blocks."""
        return grouping(self.size, self.config)

    @property
    def sets(self) -> int:
        """Number of parameter sets of all outputs."""
        return self.groups.count * self.groups.outputs

    @property
    def most_sets(self) -> int:
        """Number of parameter sets that may be on chip at once for more than a tile."""
        return min(MOST_PARAMETER_SETS, self.config.depth(MemoryType.ACC) // (4 * len(Parameter)))

    @property
    def keeps_parameters(self) -> bool:
        """Whether the parameters of all outputs are on chip at once, not only parameters of some tiles."""
        return self.sets <= self.most_sets


IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TileTable:
    """Tile sizes of a convolution as columns, int64[n] each, with the names of `Tiles`.

    Attributes:
        keeps: indices into KEEPS.
        threads_over: indices into LOOPS.
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
        """Return the tile sizes at index `place`."""
        outputs, rows, columns, inputs = (
            int(column[place]) for column in (self.outputs, self.rows, self.columns, self.inputs)
        )
        keeps, threads_over = KEEPS[self.keeps[place]], LOOPS[self.threads_over[place]]
        return Tiles(outputs, rows, columns, inputs, keeps, threads_over)

    def place(self, tiles: Tiles) -> int | None:
        """Return the index of tile sizes, or None."""
        wanted, names = table_of(tiles), TileTable.__dataclass_fields__
        same = [getattr(self, name) == getattr(wanted, name) for name in names]
        (places,) = np.nonzero(np.logical_and.reduce(same))
        return int(places[0]) if len(places) else None

    def kept(self, what: str) -> NDArray[np.bool_]:
        """Return bool[n]: which rows of the table keep NOTHING, WEIGHTS or INPUTS."""
        mask: NDArray[np.bool_] = self.keeps == KEEPS.index(what)
        return mask

    def select(self, chosen: IntArray | NDArray[np.bool_]) -> "TileTable":
        """Return the rows that are selected by indices or by a mask."""
        return TileTable(*(getattr(self, name)[chosen] for name in TileTable.__dataclass_fields__))


def table_of(tiles: Tiles) -> TileTable:
    """Return the table with a single row."""
    sizes = tiles.outputs, tiles.rows, tiles.columns, tiles.inputs
    places = KEEPS.index(tiles.keeps), LOOPS.index(tiles.threads_over)
    return TileTable(*(np.array([number]) for number in (*sizes, *places)))


@dataclass(frozen=True, eq=False)
class TileFootprint:
    """Scratchpad usage per row of a table, in elements of each memory: int64[n]."""

    work: TilingProblem
    table: TileTable

    @cached_property
    def height(self) -> IntArray:
        """Rows of pixels of an input tile, halo included."""
        size = self.work.size
        return (
            (self.table.rows - 1) * (1 if size.skips_rows else size.stride[0])
            + size.dilation[0] * (size.kernel[0] - 1)
            + 1
        )

    @cached_property
    def width(self) -> IntArray:
        """Columns of pixels of an input tile, halo included."""
        size = self.work.size
        width: IntArray = (
            (self.table.columns - 1) * size.stride[1] + size.dilation[1] * (size.kernel[1] - 1) + 1
        )
        return odd_pitch(width, self.work.windows) if self.work.windows else width

    @cached_property
    def inp(self) -> IntArray:
        """Elements of INP that a tile takes, in a chunk of input blocks."""
        return self.table.inputs * self.height * self.width

    @cached_property
    def products(self) -> IntArray:
        """Blocks of weights per output pixel of a tile."""
        return self.table.outputs * self.table.inputs * self.work.kernel_blocks

    @cached_property
    def wgt(self) -> IntArray:
        """Elements of WGT that a tile takes, in a chunk of input blocks."""
        return np.ones_like(self.products) if self.work.alike else self.products

    @cached_property
    def acc(self) -> IntArray:
        """Elements of ACC that the sums of a tile take."""
        return self.table.outputs * self.table.rows * self.table.columns

    @cached_property
    def thread_weights(self) -> IntArray:
        """Number of threads with distinct weights."""
        return np.where(self.table.threads_over == LOOPS.index(ROWS), 1, self.work.threads)

    @cached_property
    def parameters(self) -> IntArray:
        """Elements of ACC that requantisation parameters take."""
        work = self.work
        if not work.scales:
            return np.zeros_like(self.acc)
        sets = (
            np.full_like(self.acc, work.sets)
            if work.keeps_parameters
            else self.table.outputs * self.thread_weights * self.rounds
        )
        return (sets + work.adds) * len(Parameter)

    @cached_property
    def rounds(self) -> IntArray:
        """Number of consecutive trips of the loop over tiles of outputs for which the parameters are on chip
        together, if the parameters of all outputs do not fit. It divides the trip count of the loop. One
        parameter set stays free for the addition of residuals."""
        work, table = self.work, self.table
        threads = np.where(table.threads_over == LOOPS.index(OUTPUTS), work.threads, 1)
        trips = -(-work.groups.outputs // (table.outputs * threads))
        sets = table.outputs * self.thread_weights
        room = (work.config.depth(MemoryType.ACC) - work.threads * self.acc) // len(Parameter)
        most = np.minimum(work.most_sets, room) - 1
        rounds = np.ones_like(sets)
        for count in range(2, work.most_sets):
            rounds[(trips % count == 0) & (count * sets <= most)] = count
        return rounds

    @cached_property
    def weights(self) -> IntArray:
        """Elements of WGT in use at a time, for all threads."""
        kept = self.wgt * (self.work.groups.inputs // self.table.inputs) * self.thread_weights
        return np.where(self.table.kept(WEIGHTS), kept, self.work.threads * self.wgt)

    @property
    def all_weights(self) -> NDArray[np.bool_]:
        """bool[n]: whether all weights are on chip at once, in use by the threads together."""
        work, table = self.work, self.table
        outputs = table.outputs * np.where(table.threads_over == LOOPS.index(OUTPUTS), work.threads, 1)
        mask: NDArray[np.bool_] = (
            (work.groups.count == 1) & (table.inputs == work.groups.inputs) & (outputs >= work.groups.outputs)
        )
        return mask

    @cached_property
    def inputs(self) -> IntArray:
        """Elements of INP in use at a time, for all threads."""
        kept = self.work.groups.inputs * self.height * self.width
        return np.where(self.table.kept(INPUTS), kept, self.work.threads * self.inp)

    @cached_property
    def needs(self) -> Mapping[MemoryType, IntArray]:
        """Elements in use in each memory at a time."""
        return {
            MemoryType.INP: self.inputs,
            MemoryType.WGT: self.weights,
            MemoryType.ACC: self.parameters + self.work.threads * self.acc,
            MemoryType.UOP: 4 * self.products,
        }

    @property
    def legal(self) -> NDArray[np.bool_]:
        """bool[n]: whether instructions can address all parameters."""
        legal: NDArray[np.bool_] = self.parameters <= MOST_PARAMETER_SETS * len(Parameter)
        return legal

    def fits(self) -> NDArray[np.bool_]:
        """Return bool[n]: which rows of the table fit the memories."""
        fitting = [need <= self.work.config.depth(memory) for memory, need in self.needs.items()]
        mask: NDArray[np.bool_] = np.logical_and.reduce([self.legal, *fitting])
        return mask


def tile_sizes(extent: int) -> list[int]:
    """Return candidate sizes: the divisors of `extent`, and the sizes that split it into at most MOST_PARTS
    tiles with a smaller last tile."""
    return sorted(
        {size for size in range(1, extent + 1) if extent % size == 0}
        | {blocks(extent, parts) for parts in range(1, MOST_PARTS + 1)}
    )


@lru_cache(maxsize=1024)
def fitting_tiles(work: TilingProblem, keeps: tuple[str, ...] = DEFAULT_KEEPS) -> TileTable:
    """Return all candidate tile sizes that fit the memories; the table may be empty.

    Args:
        keeps: operands that may be kept on chip from tile to tile, see `Tiles`.
    """
    table = _candidates(work, keeps)
    return table.select(TileFootprint(work, table).fits())


def short_memories(work: TilingProblem) -> dict[MemoryType, int]:
    """Return the memories that are too small for the tile that is nearest to fitting, with the bytes that it
    requires of each. Return {} if a tile fits, or if no memory size helps."""
    footprint = TileFootprint(work, _candidates(work, DEFAULT_KEEPS))
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


def _candidates(work: TilingProblem, keeps: tuple[str, ...]) -> TileTable:
    """Return all combinations of candidate sizes in which all threads get the same number of tiles. Inputs
    are kept only with threads over outputs."""
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
    return table.select((trips % work.threads == 0) & (over_outputs | ~table.kept(INPUTS)))
