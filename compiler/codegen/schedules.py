"""Default schedules of the operators, for any configuration and size."""

from collections.abc import Iterable, Sequence

from vdla.compiler.codegen.estimate import ranked_tiles
from vdla.compiler.codegen.intrinsics import Accelerator, accelerator
from vdla.compiler.codegen.nest import TILE_RANK
from vdla.compiler.codegen.tiles import GROUPS, INPUTS, OUTPUTS, ROWS, WEIGHTS, Tiles, Work
from vdla.compiler.ir.nodes import Intrinsic, IrError, Scope
from vdla.compiler.te.operators.convolution import Product
from vdla.compiler.te.operators.elementwise import Elementwise
from vdla.compiler.te.operators.narrowing import Narrowed
from vdla.compiler.te.operators.pooling import Maximum
from vdla.compiler.te.operators.sizes import Convolution, Pooling, blocks
from vdla.compiler.te.schedule import Schedule, StageHandle, create_schedule
from vdla.compiler.te.tensor import Tensor
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import MOST_PARAMETER_SETS
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter

COLUMNS = "columns"  # the loop over tiles of columns, beside those that become virtual threads


def schedule_conv2d(
    operator: Product,
    size: Convolution,
    config: AcceleratorConfig,
    *,
    threads: int = 2,
    tiles: Tiles | None = None,
) -> Schedule:
    """Return the schedule of a convolution, in `threads` virtual threads.

    Output tiles are accumulated over chunks of input blocks.
    """
    work = Work(size, config, threads, operator.narrowed.parameters is not None, slides=operator.slides)
    tiles = tiles or ranked_tiles(work, 1)[0]
    schedule, intrinsics = create_schedule(operator.out), accelerator(config)
    sums = intrinsics.slide if operator.slides else intrinsics.gemm
    source = operator.padded or schedule.cache_read(operator.inp, Scope.INPUT, [operator.total], name="XL")
    weights = schedule.cache_read(operator.wgt, Scope.WEIGHT, [operator.total], name="WL", whole=TILE_RANK)
    schedule[source].set_scope(Scope.INPUT)
    schedule[operator.total].set_scope(Scope.ACCUMULATOR)
    outputs_loop, pixels_loop, place = _tile_outputs(schedule, operator, tiles, threads)
    _narrow(schedule, operator.narrowed, place, None if work.keeps_parameters else outputs_loop, intrinsics)
    schedule[operator.total].compute_at(operator.out, place)
    chunk = _order_sums(schedule, operator, tiles)
    for stage, what, loop in ((source, INPUTS, pixels_loop), (weights, WEIGHTS, outputs_loop)):
        at = (operator.out, loop) if tiles.keeps == what else (operator.total, chunk)
        schedule[stage].compute_at(*at)
    _tensorize(
        schedule,
        ((source, intrinsics.load_inp), (weights, intrinsics.load_wgt), (operator.total, sums)),
    )
    return schedule


def schedule_max_pool(
    operator: Maximum, size: Pooling, config: AcceleratorConfig, *, threads: int = 2, parts: int = 1
) -> Schedule:
    """Return the schedule of a max pooling in `threads` virtual threads: tiles of the most rows that fit
    `parts` times for each."""
    schedule, intrinsics = create_schedule(operator.out), accelerator(config)
    handle = schedule[operator.out]
    n, c, y, x, b, j = handle.axis
    tile = pooling_tile(size, config, threads * parts)
    if tile is None:
        raise IrError(
            f"a window of {size.kernel} does not fit the accumulators of {config.name} {threads * parts} "
            f"times: they hold {config.depth(MemoryType.ACC)} elements; use fewer virtual threads or parts"
        )
    rows, columns = tile
    outer_y, inner_y = handle.split(y, rows)
    outer_x, inner_x = handle.split(x, columns)
    outer, thread = _threads(handle, outer_y, threads)
    handle.reorder(n, c, outer_x, outer, *thread, inner_y, inner_x, b, j)
    place = [outer, *thread][-1]
    for tensor in (operator.greatest, operator.wide):
        schedule[tensor].set_scope(Scope.ACCUMULATOR)
        schedule[tensor].compute_at(operator.out, place)
    greatest = schedule[operator.greatest]
    dy, dx = greatest.reduce_axis
    own = greatest.axis
    greatest.reorder(*own[:2], dy, dx, *own[2:])
    _tensorize(
        schedule,
        (
            (operator.wide, intrinsics.load_acc),
            (operator.greatest, intrinsics.alu),
            (operator.out, intrinsics.store),
        ),
    )
    return schedule


def schedule_elementwise(
    operator: Elementwise, config: AcceleratorConfig, *, threads: int = 2, parts: int = 1
) -> Schedule:
    """Return the schedule of an element-wise operator, in `threads` virtual threads.

    Tiles hold the most elements that fit `parts` times for each.
    """
    schedule, intrinsics = create_schedule(operator.out), accelerator(config)
    _, elements, *_ = operator.out.shape
    parameters = operator.narrowed.parameters
    sets = 0 if parameters is None else parameters.shape[0]
    keeps = _keeps_parameters(sets, config)
    most = elements_at_a_time(config, sets, len(operator.inputs), threads * parts)
    handle = schedule[operator.out]
    c, e, b, j = handle.axis
    outer, inner = handle.split(e, max(1, min(most, blocks(elements, threads * parts))))
    outer, thread = _threads(handle, outer, threads)
    handle.reorder(c, outer, *thread, inner, b, j)
    place = [outer, *thread][-1]
    _narrow(schedule, operator.narrowed, place, None if keeps else c, intrinsics)
    for tensor in (*reversed(operator.passes), *reversed(operator.wide)):
        schedule[tensor].set_scope(Scope.ACCUMULATOR)
        schedule[tensor].compute_at(operator.out, place)
    _tensorize(
        schedule,
        [(tensor, intrinsics.load_acc) for tensor in operator.wide]
        + [(tensor, intrinsics.alu) for tensor in operator.passes],
    )
    return schedule


