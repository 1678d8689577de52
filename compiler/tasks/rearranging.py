"""Rearrangements of activations in DRAM: upsampling by integer factors, and conversion to weights.

A product of two activations is a convolution with an activation as its weights. A block of weights has
`block_out` rows of `block_in` numbers. Rows of activations have this form already if the product sums over
their channels (`RowsTask`). If it sums over the rows, the blocks are transposed (`TurnTask`): the product of
the weights and a one-hot input is a column of the weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from vdla.compiler.ir.nodes import Func
from vdla.compiler.tasks.base import BUS_BOUND_THREADS, Choice, PartedTask, parse_program
from vdla.compiler.tasks.plane_tile import PlaneTile, plane_tile
from vdla.compiler.tasks.program_text import joined, nest
from vdla.compiler.te.operators.sizes import blocks
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType


@dataclass(frozen=True, slots=True)
class RepeatTask(PartedTask[PlaneTile]):
    """Nearest-neighbour upsampling of an image.

    The accumulators hold the horizontal copies of each pixel; a row is stored once per vertical copy. If
    `block_in` and `block_out` differ, the image is loaded into the accumulators without copies, and each
    horizontal copy has a STORE.

    Attributes:
        blocks: number of channel blocks in DRAM.
        height, width: size of the input, in pixels.
        factors: vertical and horizontal scale.
        parts: number of elements per pixel of a block, of `block_out` numbers each.

    Source: ONNX operator Resize, mode nearest.
    """

    blocks: int
    height: int
    width: int
    factors: tuple[int, int]
    parts: int = 1
    THREADS: ClassVar[tuple[int, ...]] = BUS_BOUND_THREADS
    SMALLEST: ClassVar[str] = "one row of a repeated image"

    def tile(self, config: AcceleratorConfig, copies: int) -> PlaneTile | None:
        """Return the tile, in channel blocks and rows; see `PartedTask.tile`."""
        if config.block_in != config.block_out:
            room = config.depth(MemoryType.ACC) // (self.width * self.parts)
            return plane_tile(self.blocks, self.height, room, copies)
        room = min(
            config.depth(MemoryType.INP) // self.width,
            config.depth(MemoryType.ACC) // (self.width * self.factors[1]),
        )
        return plane_tile(self.blocks, self.height, room, copies)

    def tiled(self, tile: PlaneTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program that repeats the pixels of X: int8[blocks, height, width, parts, batch,
        block].

        The parameters of the program are the image X, the identity weights W, if `block_in` equals
        `block_out`, and the result Z.
        """
        (down, across), (b, o) = self.factors, (config.batch, config.block_out)
        multiplies = config.block_in == config.block_out
        weights = {"W": f"int8[1, {o}, {o}]"} if multiplies else {}
        params = {
            "X": f"int8[{self.blocks}, {self.height}, {self.width}, {self.parts}, {b}, {o}]",
            **weights,
            "Z": f"int8[{self.blocks}, {self.height}, {down}, {self.width}, {across}, {self.parts}, "
            f"{b}, {o}]",
        }
        loops, block, row = tile.loops(self.blocks, self.height, choice.threads)
        body = (self._products if multiplies else self._elements)(tile, config, block, row)
        loaded = [nest({"w": 1}, "load_wgt(WL[w, 0, 0], W[w, 0, 0])")] if multiplies else []
        statements = (
            *(f'WL = alloc({shape}, "weight")' for shape in weights.values()),
            *loaded,
            nest(loops, joined(body), threads="thread"),
        )
        return parse_program(params, statements, config)

    def _products(self, tile: PlaneTile, config: AcceleratorConfig, block: str, row: str) -> Iterator[str]:
        """Yield the statements of a tile: a product with the identity per horizontal copy."""
        across, element = self.factors[1], f"{config.batch}, {config.block_out}"
        each = {"c": tile.blocks, "y": tile.elements, "x": self.width}
        place, copies = ", ".join(map(str, each.values())), {**each, "d": across}
        yield f'XL = alloc(int8[{place}, {element}], "input")'
        yield nest(each, f"load_inp(XL[c, y, x, 0, 0], X[{block} + c, {row} + y, x, 0, 0, 0])")
        yield f'S = alloc(int{config.acc_bits}[{place}, {across}, {element}], "accumulator")'
        yield nest(copies, "reset(S[c, y, x, d, 0, 0])")
        yield nest(copies, "gemm(S[c, y, x, d, 0, 0], XL[c, y, x, 0, 0], WL[0, 0, 0])")
        for copy in range(self.factors[0]):
            yield nest(
                copies, f"store(Z[{block} + c, {row} + y, {copy}, x, d, 0, 0, 0], S[c, y, x, d, 0, 0])"
            )

    def _elements(self, tile: PlaneTile, config: AcceleratorConfig, block: str, row: str) -> Iterator[str]:
        """Yield the statements of a tile: elements in the accumulators, stored once per copy."""
        each = {"c": tile.blocks, "y": tile.elements, "x": self.width, "p": self.parts}
        place, sums = ", ".join(map(str, each.values())), "S[c, y, x, p, 0, 0]"
        yield f'S = alloc(int{config.acc_bits}[{place}, {config.batch}, {config.block_out}], "accumulator")'
        yield nest(each, f"load_acc8({sums}, X[{block} + c, {row} + y, x, p, 0, 0])")
        for down in range(self.factors[0]):
            for copy in range(self.factors[1]):
                yield nest(each, f"store(Z[{block} + c, {row} + y, {down}, x, {copy}, p, 0, 0], {sums})")


