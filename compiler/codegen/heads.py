"""Programs that make weights of activations, for products of two activations.

A block of weights is `block_out` rows of `block_in` numbers. Rows of activations are such rows already, where
a product sums over their channels. Where it sums over the rows, blocks are turned: weights times inputs that
are 1 in one place are a column of the weights.
"""

from collections.abc import Iterator

import numpy as np

from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.codegen.planes import PlaneTile, plane_tile
from vdla.compiler.codegen.tasks import RowsTask, TurnTask
from vdla.compiler.codegen.texts import function, joined, nest
from vdla.compiler.ir.nodes import Func
from vdla.compiler.ir.parse import parse_func
from vdla.compiler.te.operators.sizes import blocks
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType


def single_inputs(config: AcceleratorConfig) -> np.ndarray:
    """Return int8[block_in, 1, block_in]: inputs of which the r-th is 1 in place r, and 0 beside."""
    return np.eye(config.block_in, dtype=np.int8)[:, None, :]


def rows_at_a_time(config: AcceleratorConfig, threads: int) -> int:
    """Return the rows of whole blocks that fit the memories twice for each thread; 0 where none do."""
    if config.depth(MemoryType.WGT) < 1:
        return 0
    room = min(config.depth(MemoryType.INP), config.depth(MemoryType.ACC)) // (2 * threads)
    return room - room % config.block_out


def rows_program(task: RowsTask, config: AcceleratorConfig, *, threads: int, parts: int) -> Func:
    """Return the loop program that makes weights of rows: of int8[c, rows, 1, block] int8[r, c, block, 1,
    block], where the rows beyond the last are 0.

    Its parameters are the rows B, the weights U that multiply by 1, and the result D.
    """
    o, trips = config.block_out, task.blocks // threads
    tile = rows_at_a_time(config, threads * parts)
    whole = (task.rows - 1) // tile
    rest = task.rows - whole * tile
    params = {
        "B": f"int8[{task.blocks}, {task.rows}, 1, {o}]",
        "U": f"int8[1, {o}, {o}]",
        "D": f"int8[{blocks(task.rows, o)}, {task.pitch or task.blocks}, {o}, 1, {o}]",
    }
    shared = {"outer": trips, "thread": threads}

    def statements() -> Iterator[str]:
        """Yield the program, statement by statement."""
        yield f'UL = alloc({params["U"]}, "weight")'
        yield nest({"u": 1}, "load_wgt(UL[u, 0, 0], U[u, 0, 0])")
        column = f"outer * {threads} + thread"
        if whole:
            body = joined(_rows("M", column, f"part * {tile}", f"part * {tile // o}", tile, config))
            yield nest({"part": whole, **shared}, body, threads="thread")
        begin = whole * tile
        yield nest(
            shared, joined(_rows("R", column, str(begin), str(begin // o), rest, config)), threads="thread"
        )

    return parse_func(function(params, statements()), accelerator(config).every)


def _rows(
    name: str, column: str, row: str, block: str, count: int, config: AcceleratorConfig
) -> Iterator[str]:
    """Yield the statements for `count` rows of one block of columns, from a row and its block on; their names
    begin with `name`."""
    o = config.block_out
    high = blocks(count, o)
    e, r = f"{name}_e", f"{name}_r"
    yield f'{name}A = alloc(int8[{count}, 1, {o}], "input")'
    yield nest({e: count}, f"load_inp({name}A[{e}, 0, 0], B[{column}, {row} + {e}, 0, 0])")
    yield f'{name}S = alloc(int{config.acc_bits}[{high * o}, 1, {o}], "accumulator")'
    yield nest({e: high * o}, f"reset({name}S[{e}, 0, 0])")
    yield nest({e: count}, f"gemm({name}S[{e}, 0, 0], {name}A[{e}, 0, 0], UL[0, 0, 0])")
    yield nest(
        {r: high, e: o}, f"store(D[{block} + {r}, {column}, {e}, 0, 0], {name}S[{r} * {o} + {e}, 0, 0])"
    )


def turn_tile(task: TurnTask, config: AcceleratorConfig, threads: int) -> PlaneTile | None:
    """Return the tile of blocks of weights that are turned; None where none fits."""
    o = config.block_out
    if config.depth(MemoryType.INP) < o:
        return None
    room = min(config.depth(MemoryType.WGT), config.depth(MemoryType.ACC) // o)
    return plane_tile(task.rows, task.columns, room, threads)


def turn_program(task: TurnTask, config: AcceleratorConfig, *, threads: int, parts: int) -> Func:
    """Return the loop program that turns blocks of weights: of int8[r, c, block, block] int8[c, r, block, 1,
    block].

    Its parameters are the weights B, the inputs U of `single_inputs`, and the result D.
    """
    tile = turn_tile(task, config, threads * parts)
    assert tile is not None, "the choice is in the task's space"
    o, each = config.block_out, {"r": tile.blocks, "c": tile.elements}
    params = {
        "B": f"int8[{task.rows}, {task.columns}, {o}, {o}]",
        "U": f"int8[{o}, 1, {o}]",
        "D": f"int8[{task.columns}, {task.pitch or task.rows}, {o}, 1, {o}]",
    }
    loops, row, column = tile.loops(task.rows, task.columns, threads)
    body = (
        f'WL = alloc(int8[{tile.blocks}, {tile.elements}, {o}, {o}], "weight")',
        nest(each, f"load_wgt(WL[r, c, 0, 0], B[{row} + r, {column} + c, 0, 0])"),
        f'S = alloc(int{config.acc_bits}[{tile.blocks}, {tile.elements}, {o}, 1, {o}], "accumulator")',
        nest({**each, "n": o}, "reset(S[r, c, n, 0, 0])"),
        nest({**each, "n": o}, "gemm(S[r, c, n, 0, 0], UL[n, 0, 0], WL[r, c, 0, 0])"),
        nest({**each, "n": o}, f"store(D[{column} + c, {row} + r, n, 0, 0], S[r, c, n, 0, 0])"),
    )
    statements = (
        f'UL = alloc({params["U"]}, "input")',
        nest({"n": o}, "load_inp(UL[n, 0, 0], U[n, 0, 0])"),
        nest(loops, joined(body), threads="thread"),
    )
    return parse_func(function(params, statements), accelerator(config).every)
