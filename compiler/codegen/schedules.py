"""Default schedules of the operators, for any configuration and size: tiles that fit, chosen by an estimate of their cycles."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.ir.nodes import IrError, Scope
from vdla.compiler.te.operators import Convolution, Operator, Sum, blocks
from vdla.compiler.te.schedule import Schedule, StageHandle, create_schedule
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memory import REFERENCE_MEMORY
from vdla.hw.spec.vocabulary import MemoryType


@dataclass(frozen=True, slots=True)
class Tiles:
    """What one virtual thread computes at a time, and what is kept.

    Attributes:
        outputs, rows, columns: of the result; outputs in blocks.
        inputs: blocks of input channels that are added up at a time.
        keeps_weights: weights are loaded once for all rows and columns.
        threads_over: the loop that becomes virtual threads: "outputs" or "rows".
        stores_early: results are narrowed and stored a block of outputs at a time, so that stores begin early.
    """

    outputs: int
    rows: int
    columns: int
    inputs: int
    keeps_weights: bool = False
    threads_over: str = "outputs"
    stores_early: bool = False


def divisors(value: int) -> list[int]:
    """Return every number that divides `value`."""
    return [number for number in range(1, value + 1) if value % number == 0]


def ranked_tiles(size: Convolution, config: AcceleratorConfig, threads: int) -> list[Tiles]:
    """Return the tiles that fit the memories `threads` times, those of least estimated cycles first.

    Raises:
        IrError: none fits.
    """
    fitting = [tiles for tiles in _candidates(size, config, threads) if _fits(tiles, size, config, threads)]
    if not fitting:
        raise IrError(f"no tile of {size} fits the memories of {config.name} {threads} times; use fewer virtual threads")
    return sorted(fitting, key=lambda tiles: estimated_cycles(tiles, size, config, threads))


def _candidates(size: Convolution, config: AcceleratorConfig, threads: int) -> Iterator[Tiles]:
    outputs, inputs = blocks(size.outputs, config.block_out), blocks(size.channels, config.block_in)
    height, width = size.out_size
    for o, y, x, c, keeps, early in product(divisors(outputs), divisors(height), divisors(width), divisors(inputs), *[(False, True)] * 2):
        if (outputs // o) % threads == 0:
            yield Tiles(o, y, x, c, keeps, "outputs", early)
        if (height // y) % threads == 0:
            yield Tiles(o, y, x, c, keeps, "rows", early)


def _footprint(tiles: Tiles, size: Convolution) -> tuple[int, int, int]:
    """Return the elements of input, weight and accumulators that a tile needs at a time."""
    strides = (1 if size.skips_rows else size.stride[0], size.stride[1])
    rows, columns = ((count - 1) * stride + dilation * (kernel - 1) + 1 for count, stride, dilation, kernel in zip(
        (tiles.rows, tiles.columns), strides, size.dilation, size.kernel, strict=True))
    return tiles.inputs * rows * columns, tiles.outputs * tiles.inputs * prod(size.kernel), tiles.outputs * tiles.rows * tiles.columns


def _weights_at_once(tiles: Tiles, size: Convolution, config: AcceleratorConfig, threads: int) -> int:
    """Return the weights that stand on chip at a time, for all threads."""
    _, wgt, _ = _footprint(tiles, size)
    if not tiles.keeps_weights:
        return threads * wgt
    chunks = blocks(size.channels, config.block_in) // tiles.inputs
    return wgt * chunks * (threads if tiles.threads_over == "outputs" else 1)


def _fits(tiles: Tiles, size: Convolution, config: AcceleratorConfig, threads: int) -> bool:
    inp, wgt, acc = _footprint(tiles, size)
    return (threads * inp <= config.depth(MemoryType.INP) and threads * acc <= config.depth(MemoryType.ACC)
            and _weights_at_once(tiles, size, config, threads) <= config.depth(MemoryType.WGT) and 4 * wgt <= config.depth(MemoryType.UOP))


def estimated_cycles(tiles: Tiles, size: Convolution, config: AcceleratorConfig, threads: int) -> float:
    """Return about how many cycles a convolution takes: work and transfers overlap where there are threads, the first and last do not."""
    inp, wgt, acc = _footprint(tiles, size)
    bytes_of = {memory: config.element_bytes(memory) for memory in MemoryType}
    outputs, inputs = blocks(size.outputs, config.block_out), blocks(size.channels, config.block_in)
    spots = prod(size.out_size) // (tiles.rows * tiles.columns) * (outputs // tiles.outputs) * blocks(size.batch, config.batch)
    chunks = inputs // tiles.inputs
    weights = wgt * bytes_of[MemoryType.WGT] / config.bus_bytes
    load, store = inp * bytes_of[MemoryType.INP] / config.bus_bytes, acc * bytes_of[MemoryType.OUT] / config.bus_bytes
    steps = acc * tiles.inputs * prod(size.kernel)
    weight_loads = chunks * (outputs // tiles.outputs if tiles.keeps_weights else spots)
    compute, moved = spots * (chunks * steps + acc), spots * (chunks * load + store) + weight_loads * weights
    first = weights * (threads * chunks if tiles.keeps_weights and tiles.threads_over == "outputs" else chunks if tiles.keeps_weights else 1)
    last = (acc + store) / (tiles.outputs if tiles.stores_early else 1) + store
    ends = load + first + last + 2 * REFERENCE_MEMORY.latency
    waits = 20 * spots * chunks  # tokens between units
    return max(compute + waits, moved) + ends if threads > 1 else compute + moved + REFERENCE_MEMORY.latency * spots * chunks


def schedule_conv2d(operator: Operator, size: Convolution, config: AcceleratorConfig, *, shift: int, rectifies: bool = False,
                    threads: int = 2, tiles: Tiles | None = None) -> Schedule:
    """Return the schedule of a convolution: output tiles, each summed over chunks of input blocks, in `threads` virtual threads."""
    tiles = tiles or ranked_tiles(size, config, threads)[0]
    schedule, intrinsics = create_schedule(operator.out), accelerator(config)
    source = operator.padded or schedule.cache_read(operator.inp, Scope.INPUT, [operator.total], name="XL")
    weights = schedule.cache_read(operator.wgt, Scope.WEIGHT, [operator.total], name="WL")
    schedule[source].set_scope(Scope.INPUT)
    for tensor in (operator.total, operator.narrowed):
        schedule[tensor].set_scope(Scope.ACCUMULATOR)
    outputs_loop, place = _tile_outputs(schedule, operator, tiles, threads)
    schedule[operator.narrowed].compute_at(operator.out, _first_inner(schedule, operator, place) if tiles.stores_early else place)
    schedule[operator.total].compute_at(operator.out, place)
    chunk = _order_sums(schedule, operator, tiles)
    schedule[source].compute_at(operator.total, chunk)
    if tiles.keeps_weights:
        schedule[weights].compute_at(operator.out, outputs_loop)
    else:
        schedule[weights].compute_at(operator.total, chunk)
    for tensor, intrinsic in ((source, intrinsics.load_inp), (weights, intrinsics.load_wgt), (operator.total, intrinsics.gemm),
                              (operator.narrowed, intrinsics.requantise(shift, rectifies=rectifies)), (operator.out, intrinsics.store)):
        schedule[tensor].tensorize(schedule[tensor].axis[4], intrinsic)
    return schedule


def schedule_add(operator: Sum, config: AcceleratorConfig, *, shift: int = 0, rectifies: bool = False, threads: int = 2) -> Schedule:
    """Return the schedule of an element-wise sum: tiles of the most elements that fit, in `threads` virtual threads."""
    schedule, intrinsics = create_schedule(operator.out), accelerator(config)
    elements, _, _ = operator.out.shape
    most = config.depth(MemoryType.ACC) // (2 * threads)
    handle = schedule[operator.out]
    e, b, j = handle.axis
    outer, inner = handle.split(e, min(most, blocks(elements, threads)))
    tiles, thread = handle.split(outer, threads)
    handle.reorder(tiles, thread, inner, b, j)
    handle.vthread(thread)
    for tensor in (operator.narrowed, operator.total, operator.wide_right, operator.wide_left):
        schedule[tensor].set_scope(Scope.ACCUMULATOR)
        schedule[tensor].compute_at(operator.out, thread)
    for tensor, intrinsic in ((operator.wide_left, intrinsics.load_acc), (operator.wide_right, intrinsics.load_acc), (operator.total, intrinsics.alu),
                              (operator.narrowed, intrinsics.requantise(shift, rectifies=rectifies)), (operator.out, intrinsics.store)):
        schedule[tensor].tensorize(schedule[tensor].axis[1], intrinsic)
    return schedule


def _tile_outputs(schedule: Schedule, operator: Operator, tiles: Tiles, threads: int) -> tuple[str, str]:
    """Tile the loops of the result; return the loop over tiles of outputs, and the innermost loop around a tile."""
    handle = schedule[operator.out]
    n, o, y, x, b, j = handle.axis
    outer_o, inner_o = handle.split(o, tiles.outputs)
    outer_y, inner_y = handle.split(y, tiles.rows)
    outer_x, inner_x = handle.split(x, tiles.columns)
    order = [n, outer_o, outer_y, outer_x]
    if threads > 1:
        order = _with_threads(handle, order, outer_o if tiles.threads_over == "outputs" else outer_y, threads)
    handle.reorder(*order, inner_o, inner_y, inner_x, b, j)
    return order[1], order[-1]


def _first_inner(schedule: Schedule, operator: Operator, place: str) -> str:
    """Return the loop inside `place`: the one over blocks of outputs of a tile."""
    loops = schedule[operator.out].loops
    return loops[loops.index(place) + 1]


def _with_threads(handle: StageHandle, order: list[str], loop: str, threads: int) -> list[str]:
    """Make virtual threads of a loop; return the loops in order, threads innermost."""
    outer, thread = handle.split(loop, threads)
    handle.vthread(thread)
    return [*(outer if name == loop else name for name in order), thread]


def _order_sums(schedule: Schedule, operator: Operator, tiles: Tiles) -> str:
    """Order the loops of the sums, chunks of input blocks outermost; return the loop over chunks."""
    handle = schedule[operator.total]
    n, o, y, x, b, j = handle.axis
    ci, dy, dx, k = handle.reduce_axis
    chunk, inner = handle.split(ci, tiles.inputs)
    handle.reorder(chunk, n, o, y, x, inner, dy, dx, b, j, k)
    return chunk
