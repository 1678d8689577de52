"""An estimate of a convolution's cycles for each of its tiles, and the tiles ranked by it.

In the steady state one of six resources bounds the cycles. Two bounds that are close disturb each other,
which a norm of order SHARPNESS over the bounds models. Work that cannot overlap is added. The constants that
have a sentence of explanation were fitted to 4,600 simulations of the convolutions of 13 networks on the
configuration `default` at latencies of 64 and 400 cycles.
"""

from dataclasses import dataclass
from math import inf, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.tiles import (
    INPUTS,
    LOOPS,
    ROWS,
    USUAL,
    WEIGHTS,
    Footprint,
    IntArray,
    Tiles,
    TileTable,
    Work,
    fitting_tiles,
    table_of,
)
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.operands.interleaved import gathers
from vdla.compiler.te.operators.sizes import blocks
from vdla.hw.spec.isa import TAPS
from vdla.hw.spec.timing import LOADS_IN_PROGRESS
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter

DISTURBANCE = 0.04  # share by which a bound as great as the greatest lengthens it
SHARPNESS = 4  # how fast that share falls where a bound is less than the greatest
# from the end of one unit's instruction to the start of the one in another unit that waited for its token
HANDOVER_CYCLES = 14
GEMM_CYCLES = 5  # of a GEMM instruction beyond its steps
# of the latency, by which a burst of a store waits for the reads that memory accepted before it
STORE_WAITS = 1 / 64
# share of the wait for a tile's store that loads, which go on meanwhile, do not make up for later
UNHIDDEN = 0.5
SCATTERED_CYCLES = 8  # of a STORE of rows of one element beyond its beats
OVERLAP = 0.2  # share of the loading of kept weights that the end of the work with those before hides


FloatArray: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = FloatArray | IntArray


@dataclass(frozen=True, eq=False)
class Traffic:
    """What a convolution moves to or from one memory, for each tile of a table: float64[n].

    Attributes:
        beats: cycles in which they take the data path.
        bursts: requests to memory.
        instructions: LOADs or STOREs.
    """

    beats: FloatArray
    bursts: FloatArray
    instructions: Numbers

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(
            self.beats + other.beats,
            self.bursts + other.bursts,
            self.instructions + other.instructions,
        )

    def only(self, where: NDArray[np.bool_]) -> "Traffic":
        """Return the traffic of the tiles that a mask chooses, and none of the others."""
        return Traffic(self.beats * where, self.bursts * where, self.instructions * where)


def ranked_tiles(
    work: Work,
    most: int | None = None,
    *,
    distinct: bool = False,
    within: float = inf,
    keeps: tuple[str, ...] = USUAL,
) -> list[Tiles]:
    """Return at most `most` tiles that fit the memories, in order of estimated cycles.

    Args:
        distinct: omit tiles that differ from a better one only in the loop that becomes virtual threads;
            their cycles hardly differ.
        within: omit tiles with more estimated cycles than the best times this.
        keeps: what they may keep from tile to tile.

    Raises:
        IrError: none fits.
    """
    table = fitting_tiles(work, keeps)
    if not len(table):
        raise IrError(
            f"no tile of {work.size} fits the memories of {work.config.name} {work.threads} times; use "
            "fewer virtual threads"
        )
    estimates = estimated_cycles(work, table)
    order = np.argsort(estimates, kind="stable")
    order = order[estimates[order] <= within * estimates.min()]
    if distinct:
        sizes = np.stack([table.outputs, table.rows, table.columns, table.inputs, table.keeps])[:, order]
        order = order[np.sort(np.unique(sizes, axis=1, return_index=True)[1])]
    return [table.tiles(int(place)) for place in order[:most]]


@dataclass(frozen=True, eq=False)
class Costs:
    """What the tiles of a table cost, for each of them: float64[n].

    Attributes:
        inputs, weights, outputs: what is moved.
        steps: slots of the GEMM core.
        slots: those, and slots of the compute unit that the store unit takes.
        chunks, tiles: of the sums, and of the result.
        load, store: cycles that loads in every chunk and stores need if nothing else moves.
        bus: beats of all that is moved.
        waits: cycles that nothing hides.
        cycles: estimated in all.
    """

    inputs: Traffic
    weights: Traffic
    outputs: Traffic
    steps: Numbers
    slots: Numbers
    chunks: Numbers
    tiles: Numbers
    load: FloatArray
    store: FloatArray
    bus: FloatArray
    waits: FloatArray
    cycles: FloatArray