def elements_at_a_time(config: AcceleratorConfig, sets: int, operands: int, threads: int) -> int:
    """Return the elements that fit the accumulators `threads` times, for each operand, beside `sets` of
    parameters; less than 1 where none does."""
    kept = sets if _keeps_parameters(sets, config) else 1
    return (config.depth(MemoryType.ACC) - len(Parameter) * kept) // (operands * threads)


def _keeps_parameters(sets: int, config: AcceleratorConfig) -> bool:
    """Whether the parameters of an operator on elements stand on chip at once."""
    return sets <= min(MOST_PARAMETER_SETS, config.depth(MemoryType.ACC) // (4 * len(Parameter)))


def _tensorize(schedule: Schedule, intrinsics: Iterable[tuple[Tensor, Sequence[Intrinsic]]]) -> None:
    """Put an intrinsic in place of the last two loops over each tensor, those of an element."""
    for tensor, those in intrinsics:
        schedule[tensor].tensorize(schedule[tensor].axis[-2], those)


def _narrow(
    schedule: Schedule, narrowed: Narrowed, place: str, parameters_at: str | None, intrinsics: Accelerator
) -> None:
    """Let passes be carried out at `place`, and parameters be loaded at their loop, or all of them at
    first."""
    for tensor in reversed(narrowed.passes):
        schedule[tensor].set_scope(Scope.ACCUMULATOR)
        schedule[tensor].compute_at(narrowed.out, place)
    _tensorize(schedule, [(tensor, intrinsics.alu) for tensor in narrowed.passes])
    if narrowed.parameters is not None:
        if not intrinsics.config.has(Extension.REQUANTISE):
            raise IrError(
                f"requantisation by parameters needs the extension {Extension.REQUANTISE}, which "
                f"{intrinsics.config.name} "
                "has switched off; switch it on, or narrow by a Shift"
            )
        kept = schedule.cache_read(narrowed.parameters, Scope.PARAMETERS, [narrowed.out], name="PL")
        if parameters_at is not None:
            schedule[kept].compute_at(narrowed.out, parameters_at)
        _tensorize(schedule, [(kept, intrinsics.load_parameters)])
    _tensorize(schedule, [(narrowed.out, intrinsics.store)])


def _tile_outputs(schedule: Schedule, operator: Product, tiles: Tiles, threads: int) -> tuple[str, str, str]:
    """Tile the loops of the result; return the loops over tiles of outputs and of columns, and the innermost
    loop around a tile. The loop over tiles of outputs is within those of pixels where inputs are kept."""
    handle = schedule[operator.out]
    axes = _named_axes(operator.out, handle)
    outer_o, inner_o = handle.split(axes["o"], tiles.outputs)
    outer_y, inner_y = handle.split(axes["y"], tiles.rows)
    outer_x, inner_x = handle.split(axes["x"], tiles.columns)
    loops = {name: axes[name] for name in operator.outer}
    tiled = {OUTPUTS: outer_o, ROWS: outer_y, COLUMNS: outer_x}
    first = (ROWS, COLUMNS, OUTPUTS) if tiles.keeps == INPUTS else (OUTPUTS, ROWS, COLUMNS)
    loops |= {name: tiled[name] for name in first}
    threaded = operator.outer[-1] if tiles.threads_over == GROUPS else tiles.threads_over
    loops[threaded], thread = _threads(handle, loops[threaded], threads)
    order = [*loops.values(), *thread]
    handle.reorder(*order, inner_o, inner_y, inner_x, axes["b"], axes["j"])
    return loops[OUTPUTS], loops[COLUMNS], order[-1]


def _named_axes(tensor: Tensor, handle: StageHandle) -> dict[str, str]:
    """Return the loops of a stage by the names that the tensor's axes have in its statement."""
    return dict(zip((axis.name for axis in tensor.axes), handle.axis, strict=True))


def _threads(handle: StageHandle, loop: str, threads: int) -> tuple[str, list[str]]:
    """Make virtual threads of a loop; return what is left of it, and the loop over threads if there is more
    than one."""
    if threads == 1:
        return loop, []
    outer, thread = handle.split(loop, threads)
    handle.vthread(thread)
    return outer, [thread]


def _order_sums(schedule: Schedule, operator: Product, tiles: Tiles) -> str:
    """Order the loops of the sums, chunks of input blocks outermost; return the loop over chunks."""
    handle = schedule[operator.total]
    axes = _named_axes(operator.total, handle)
    ci, dy, dx, *of_element = handle.reduce_axis
    chunk, inner = handle.split(ci, tiles.inputs)
    around = (axes[name] for name in (*operator.outer, "o", "y", "x"))
    handle.reorder(chunk, *around, inner, dy, dx, axes["b"], axes["j"], *of_element)
    return chunk


def pooling_tile(size: Pooling, config: AcceleratorConfig, threads: int) -> tuple[int, int] | None:
    """Return the rows and columns of the largest tile whose window and result fit the accumulators `threads`
    times; None where none does."""
    room, (height, width) = config.depth(MemoryType.ACC) // threads, size.out_size

    def elements(rows: int, columns: int) -> int:
        return rows * columns + ((rows - 1) * size.stride[0] + size.kernel[0]) * (
            (columns - 1) * size.stride[1] + size.kernel[1]
        )

    whole = [(rows, width) for rows in range(blocks(height, threads), 0, -1)]
    partial = [(1, columns) for columns in range(width - 1, 0, -1)]
    return next((tile for tile in (*whole, *partial) if elements(*tile) <= room), None)
