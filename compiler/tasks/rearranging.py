"""Rearrangements of activations in DRAM: upsampling by integer factors, and conversion to weights.

A product of two activations is a convolution with an activation as its weights. A block of weights has
`block_out` rows of `block_in` numbers. Rows of activations have this form already if the product sums over
their channels (`RowsTask`). If it sums over the rows, the blocks are transposed (`TurnTask`): the product of
the weights and a one-hot input is a column of the weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from vdla.compiler.ir.nodes import Func, Scope
from vdla.compiler.tasks.base import BUS_BOUND_THREADS, Choice, PartedTask, PlaneTile, plane_tile
from vdla.compiler.tasks.program_text import (
    IDENTITY,
    ChipBuffer,
    ConstantOperand,
    nest,
    operand_type,
    parse_program,
    threaded,
)
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
        loops, block, row = tile.loops(self.blocks, self.height, choice.threads)
        multiplies = config.block_in == config.block_out
        body = (self._products if multiplies else self._elements)(tile, config, block, row)
        (down, across), (height, width) = self.factors, (self.height, self.width)
        operands = {
            "X": operand_type(config, self.blocks, height, width, self.parts),
            "Z": operand_type(config, self.blocks, height, down, width, across, self.parts),
        }
        return parse_program(operands, [threaded(loops, body)], config, [IDENTITY] * multiplies)

    def _products(self, tile: PlaneTile, config: AcceleratorConfig, block: str, row: str) -> Iterator[str]:
        """Yield the statements of a tile: a product with the identity per horizontal copy."""
        each = {"c": tile.blocks, "y": tile.elements, "x": self.width}
        image = ChipBuffer("XL", Scope.INPUT, each, config)
        copies = ChipBuffer("S", Scope.ACCUMULATOR, {**each, "d": self.factors[1]}, config)
        yield image.loaded(f"X[{block} + c, {row} + y, x, 0, 0, 0]")
        yield copies.zeros()
        yield copies.each(f"gemm({copies.element}, {image.element}, WL[0, 0, 0])")
        for copy in range(self.factors[0]):
            yield copies.each(f"store(Z[{block} + c, {row} + y, {copy}, x, d, 0, 0, 0], {copies.element})")

    def _elements(self, tile: PlaneTile, config: AcceleratorConfig, block: str, row: str) -> Iterator[str]:
        """Yield the statements of a tile: elements in the accumulators, stored once per copy."""
        each = {"c": tile.blocks, "y": tile.elements, "x": self.width, "p": self.parts}
        image = ChipBuffer("S", Scope.ACCUMULATOR, each, config)
        yield image.loaded(f"X[{block} + c, {row} + y, x, p, 0, 0]")
        for down in range(self.factors[0]):
            for copy in range(self.factors[1]):
                place = f"Z[{block} + c, {row} + y, {down}, x, {copy}, p, 0, 0]"
                yield image.each(f"store({place}, {image.element})")


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
        begin, column = whole * tile, f"outer * {threads} + thread"
        shared = {"outer": self.blocks // threads, "thread": threads}

        def statements() -> Iterator[str]:
            """Yield the statements of the program."""
            if whole:
                body = _rows("M", column, f"part * {tile}", f"part * {tile // o}", tile, config)
                yield threaded({"part": whole, **shared}, body)
            rest = self.rows - begin
            yield threaded(shared, _rows("R", column, str(begin), str(begin // o), rest, config))

        operands = {
            "B": operand_type(config, self.blocks, self.rows),
            "D": f"int8[{blocks(self.rows, o)}, {self.pitch or self.blocks}, {o}, 1, {o}]",
        }
        return parse_program(operands, statements(), config, [ConstantOperand("U", Scope.WEIGHT)])


def _rows(
    name: str, column: str, row: str, block: str, count: int, config: AcceleratorConfig
) -> Iterator[str]:
    """Yield the statements for `count` rows of channel block `column`, from row `row` and block of weights
    `block` on. Names of buffers and loops begin with `name`."""
    o, e, r = config.block_out, f"{name}_e", f"{name}_r"
    high = blocks(count, o)
    rows = ChipBuffer(f"{name}A", Scope.INPUT, {e: count}, config)
    weights = ChipBuffer(f"{name}S", Scope.ACCUMULATOR, {e: high * o}, config)
    yield rows.loaded(f"B[{column}, {row} + {e}, 0, 0]")
    yield weights.zeros()
    yield rows.each(f"gemm({weights.element}, {rows.element}, UL[0, 0, 0])")
    place = f"D[{block} + {r}, {column}, {e}, 0, 0]"
    yield nest({r: high, e: o}, f"store({place}, {name}S[{r} * {o} + {e}, 0, 0])")


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
        loops, row, column = tile.loops(self.rows, self.columns, choice.threads)
        weights = ChipBuffer("WL", Scope.WEIGHT, each, config)
        turned = ChipBuffer("S", Scope.ACCUMULATOR, {**each, "n": o}, config)
        body = (
            weights.loaded(f"B[{row} + r, {column} + c, 0, 0]"),
            turned.zeros(),
            turned.each(f"gemm({turned.element}, UL[n, 0, 0], {weights.element})"),
            turned.each(f"store(D[{column} + c, {row} + r, n, 0, 0], {turned.element})"),
        )
        operands = {
            "B": f"int8[{self.rows}, {self.columns}, {o}, {o}]",
            "D": f"int8[{self.columns}, {self.pitch or self.rows}, {o}, 1, {o}]",
        }
        units = ConstantOperand("U", Scope.INPUT, o)
        return parse_program(operands, [threaded(loops, body)], config, [units])