def estimated_cycles(work: Work, table: TileTable) -> FloatArray:
    """Return float64[n]: the estimated cycles of a convolution with each tile of a table."""
    return costs_of(work, table).cycles


def costs_of(work: Work, table: TileTable) -> Costs:
    """Return the costs of a convolution with each tile of a table."""
    shape = _Shape(work, table)
    inp, wgt, out = _inputs(shape), _weights(shape), _outputs(shape)
    often = inp.only(~table.kept(INPUTS)) + wgt.only(~table.kept(WEIGHTS))  # in every chunk
    load = _load_cycles(often, work)
    store = out.beats + STORE_WAITS * work.memory.latency * out.bursts
    store = store + SCATTERED_CYCLES * out.instructions * (work.writes > 1)
    refills, refill = _refills(shape, inp, wgt)
    first = often.beats / shape.chunks + refill  # beats before the first product
    bus = inp.beats + wgt.beats + out.beats + _other_beats(shape, inp, wgt, out)
    steady = _steady_cycles(shape, often, load, store, bus, first)
    resets = np.where(
        shape.resets, shape.tiles / work.threads, 0
    )  # of the last thread's sums: it waits for the store of the sums before
    latency = work.memory.latency
    waits = refills * (latency + refill + often.beats / shape.chunks + HANDOVER_CYCLES) + resets * (
        latency + store / shape.tiles
    )
    waits = waits + _waits_for_room(shape, often, store) + out.beats / shape.tiles + 2 * latency
    slots = shape.steps + shape.taken
    return Costs(
        inp, wgt, out, shape.steps, slots, shape.chunks, shape.tiles, load, store, bus, waits, steady + waits
    )


def slots_of(work: Work, tiles: Tiles) -> int:
    """Return the slots of the GEMM core that a convolution takes with some tiles."""
    return int(np.max(_Shape(work, table_of(tiles)).steps))


