"""Nearest-neighbour upsampling of an image by integer factors."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from vdla.compiler.ir.nodes import Func
from vdla.compiler.tasks.base import BUS_BOUND_THREADS, Choice, PartedTask, parse_program
from vdla.compiler.tasks.plane_tile import PlaneTile, plane_tile
from vdla.compiler.tasks.program_text import joined, nest
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
