"""Tiles of a convolution: those that fit the memories, ranked by an estimate of their cycles."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from vdla.compiler.ir.nodes import IrError
from vdla.compiler.te.operators.sizes import Convolution, blocks, grouping
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import MOST_PARAMETER_SETS
from vdla.hw.spec.memory import REFERENCE_MEMORY
from vdla.hw.spec.vocabulary import MemoryType, Parameter

MOST_PARTS = 6  # of an extent that tiles do not divide
GROUPS, OUTPUTS, ROWS = "groups", "outputs", "rows"


@dataclass(frozen=True, slots=True)
class Tiles:
    """What one virtual thread computes at a time, and what is kept.

    Attributes:
        outputs, rows, columns: of the result; outputs in blocks.
        inputs: blocks of input channels that are added up at a time.
        keeps_weights: weights are loaded once for all rows and columns.
        threads_over: the loop that becomes virtual threads: GROUPS, OUTPUTS or ROWS.
    """

    outputs: int
    rows: int
    columns: int
    inputs: int
    keeps_weights: bool = False
    threads_over: str = OUTPUTS


@dataclass(frozen=True, slots=True)
class Work:
    """A convolution on an accelerator, `threads` tiles at a time.

    Attributes:
        scales: outputs are requantised by parameters, which take room beside the accumulators.
        alike: all blocks of weights are the same one.
    """

    size: Convolution
    config: AcceleratorConfig
    threads: int
    scales: bool
    alike: bool = False

    @property
    def keeps_parameters(self) -> bool:
        """Whether the parameters of all outputs stand on chip at once; else those of a tile's."""
        groups = grouping(self.size, self.config)
        sets = groups.count * groups.outputs
        return sets <= min(MOST_PARAMETER_SETS, self.config.depth(MemoryType.ACC) // (4 * len(Parameter)))

    def parameter_elements(self, tiles: Tiles) -> int:
        """Return the accumulators that parameters take."""
        if not self.scales:
            return 0
        groups = grouping(self.size, self.config)
        sets = groups.count * groups.outputs if self.keeps_parameters else tiles.outputs * (self.threads if tiles.threads_over != ROWS else 1)
        return sets * len(Parameter)


def tile_sizes(extent: int) -> list[int]:
    """Return the sizes worth trying: those that divide `extent`, and those that part it into a few, of which the last is smaller."""
    return sorted({size for size in range(1, extent + 1) if extent % size == 0} | {blocks(extent, parts) for parts in range(1, MOST_PARTS + 1)})


def ranked_tiles(work: Work) -> list[Tiles]:
    """Return the tiles that fit the memories, those of least estimated cycles first.

    Raises:
        IrError: none fits.
    """
    fitting = [tiles for tiles in _candidates(work) if _fits(tiles, work)]
    if not fitting:
        raise IrError(f"no tile of {work.size} fits the memories of {work.config.name} {work.threads} times; use fewer virtual threads")
    return sorted(fitting, key=lambda tiles: estimated_cycles(tiles, work))


def _candidates(work: Work) -> Iterator[Tiles]:
    groups, (height, width) = grouping(work.size, work.config), work.size.out_size
    whole = [size for size in tile_sizes(groups.inputs) if groups.inputs % size == 0]
    for o, y, x, c, keeps in product(tile_sizes(groups.outputs), tile_sizes(height), tile_sizes(width), whole, (False, True)):
        for loop, trips in ((GROUPS, groups.count), (OUTPUTS, blocks(groups.outputs, o)), (ROWS, blocks(height, y))):
            if trips % work.threads == 0:
                yield Tiles(o, y, x, c, keeps, loop)


def _footprint(tiles: Tiles, work: Work) -> tuple[int, int, int]:
    """Return the elements of input, weight and accumulators that a tile needs at a time."""
    size = work.size
    strides = (1 if size.skips_rows else size.stride[0], size.stride[1])
    rows, columns = ((count - 1) * stride + dilation * (kernel - 1) + 1 for count, stride, dilation, kernel in zip(
        (tiles.rows, tiles.columns), strides, size.dilation, size.kernel, strict=True))
    wgt = 1 if work.alike else tiles.outputs * tiles.inputs * prod(size.kernel)
    return tiles.inputs * rows * columns, wgt, tiles.outputs * tiles.rows * tiles.columns


def _weights_at_once(tiles: Tiles, work: Work) -> int:
    """Return the weights that stand on chip at a time, for all threads."""
    _, wgt, _ = _footprint(tiles, work)
    if not tiles.keeps_weights:
        return work.threads * wgt
    return wgt * grouping(work.size, work.config).inputs // tiles.inputs * (work.threads if tiles.threads_over != ROWS else 1)


def _fits(tiles: Tiles, work: Work) -> bool:
    inp, _, acc = _footprint(tiles, work)
    parameters = work.parameter_elements(tiles)
    return (work.threads * inp <= work.config.depth(MemoryType.INP)
            and parameters + work.threads * acc <= work.config.depth(MemoryType.ACC) and parameters <= MOST_PARAMETER_SETS * len(Parameter)
            and _weights_at_once(tiles, work) <= work.config.depth(MemoryType.WGT)
            and 4 * tiles.outputs * tiles.inputs * prod(work.size.kernel) <= work.config.depth(MemoryType.UOP))


def estimated_cycles(tiles: Tiles, work: Work) -> float:
    """Return about how many cycles a convolution takes: work and transfers overlap where there are threads, the first and last do not."""
    size, config, threads = work.size, work.config, work.threads
    inp, wgt, acc = _footprint(tiles, work)
    cycles_of = {memory: config.element_bytes(memory) / config.bus_bytes for memory in MemoryType}
    groups = grouping(size, config)
    chunks, outer, (height, width) = groups.inputs // tiles.inputs, groups.count * blocks(groups.outputs, tiles.outputs), size.out_size
    spots = blocks(height, tiles.rows) * blocks(width, tiles.columns) * outer * blocks(size.batch, config.batch)
    weights, load, store = wgt * cycles_of[MemoryType.WGT], inp * cycles_of[MemoryType.INP], acc * cycles_of[MemoryType.OUT]
    steps, passes = acc * tiles.inputs * prod(size.kernel), 0 if work.scales else 4 * acc  # too many of what lies behind the edges
    weight_loads = chunks * (outer if tiles.keeps_weights else spots)
    compute, moved = spots * (chunks * steps + passes), spots * (chunks * load + store) + weight_loads * weights
    first = weights * (chunks * (threads if tiles.threads_over != ROWS else 1) if tiles.keeps_weights else 1)
    ends = load + first + passes + store + 2 * REFERENCE_MEMORY.latency
    waits = 20 * spots * chunks  # tokens between units
    return max(compute + waits, moved) + ends if threads > 1 else compute + moved + REFERENCE_MEMORY.latency * spots * chunks