@dataclass(frozen=True, slots=True)
class RowsTask(PartedTask[int]):
    """Conversion of rows of activations to blocks of weights.

    Attributes:
        blocks: number of channel blocks of a row.
        rows: number of rows.
        pitch: distance of rows of blocks in the weights, in blocks; 0: `blocks`.
    """

    blocks: int
    rows: int
    pitch: int = 0
    SMALLEST: ClassVar[str] = "one block of rows"

    def tile(self, config: AcceleratorConfig, copies: int) -> int | None:
        """Return the rows of a tile, a multiple of `block_out`; see `PartedTask.tile`. Tiles are
        double-buffered: the next tile is loaded during the products."""
        if config.depth(MemoryType.WGT) < 1 or self.blocks % copies:
            return None
        room = min(config.depth(MemoryType.INP), config.depth(MemoryType.ACC)) // (2 * copies)
        return room - room % config.block_out or None

    def tiled(self, tile: int, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program that computes weights D: int8[r, c, block, 1, block] from rows B: int8[c,
        rows, 1, block]; the last block is padded with rows of 0.

        The parameters of the program are the rows B, the identity weights U, and the result D.
        """
        o, threads = config.block_out, choice.threads
        whole = (self.rows - 1) // tile
        rest = self.rows - whole * tile
        params = {
            "B": f"int8[{self.blocks}, {self.rows}, 1, {o}]",
            "U": f"int8[1, {o}, {o}]",
            "D": f"int8[{blocks(self.rows, o)}, {self.pitch or self.blocks}, {o}, 1, {o}]",
        }
        shared = {"outer": self.blocks // threads, "thread": threads}

        def statements() -> Iterator[str]:
            """Yield the statements of the program."""
            yield f'UL = alloc({params["U"]}, "weight")'
            yield nest({"u": 1}, "load_wgt(UL[u, 0, 0], U[u, 0, 0])")
            column = f"outer * {threads} + thread"
            if whole:
                body = joined(_rows("M", column, f"part * {tile}", f"part * {tile // o}", tile, config))
                yield nest({"part": whole, **shared}, body, threads="thread")
            begin = whole * tile
            yield nest(
                shared,
                joined(_rows("R", column, str(begin), str(begin // o), rest, config)),
                threads="thread",
            )

        return parse_program(params, statements(), config)


def _rows(
    name: str, column: str, row: str, block: str, count: int, config: AcceleratorConfig
) -> Iterator[str]:
    """Yield the statements for `count` rows of channel block `column`, from row `row` and block of weights
    `block` on. Names of buffers and loops begin with `name`."""
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


@dataclass(frozen=True, slots=True)
class TurnTask(PartedTask[PlaneTile]):
    """Transposition of blocks of weights.

    Attributes:
        rows, columns: number of blocks.
        pitch: distance of rows of transposed blocks, in blocks; 0: `rows`.
    """

    rows: int
    columns: int
    pitch: int = 0
    SMALLEST: ClassVar[str] = "one block of weights"

    def tile(self, config: AcceleratorConfig, copies: int) -> PlaneTile | None:
        """Return the tile, in rows and columns of blocks; see `PartedTask.tile`."""
        o = config.block_out
        if config.depth(MemoryType.INP) < o:
            return None
        room = min(config.depth(MemoryType.WGT), config.depth(MemoryType.ACC) // o)
        return plane_tile(self.rows, self.columns, room, copies)

    def tiled(self, tile: PlaneTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program that transposes weights B: int8[r, c, block, block] into D: int8[c, r,
        block, 1, block].

        The parameters of the program are the weights B, the inputs U of `one_hot_inputs`, and the result D.
        """
        o, each = config.block_out, {"r": tile.blocks, "c": tile.elements}
        params = {
            "B": f"int8[{self.rows}, {self.columns}, {o}, {o}]",
            "U": f"int8[{o}, 1, {o}]",
            "D": f"int8[{self.columns}, {self.pitch or self.rows}, {o}, 1, {o}]",
        }
        loops, row, column = tile.loops(self.rows, self.columns, choice.threads)
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
        return parse_program(params, statements, config)
