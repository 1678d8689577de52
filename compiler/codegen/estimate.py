"""Estimated cycles of a convolution per tile size, and the ranking of tile sizes by them.

In the steady state one of several resources bounds the cycles. Two bounds of similar size interfere; a norm
of order SHARPNESS over the bounds models this. Stalls of the compute unit count against its bound; the bus
works on during most of them. The constants with a comment were fitted to 6,350 simulations of the
convolutions of 7 networks on `default`, with one image and with a batch of four.
"""

from dataclasses import dataclass
from math import inf, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.tiles import (
    DEFAULT_KEEPS,
    INPUTS,
    LOOPS,
    ROWS,
    WEIGHTS,
    IntArray,
    TileFootprint,
    Tiles,
    TileTable,
    TilingProblem,
    fitting_tiles,
)
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.operands.interleaved import uses_gathers
from vdla.compiler.te.operators.sizes import blocks
from vdla.hw.spec.timing import LOADS_IN_PROGRESS
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter

DISTURBANCE = 0.04  # relative slowdown by a second bound that equals the greatest bound
SHARPNESS = 5  # decay of that slowdown as the second bound gets smaller
# from the end of an instruction to the start of an instruction in another unit that waits for its token
HANDOVER_CYCLES = 14
GEMM_CYCLES = 5  # overhead of a GEMM instruction
SCATTERED_CYCLES = 8  # overhead of a STORE with rows of a single element
# cycles per beat of residuals in which their loads keep the compute unit from the next chunk of another tile
RESIDUAL_STALLS = 0.5
BUS_STALLS = 0.1  # share of the stalls of the compute unit in which the bus is idle


FloatArray: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = FloatArray | IntArray


@dataclass(frozen=True, eq=False)
class Traffic:
    """Transfers of a convolution to or from a scratchpad, per tile size of a table: float64[n].

    Attributes:
        beats: cycles of the data path.
        bursts: number of memory requests.
        instructions: number of LOADs or STOREs.
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
        """Return the traffic with the entries outside the mask set to 0."""
        return Traffic(self.beats * where, self.bursts * where, self.instructions * where)


def ranked_tiles(
    work: TilingProblem,
    most: int | None = None,
    *,
    distinct: bool = False,
    within: float = inf,
    keeps: tuple[str, ...] = DEFAULT_KEEPS,
) -> list[Tiles]:
    """Return at most `most` tile sizes that fit the memories, in order of estimated cycles.

    Args:
        distinct: omit tile sizes that differ from a better choice only in the loop that becomes virtual
            threads; their cycles hardly differ.
        within: omit tile sizes whose estimate exceeds the best estimate by a larger factor.
        keeps: operands that may be kept on chip from tile to tile, see `Tiles`.

    Raises:
        IrError: no tile fits.
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
        sizes = np.stack([table.outputs, table.rows, table.columns, table.inputs, table.keeps], axis=1)
        best: dict[tuple[int, ...], int] = {}
        for place, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
            best.setdefault(tuple(size), place)
        order = np.array(list(best.values()))
    return [table.tiles(place) for place in order[:most].tolist()]


