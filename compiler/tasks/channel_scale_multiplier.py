"""The product of an image with a factor per channel, on the multiplier array.

The factors are computed by the network, not constants. `DiagonalTask` writes the factors of a block of
channels to the diagonal of a block of weights. `FactorsTask` multiplies the image by these weights. The load
unit loads the inputs, so loads overlap with products.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from vdla.compiler.ir.nodes import Func
from vdla.compiler.tasks.base import BUS_BOUND_THREADS, Choice, PartedTask, parse_program
from vdla.compiler.tasks.plane_tile import PlaneTile, plane_tile
from vdla.compiler.tasks.program_text import joined, nest
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType, Parameter

SETS = len(Parameter)
GREATEST = 127  # greatest weight or input


def int8_parts(number: int) -> tuple[int, ...]:
    """Decompose a number from -127 to 128 into a sum of int8 numbers; 0 has no summands."""
    if number > GREATEST:
        return number // 2, number - number // 2
    return (number,) if number else ()


@dataclass(frozen=True, slots=True)
class DiagonalTask(PartedTask[PlaneTile]):
    """Conversion of channel factors to diagonal blocks of weights.

    Attributes:
        blocks: number of channel blocks.
    """

    blocks: int
    SMALLEST: ClassVar[str] = "one block of factors"

    def tile(self, config: AcceleratorConfig, copies: int) -> PlaneTile | None:
        """Return the tile; see `PartedTask.tile`."""
        o = config.block_out
        if config.depth(MemoryType.WGT) < o or config.depth(MemoryType.INP) < o:
            return None
        tile = plane_tile(self.blocks, o, config.depth(MemoryType.ACC), copies)
        return tile if tile is not None and tile.elements == o else None

    def tiled(self, tile: PlaneTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program that computes D: int8[blocks, block, 1, block] from factors int8[blocks, 1,
        block]: the diagonal of each block holds the factors, the rest is 0.

        Its parameters are the factors F, the weights U of `channel_masks`, and the result D.
        """
        o, count = config.block_out, tile.blocks
        params = {
            "F": f"int8[{self.blocks}, 1, {o}]",
            "U": f"int8[{o}, {o}, {o}]",
            "D": f"int8[{self.blocks}, {o}, 1, {o}]",
        }
        loops, block, _ = tile.loops(self.blocks, o, choice.threads)
        each = {"c": count, "r": o}
        body = (
            f'FL = alloc(int8[{count}, 1, {o}], "input")',
            nest({"c": count}, f"load_inp(FL[c, 0, 0], F[{block} + c, 0, 0])"),
            f'S = alloc(int{config.acc_bits}[{count}, {o}, 1, {o}], "accumulator")',
            nest(each, "reset(S[c, r, 0, 0])"),
            nest(each, "gemm(S[c, r, 0, 0], FL[c, 0, 0], UL[r, 0, 0])"),
            nest(each, f"store(D[{block} + c, r, 0, 0], S[c, r, 0, 0])"),
        )
        statements = (
            f'UL = alloc({params["U"]}, "weight")',
            nest({"r": o}, "load_wgt(UL[r, 0, 0], U[r, 0, 0])"),
            nest(loops, joined(body), threads="thread"),
        )
        return parse_program(params, statements, config)


@dataclass(frozen=True, slots=True)
class FactorsTask(PartedTask[PlaneTile]):
    """The product of planes with a factor per channel, by the multiplier array.

    Attributes:
        blocks: number of channel blocks.
        elements: number of elements of a block, of `batch x block_out` numbers each.
        units: number of weight blocks whose sum is the negative zero point of the factors.
        constants: number of inputs whose sum is the negative zero point of the planes.
    """

    blocks: int
    elements: int
    units: int = 0
    constants: int = 0
    THREADS: ClassVar[tuple[int, ...]] = BUS_BOUND_THREADS
    SMALLEST: ClassVar[str] = "one element of a product"

    def tile(self, config: AcceleratorConfig, copies: int) -> PlaneTile | None:
        """Return the tile; see `PartedTask.tile`."""
        room = min(config.depth(MemoryType.INP) - self.constants, config.depth(MemoryType.ACC) - SETS)
        tile = plane_tile(self.blocks, self.elements, room, copies)
        weights = config.depth(MemoryType.WGT) - self.units
        return tile if tile is not None and tile.blocks * copies <= weights else None

    def tiled(self, tile: PlaneTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program of the requantised product of A: int8[blocks, elements, batch, block] and
        the factors of its channels, after subtraction of the zero points.

        The parameters of the program are P, the image A, the factors D as diagonals of weights, and the
        result Z. If the zero point of the factors is not 0, the weights K multiply by its negative. If the
        zero point of A is not 0, the inputs C hold its negative.
        """
        b, o = config.batch, config.block_out
        params = {
            "P": f"int{config.acc_bits}[1, {SETS}, {b}, {o}]",
            "A": f"int8[{self.blocks}, {self.elements}, {b}, {o}]",
            "D": f"int8[{self.blocks}, {o}, {o}]",
            "Z": f"int8[{self.blocks}, {self.elements}, {b}, {o}]",
            **({"K": f"int8[{self.units}, {o}, {o}]"} if self.units else {}),
            **({"C": f"int8[{self.constants}, {b}, {o}]"} if self.constants else {}),
        }

        def statements() -> Iterator[str]:
            """Yield the statements of the program."""
            yield f'PL = alloc({params["P"]}, "parameters")'
            yield nest({"p": SETS}, "load_parameters(PL[0, p, 0, 0], P[0, p, 0, 0])")
            if self.units:
                yield f'KL = alloc({params["K"]}, "weight")'
                yield nest({"k": self.units}, "load_wgt(KL[k, 0, 0], K[k, 0, 0])")
            if self.constants:
                yield f'CL = alloc({params["C"]}, "input")'
                yield nest({"k": self.constants}, "load_inp(CL[k, 0, 0], C[k, 0, 0])")
            loops, block, element = tile.loops(self.blocks, self.elements, choice.threads)
            yield nest(loops, joined(self._body(tile, config, block, element)), threads="thread")

        return parse_program(params, statements(), config)

    def _body(self, tile: PlaneTile, config: AcceleratorConfig, block: str, element: str) -> Iterator[str]:
        """Yield the statements of the tile that begins at `block` and `element`."""
        plane, o = f"[{tile.blocks}, {tile.elements}, {config.batch}, {config.block_out}]", config.block_out
        loops = {"c": tile.blocks, "e": tile.elements}
        yield f'DL = alloc(int8[{tile.blocks}, {o}, {o}], "weight")'
        yield nest({"c": tile.blocks}, f"load_wgt(DL[c, 0, 0], D[{block} + c, 0, 0])")
        yield f'AL = alloc(int8{plane}, "input")'
        yield nest(loops, f"load_inp(AL[c, e, 0, 0], A[{block} + c, {element} + e, 0, 0])")
        yield f'S = alloc(int{config.acc_bits}{plane}, "accumulator")'
        sums = "S[c, e, 0, 0]"
        yield nest(loops, f"reset({sums})")
        yield nest(loops, f"gemm({sums}, AL[c, e, 0, 0], DL[c, 0, 0])")
        for number in range(self.units):
            yield nest(loops, f"gemm({sums}, AL[c, e, 0, 0], KL[{number}, 0, 0])")
        for number in range(self.constants):
            yield nest(loops, f"gemm({sums}, CL[{number}, 0, 0], DL[c, 0, 0])")
        yield nest(loops, f"store_scaled(Z[{block} + c, {element} + e, 0, 0], {sums}, PL[0, 0, 0, 0])")