class _Shape:
    """How often the parts of a convolution come, for each tile of a table: int64[n].

    Attributes:
        down, across: tiles along rows and columns.
        tiles: in all.
        chunks: of input blocks that are summed, of all tiles.
        weight_loads: times that kept weights are loaded.
        input_loads: parts of the input that are loaded.
        inputs: blocks of channels of such a part.
        blocks_in, blocks_out: of channels, input blocks once for each tile of outputs that loads them.
        pixels: of a block of the result.
        resets: whether sums are set to 0 by instructions of their own; else the first product overwrites what
            was there.
    """

    def __init__(self, work: Work, table: TileTable) -> None:
        self.work, self.table, self.footprint = work, table, Footprint(work, table)
        height, width = work.size.out_size
        groups, config = work.groups, work.config
        self.down, self.across = _parts(height, table.rows), _parts(width, table.columns)
        images = blocks(work.size.batch, config.batch) * groups.count
        self.weight_loads = images * _parts(groups.outputs, table.outputs)
        self.tiles = self.weight_loads * self.down * self.across
        self.chunks = self.tiles * (groups.inputs // table.inputs)
        kept = table.kept(INPUTS)
        self.input_loads: IntArray = np.where(kept, images * self.down * self.across, self.chunks)
        self.inputs: IntArray = np.where(kept, groups.inputs, table.inputs)
        self.blocks_out = images * groups.outputs
        self.blocks_in: IntArray = np.where(kept, images, self.weight_loads) * groups.inputs
        self.pixels = height * width
        whole = (
            (groups.outputs % table.outputs == 0) & (height % table.rows == 0) & (width % table.columns == 0)
        )
        self.resets = ~(whole & config.has(Extension.OVERWRITE))

    @property
    def taken(self) -> IntArray:
        """Slots of the compute unit that the store unit takes for what it reads, where accumulators have one
        port: one for each output, and for each of its parameters."""
        work = self.work
        if work.config.acc_ports > 1:
            return np.zeros_like(self.blocks_out)
        parameters = self.tiles * self.table.outputs * len(Parameter) * work.scales
        return self.blocks_out * self.pixels + parameters

    @property
    def steps(self) -> IntArray:
        """Slots of the GEMM core."""
        work, stride = self.work, self.work.size.stride[1]
        of_output: IntArray = work.groups.inputs * prod(work.size.kernel) + self.resets
        if not work.slides:
            return self.blocks_out * self.pixels * of_output
        height, width = work.size.out_size
        of_row = width * stride + self.across * (TAPS - stride)
        slots: IntArray = height * work.kernel_blocks * of_row + self.pixels * self.resets
        return self.blocks_out * slots


def _parts(extent: int, size: IntArray) -> IntArray:
    return -(-extent // size)


def _traffic(
    work: Work, memory: MemoryType, elements: Numbers, run: Numbers, instructions: Numbers
) -> Traffic:
    """Return the traffic of so many elements in runs that lie together; a run begins anywhere in a burst."""
    config, size = work.config, work.config.element_bytes(memory)
    moved, together = elements * float(size), np.maximum(run, 1) * float(size)
    bursts = moved / together * ((together - min(size, config.burst_bytes)) / config.burst_bytes + 1)
    return Traffic(moved / config.bus_bytes * work.memory.cycles_per_beat, bursts, instructions)


def _inputs(shape: _Shape) -> Traffic:
    """Input tiles with their halo, without padding; whole rows are contiguous, and so are whole images."""
    size, table = shape.work.size, shape.table
    rows_kept = size.skips_rows
    top, left, below, right = size.padding
    rows = _walked(
        size.out_size[0],
        table.rows,
        (size.kernel[0], 1 if rows_kept else size.stride[0], size.dilation[0]),
        top,
        size.out_size[0] if rows_kept else size.height,
    )
    columns = _walked(
        size.out_size[1], table.columns, (size.kernel[1], size.stride[1], size.dilation[1]), left, size.width
    )
    whole_rows = (shape.across == 1) & (not rows_kept and left == right == 0)
    whole = whole_rows & (shape.down == 1) & (top == below == 0)
    run = (
        np.where(whole_rows, rows / shape.down, 1) * np.where(whole, shape.inputs, 1) * columns / shape.across
    )
    single = whole_rows | (shape.footprint.height == 1)
    if shape.work.reads > 1:
        lines = np.where(left == right == 0, 1, 2 * shape.footprint.height)  # between borders on chip
        lengths = np.where(whole_rows, rows / shape.down, 1) * columns / shape.across
        return _alternating(shape, shape.blocks_in * rows * columns, lengths, lines)
    return _traffic(
        shape.work,
        MemoryType.INP,
        shape.blocks_in * rows * columns,
        run,
        shape.input_loads * np.where(single, 1, shape.inputs),
    )


def _alternating(shape: _Shape, elements: Numbers, run: Numbers, lines: Numbers) -> Traffic:
    """Return the traffic of inputs between which others stand: those are read too, or each one alone."""
    work, instructions = shape.work, shape.input_loads * shape.inputs * lines
    if gathers(work.reads, work.config):
        return _traffic(work, MemoryType.INP, elements * work.reads, run * work.reads, instructions)
    return _traffic(work, MemoryType.INP, elements, np.ones_like(elements), instructions)


def _walked(extent: int, sizes: IntArray, window: tuple[int, int, int], before: int, length: int) -> IntArray:
    """Return int64[n]: the lines of the input, of `length` behind `before` of padding, that tiles of these
    sizes read, halo included."""
    kernel, stride, dilation = window
    found = {}
    for size in np.unique(sizes):
        first = np.arange(0, extent, size)
        low = first * stride - before
        high = low + (np.minimum(size, extent - first) - 1) * stride + dilation * (kernel - 1) + 1
        found[size] = np.maximum(np.minimum(high, length) - np.maximum(low, 0), 0).sum()
    return np.array([found[size] for size in sizes], np.int64)


def _weights(shape: _Shape) -> Traffic:
    """Weights once for each tile, or once for all tiles of the same outputs; a chunk's lie together, and all
    of an output block."""
    work, table, kept = shape.work, shape.table, shape.table.kept(WEIGHTS)
    window, chunks = work.kernel_blocks, work.groups.inputs // table.inputs
    loads = np.where(kept, shape.weight_loads * chunks, shape.chunks)
    if work.alike:
        loads = np.where(kept, shape.weight_loads, shape.chunks)
        return _traffic(work, MemoryType.WGT, loads, np.ones_like(loads), loads)
    elements = shape.blocks_out * work.groups.inputs * window * np.where(kept, 1, shape.down * shape.across)
    run = table.inputs * window * np.where(chunks == 1, table.outputs, 1)
    return _traffic(work, MemoryType.WGT, elements, run, loads)


def _outputs(shape: _Shape) -> Traffic:
    """Every output once; a STORE for each block of them, and whole rows lie together. With other blocks
    between, one for each row that is not whole."""
    whole = shape.across == 1
    run = shape.table.columns * np.where(whole, shape.table.rows, 1)
    stores, elements = shape.tiles * shape.table.outputs, np.full_like(run, shape.blocks_out * shape.pixels)
    if shape.work.writes > 1:
        stores, run = stores * np.where(whole, 1, shape.table.rows), np.ones_like(run)
    return _traffic(shape.work, MemoryType.OUT, elements, run, stores)


def _other_beats(shape: _Shape, *moved: Traffic) -> FloatArray:
    """Return the beats of parameters and of instructions, of which each chunk has a GEMM."""
    work = shape.work
    sets = work.sets if work.keeps_parameters else shape.tiles * shape.table.outputs
    parameters = sets * len(Parameter) * work.config.element_bytes(MemoryType.ACC) if work.scales else 0
    count = shape.chunks + shape.tiles + sum(one.instructions for one in moved)
    moved_bytes = parameters + work.config.instruction_bytes * count
    return moved_bytes / work.config.bus_bytes * work.memory.cycles_per_beat


def _load_cycles(often: Traffic, work: Work) -> FloatArray:
    """Return the cycles that loads need if nothing else moves: by the bus, the requests in flight, or the
    LOADs in progress."""
    latency, in_flight = work.memory.latency, min(work.config.max_requests, work.memory.depth)
    by_requests = (
        often.bursts * latency + often.beats / 2
    ) / in_flight  # half of a burst goes by while the next is asked for
    by_instructions = (often.instructions * latency + often.beats) / LOADS_IN_PROGRESS
    return np.maximum(np.maximum(often.beats, by_requests), by_instructions)


def _steady_cycles(
    shape: _Shape, often: Traffic, load: FloatArray, store: FloatArray, bus: FloatArray, first: FloatArray
) -> FloatArray:
    """Return the cycles of loads, products and stores: with one thread of everything in turn, with more of
    what bounds them.

    Before the units have work all the time there are the `first` beats, and memory is idle in the last chunk.
    """
    work, threads = shape.work, shape.work.threads
    # a thread's chunks, one after another
    chain = shape.steps + load + shape.chunks * (work.memory.latency + HANDOVER_CYCLES)
    if threads == 1:
        return chain + store
    # a thread's tiles: sums, then their store
    tiles = shape.steps + store + shape.tiles * (_reads_ahead(work, often, shape) + HANDOVER_CYCLES)
    compute = shape.steps + shape.taken + GEMM_CYCLES * shape.chunks + first
    memory = np.maximum(np.maximum(bus, load), store) + shape.steps / shape.chunks
    bounds = np.stack(np.broadcast_arrays(compute, memory, chain / threads + first, tiles / threads + first))
    greatest = bounds.max(axis=0)
    nearness = ((bounds / greatest) ** SHARPNESS).sum(axis=0) - 1
    cycles: FloatArray = greatest * (1 + DISTURBANCE * nearness)
    return cycles


def _waits_for_room(shape: _Shape, often: Traffic, store: FloatArray) -> FloatArray:
    """Return the cycles in which a thread's first product, which overwrites sums, waits until those of its
    tile before are stored. The last chunks of the other threads hide so much of that."""
    work = shape.work
    if work.threads == 1:
        return np.zeros_like(store)
    stored = work.memory.latency + HANDOVER_CYCLES + store / shape.tiles + _reads_ahead(work, often, shape)
    hidden = (work.threads - 1) * shape.steps / shape.chunks
    tiles = np.where(shape.resets, 0, shape.tiles / work.threads)
    waits: FloatArray = UNHIDDEN * tiles * np.maximum(stored - hidden, 0)
    return waits


def _reads_ahead(work: Work, often: Traffic, shape: _Shape) -> FloatArray:
    """Return the beats of reads before a store in memory's queue."""
    in_flight = min(work.config.max_requests, work.memory.depth)
    of_requests = in_flight * often.beats / np.maximum(often.bursts, 1)
    ahead: FloatArray = np.minimum(often.beats / shape.chunks, of_requests)
    return ahead


def _refills(shape: _Shape, inp: Traffic, wgt: Traffic) -> tuple[FloatArray, FloatArray]:
    """Return how often what is kept is replaced after the first time, and the beats of each; work stands
    still meanwhile."""
    table = shape.table
    apart = np.where(table.threads_over == LOOPS.index(ROWS), 1, shape.work.threads)
    loads = np.where(table.kept(WEIGHTS), shape.weight_loads / apart, 1)
    loads = np.where(table.kept(INPUTS), shape.input_loads, loads)
    beats = inp.only(table.kept(INPUTS)).beats + wgt.only(table.kept(WEIGHTS)).beats
    return (1 - OVERLAP) * (loads - 1), beats / loads