@dataclass(frozen=True, eq=False)
class Costs:
    """Costs of a convolution, per tile size of a table: float64[n].

    Attributes:
        inputs, weights, outputs: traffic of the operands.
        steps: slots of the GEMM core.
        slots: `steps`, and slots of the compute unit that the store unit uses.
        chunks, tiles: number of chunks of the sums, and of tiles of the result.
        load: cycles of the loads that every chunk repeats, without other traffic.
        store: cycles of the stores, without other traffic.
        bus: beats of all traffic; residuals are read as results are written.
        waits: cycles in which the compute unit waits for kept operands, for stores of sums, and at both ends.
        cycles: estimated total.
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


def estimated_cycles(work: TilingProblem, table: TileTable) -> FloatArray:
    """Return float64[n]: estimated cycles of a convolution, per tile size of a table."""
    return costs_of(work, table).cycles


def costs_of(work: TilingProblem, table: TileTable) -> Costs:
    """Return the costs of a convolution, per tile size of a table."""
    shape = _Shape(work, table)
    inp, wgt, out = _inputs(shape), _weights(shape), _outputs(shape)
    repeated = inp.only(~table.kept(INPUTS)) + wgt.only(~table.kept(WEIGHTS))  # loaded in every chunk
    load = _load_cycles(repeated, work)
    store = out.beats + SCATTERED_CYCLES * out.instructions * (work.writes > 1)
    moved = inp + wgt + out
    bus = moved.beats + out.beats * work.adds + _other_beats(shape, inp, wgt, out)
    memory = np.maximum(bus, _cycles_of_requests(moved, work.memory.latency, work.memory.depth))
    refills, refill = _refills(shape, inp, wgt)
    first = repeated.beats / shape.chunks + refill  # beats before the first product
    stalls = _waits_for_sums(shape, repeated, store)
    stalls = stalls + refills * (work.memory.latency + first + HANDOVER_CYCLES)
    stalls = stalls + RESIDUAL_STALLS * out.beats * (work.adds & (shape.chunks > shape.tiles))
    steady = _steady_cycles(shape, repeated, load, store, memory, first, stalls)
    ends = out.beats / shape.tiles + 2 * work.memory.latency  # the first load, and the last store
    slots = shape.steps + shape.store_slots
    return Costs(
        inp,
        wgt,
        out,
        shape.steps,
        slots,
        shape.chunks,
        shape.tiles,
        load,
        store,
        bus,
        stalls + ends,
        steady + ends,
    )


def least_cycles(work: TilingProblem, table: TileTable) -> float:
    """Return the cycles that no tile size of a table can be below, by its slots or by its traffic."""
    costs = costs_of(work, table)
    return float(np.maximum(costs.slots, costs.bus).min())


class _Shape:
    """Trip counts of a convolution, per tile size of a table: int64[n].

    Attributes:
        down, across: number of tiles along rows and columns.
        tiles: number of tiles.
        chunks: number of chunks of input blocks, over all tiles.
        weight_loads: number of loads of kept weights.
        input_loads: number of loaded parts of the input.
        inputs: channel blocks per loaded part of the input.
        blocks_in: loaded channel blocks of the input, counted once per tile of outputs that loads them.
        blocks_out: channel blocks of the result.
        parameter_sets: loaded parameter sets, if not all of them are on chip at once.
        pixels: pixels per block of the result.
        resets: whether separate instructions reset the sums; else the first product overwrites them.
    """

    def __init__(self, work: TilingProblem, table: TileTable) -> None:
        self.work, self.table, self.footprint = work, table, TileFootprint(work, table)
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
        self.parameter_sets: IntArray = self.blocks_out * np.where(kept, self.down * self.across, 1)
        self.blocks_in: IntArray = np.where(kept, images, self.weight_loads) * groups.inputs
        self.pixels = height * width
        whole = (
            (groups.outputs % table.outputs == 0) & (height % table.rows == 0) & (width % table.columns == 0)
        )
        self.resets = ~(whole & config.has(Extension.OVERWRITE))

    @property
    def store_slots(self) -> IntArray:
        """Slots of the compute unit that the store unit uses for reads if accumulators have a single port: a
        slot per output, and per parameter."""
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
        if work.windows is None:
            return self.blocks_out * self.pixels * of_output
        height, width = work.size.out_size
        of_row = width * stride + self.across * (work.windows.columns - stride)
        slots: IntArray = height * work.kernel_blocks * of_row + self.pixels * self.resets
        return self.blocks_out * slots


def _parts(extent: int, size: IntArray) -> IntArray:
    return -(-extent // size)


def _traffic(
    work: TilingProblem, memory: MemoryType, elements: Numbers, run: Numbers, instructions: Numbers
) -> Traffic:
    """Return the traffic of `elements` in contiguous runs of `run` elements, which are not aligned to
    bursts."""
    config, size = work.config, work.config.element_bytes(memory, work.halvings)
    moved, together = elements * float(size), np.maximum(run, 1) * float(size)
    bursts = moved / together * ((together - min(size, config.burst_bytes)) / config.burst_bytes + 1)
    return Traffic(moved / config.bus_bytes * work.memory.cycles_per_beat, bursts, instructions)


def _inputs(shape: _Shape) -> Traffic:
    """Return the traffic of inputs: tiles with halo, without padding. Whole rows and whole images are
    contiguous."""
    size, table = shape.work.size, shape.table
    rows_kept = size.skips_rows
    top, left, below, right = size.padding
    rows = _lines_read(
        size.out_size[0],
        table.rows,
        (size.kernel[0], 1 if rows_kept else size.stride[0], size.dilation[0]),
        top,
        size.out_size[0] if rows_kept else size.height,
    )
    columns = _lines_read(
        size.out_size[1], table.columns, (size.kernel[1], size.stride[1], size.dilation[1]), left, size.width
    )
    whole_rows = (shape.across == 1) & (not rows_kept and left == right == 0)
    whole = whole_rows & (shape.down == 1) & (top == below == 0)
    run = (
        np.where(whole_rows, rows / shape.down, 1) * np.where(whole, shape.inputs, 1) * columns / shape.across
    )
    single = whole_rows | (shape.footprint.height == 1)
    if shape.work.step:
        return _gathered(shape, shape.blocks_in * rows, columns)
    if shape.work.reads > 1:
        lines = np.where(left == right == 0, 1, 2 * shape.footprint.height)  # between borders on chip
        lengths = np.where(whole_rows, rows / shape.down, 1) * columns / shape.across
        return _interleaved(shape, shape.blocks_in * rows * columns, lengths, lines)
    return _traffic(
        shape.work,
        MemoryType.INP,
        shape.blocks_in * rows * columns,
        run,
        shape.input_loads * np.where(single, 1, shape.inputs),
    )


def _gathered(shape: _Shape, rows: Numbers, columns: Numbers) -> Traffic:
    """Return the traffic of windows of packed lines, one GATHER per load. A GATHER reads the bytes of a row
    once; the data path waits while it writes an element per cycle.

    Args:
        rows, columns: rows and columns of windows that all tiles read.
    """
    work = shape.work
    element = work.config.element_bytes(MemoryType.INP)
    of_row = columns * work.step + shape.across * (element - work.step)  # bytes
    beats = (of_row / work.config.bus_bytes + shape.across) * work.memory.cycles_per_beat
    bursts = rows * (of_row / work.config.burst_bytes + shape.across)
    cycles: FloatArray = np.maximum(beats, columns)
    return Traffic(rows * cycles, bursts, shape.input_loads)


def _interleaved(shape: _Shape, elements: Numbers, run: Numbers, lines: Numbers) -> Traffic:
    """Return the traffic of interleaved inputs: whole runs by GATHERs, or single elements by LOADs."""
    work, instructions = shape.work, shape.input_loads * shape.inputs * lines
    if uses_gathers(work.reads, work.config):
        return _traffic(work, MemoryType.INP, elements * work.reads, run * work.reads, instructions)
    return _traffic(work, MemoryType.INP, elements, np.ones_like(elements), instructions)


def _lines_read(
    extent: int, sizes: IntArray, window: tuple[int, int, int], before: int, length: int
) -> IntArray:
    """Return int64[n]: lines of the input that all tiles read together along an axis, halo included.

    Args:
        extent: lines of the result.
        sizes: int64[n], lines of the result per tile.
        window: kernel, stride and dilation.
        before: lines of padding before the input.
        length: lines of the input.
    """
    kernel, stride, dilation = window
    totals = np.zeros(sizes.max(initial=0) + 1, np.int64)  # by size
    for size in set(sizes.tolist()):
        first = np.arange(0, extent, size)
        low = first * stride - before
        high = low + (np.minimum(size, extent - first) - 1) * stride + dilation * (kernel - 1) + 1
        totals[size] = np.maximum(np.minimum(high, length) - np.maximum(low, 0), 0).sum()
    return totals[sizes]


def _weights(shape: _Shape) -> Traffic:
    """Return the traffic of weights: once per tile, or once for all tiles of the same outputs. The weights of
    a chunk are contiguous, and so are the weights of an output block."""
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
    """Return the traffic of outputs: a STORE per block of a tile; whole rows are contiguous. Interleaved
    blocks take a STORE per row, unless rows are whole."""
    whole = shape.across == 1
    run = shape.table.columns * np.where(whole, shape.table.rows, 1)
    stores, elements = shape.tiles * shape.table.outputs, np.full_like(run, shape.blocks_out * shape.pixels)
    if shape.work.writes > 1:
        stores, run = stores * np.where(whole, 1, shape.table.rows), np.ones_like(run)
    return _traffic(shape.work, MemoryType.OUT, elements, run, stores)


def _cycles_of_requests(moved: Traffic, latency: int, in_flight: int) -> FloatArray:
    """Return the cycles of traffic that are bounded by the requests in flight: half of a burst is transferred
    before the next request."""
    return (moved.bursts * latency + moved.beats / 2) / in_flight


def _other_beats(shape: _Shape, *moved: Traffic) -> FloatArray:
    """Return the beats of parameters and of instructions; each chunk has a GEMM."""
    work = shape.work
    sets = work.sets if work.keeps_parameters else shape.parameter_sets
    parameters = sets * len(Parameter) * work.config.element_bytes(MemoryType.ACC) if work.scales else 0
    count = shape.chunks + shape.tiles + sum(traffic.instructions for traffic in moved)
    moved_bytes = parameters + work.config.instruction_bytes * count
    return moved_bytes / work.config.bus_bytes * work.memory.cycles_per_beat


def _load_cycles(repeated: Traffic, work: TilingProblem) -> FloatArray:
    """Return the cycles of repeated loads without other traffic, bounded by the bus, the requests in flight,
    or the LOADs in progress."""
    latency, in_flight = work.memory.latency, min(work.config.max_requests, work.memory.depth)
    by_requests = _cycles_of_requests(repeated, latency, in_flight)
    by_instructions = (repeated.instructions * latency + repeated.beats) / LOADS_IN_PROGRESS
    return np.maximum(np.maximum(repeated.beats, by_requests), by_instructions)


def _steady_cycles(
    shape: _Shape,
    repeated: Traffic,
    load: FloatArray,
    store: FloatArray,
    memory: FloatArray,
    first: FloatArray,
    stalls: FloatArray,
) -> FloatArray:
    """Return the cycles of loads, products and stores: their sum for a single thread, else the greatest bound
    with interference.

    The `first` beats precede the steady state, and memory is idle during the last chunk.
    """
    work, threads = shape.work, shape.work.threads
    # chunks of a thread, in sequence
    chain = shape.steps + load + shape.chunks * (work.memory.latency + HANDOVER_CYCLES)
    if threads == 1:
        return chain + store + stalls
    # tiles of a thread: sums, then their store
    tiles = shape.steps + store + shape.tiles * (_reads_ahead(work, repeated, shape) + HANDOVER_CYCLES)
    compute = shape.steps + shape.store_slots + GEMM_CYCLES * shape.chunks + first + stalls
    bus = np.maximum(np.maximum(memory, load), store) + shape.steps / shape.chunks + BUS_STALLS * stalls
    bounds = np.stack(np.broadcast_arrays(compute, bus, chain / threads + first, tiles / threads + first))
    greatest = bounds.max(axis=0)
    nearness = ((bounds / greatest) ** SHARPNESS).sum(axis=0) - 1
    cycles: FloatArray = greatest * (1 + DISTURBANCE * nearness)
    return cycles


def _waits_for_sums(shape: _Shape, repeated: Traffic, store: FloatArray) -> FloatArray:
    """Return the cycles that the first instruction of a tile waits for the store of its thread's preceding
    tile, in whose place it writes sums. The last chunks of the other threads hide a part of that. A single
    thread waits for all of its stores anyway."""
    work = shape.work
    if work.threads == 1:
        return np.zeros_like(store)
    stored = work.memory.latency + HANDOVER_CYCLES + store / shape.tiles + _reads_ahead(work, repeated, shape)
    hidden = (work.threads - 1) * shape.steps / shape.chunks
    waits: FloatArray = shape.tiles / work.threads * np.maximum(stored - hidden, 0)
    return waits


def _reads_ahead(work: TilingProblem, repeated: Traffic, shape: _Shape) -> FloatArray:
    """Return the beats of reads that precede a store in the memory queue."""
    in_flight = min(work.config.max_requests, work.memory.depth)
    of_requests = in_flight * repeated.beats / np.maximum(repeated.bursts, 1)
    ahead: FloatArray = np.minimum(repeated.beats / shape.chunks, of_requests)
    return ahead


def _refills(shape: _Shape, inp: Traffic, wgt: Traffic) -> tuple[FloatArray, FloatArray]:
    """Return the number of times that kept operands are replaced, and the beats of each replacement. The
    compute unit stalls during a replacement."""
    table = shape.table
    apart = np.where(table.threads_over == LOOPS.index(ROWS), 1, shape.work.threads)
    loads = np.where(table.kept(WEIGHTS), shape.weight_loads / apart, 1)
    loads = np.where(table.kept(INPUTS), shape.input_loads, loads)
    beats = inp.only(table.kept(INPUTS)).beats + wgt.only(table.kept(WEIGHTS)).beats
    return loads - 1.0, beats / loads
