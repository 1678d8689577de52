"""Scaled activations: sums of two scaled tensors, and products of an image with a factor per channel.

`SumTask` computes A * factors[0] + B * factors[1] on the multiplier array, by diagonal weights. A factor is
split into high * 256 + low; each part fits a weight. The sum of the products with high parts is shifted left
by 8 bits before the products with low parts are added: four products and a shift per element.

The factors of channels are computed by the network, not constants. `DiagonalTask` writes the factors of a
block of channels to the diagonal of a block of weights. `FactorsTask` multiplies the image by these weights.
`ScalingTask` multiplies by the ALU instead.

On the multiplier array, the load unit loads the operands, so loads overlap with products and sums.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vdla.compiler.ir.nodes import Func
from vdla.compiler.tasks.base import BUS_BOUND_THREADS, Choice, PartedTask, parse_program
from vdla.compiler.tasks.constant_operands import scalar_weights
from vdla.compiler.tasks.plane_tile import PlaneTile, plane_tile
from vdla.compiler.tasks.program_text import joined, nest
from vdla.compiler.te.operators.sizes import blocks
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType, Parameter

SETS = len(Parameter)
GREATEST = 127  # greatest weight or input
PART_BITS = 8  # bits of the low part of a factor
OPERANDS = ("A", "B")
PARTS = 2
WEIGHTS = PARTS * len(OPERANDS)
"""Number of weight blocks: the high parts of both operands' factors, then the low parts."""


def high_and_low_part(factor: int) -> tuple[int, int] | None:
    """Return the high and the low part of a factor; None if the high part does not fit int8."""
    half = 1 << PART_BITS - 1
    high = (factor + half) >> PART_BITS
    return (high, factor - (high << PART_BITS)) if -half <= high < half else None


def multiplies_sums(config: AcceleratorConfig, factors: Sequence[int]) -> bool:
    """Whether the multiplier array of `config` can scale two tensors by these factors."""
    return (
        config.block_in == config.block_out
        and config.has(Extension.REQUANTISE)
        and AluOpcode.SHR in config.alu_opcodes
        and all(high_and_low_part(factor) is not None for factor in factors)
        and elements_of_a_sum(config, 1) > 0
    )


def diagonal_weights(factors: Sequence[int], config: AcceleratorConfig) -> np.ndarray:
    """Return int8[4, block_out, block_in]: diagonal weights that multiply by the parts of two factors."""
    split = [high_and_low_part(factor) for factor in factors]
    return scalar_weights([pair[part] for part in range(PARTS) for pair in split if pair is not None], config)


@dataclass(frozen=True, slots=True)
class SumTask(PartedTask[int]):
    """A sum of two scaled tensors by the multiplier array. The weights hold the factors.

    Attributes:
        elements: number of elements, of `batch x block_out` numbers each.
    """

    elements: int
    THREADS: ClassVar[tuple[int, ...]] = BUS_BOUND_THREADS
    SMALLEST: ClassVar[str] = "one element of a sum"

    def tile(self, config: AcceleratorConfig, copies: int) -> int | None:
        """Return the maximum number of elements per tile, of each operand and of the sum; see
        `PartedTask.tile`."""
        return elements_of_a_sum(config, copies) or None

    def tiled(self, tile: int, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program of a requantised sum of scaled int8[1, elements, batch, block_out].

        The parameters of the program are P, the weights W, the operands A and B, and the result Z. All tiles
        have the same size except the last, which is computed outside the loop over threads, so no statement
        needs a condition.
        """
        threads = choice.threads
        b, o, acc, sets = config.batch, config.block_out, f"int{config.acc_bits}", len(Parameter)
        kept, weights = f"{acc}[1, {sets}, {b}, {o}]", f"int8[{WEIGHTS}, {o}, {o}]"
        params = {"P": kept, "W": weights}
        params |= dict.fromkeys((*OPERANDS, "Z"), f"int8[1, {self.elements}, {b}, {o}]")

        def statements() -> Iterator[str]:
            """Yield the statements of the program."""
            yield f'PL = alloc({kept}, "parameters")'
            yield nest({"p": sets}, "load_parameters(PL[0, p, 0, 0], P[0, p, 0, 0])")
            yield f'WL = alloc({weights}, "weight")'
            yield nest({"w": WEIGHTS}, "load_wgt(WL[w, 0, 0], W[w, 0, 0])")
            rounds, size = _tiling(self.elements, tile, threads)
            done = rounds * threads * size
            if size:
                begin = f"outer * {threads * size} + thread * {size}"
                body = joined(_tile("S", begin, size, config))
                yield nest({"outer": rounds, "thread": threads}, body, threads="thread")
            if done < self.elements:
                yield from _tile("R", str(done), self.elements - done, config)

        return parse_program(params, statements(), config)


def elements_of_a_sum(config: AcceleratorConfig, copies: int) -> int:
    """Return the maximum number of elements per tile, of each operand and of the sum, such that `copies`
    tiles fit the scratchpads; 0 if none fits."""
    if config.depth(MemoryType.WGT) < WEIGHTS:
        return 0
    operands = config.depth(MemoryType.INP) // len(OPERANDS)
    return max(min(operands, config.depth(MemoryType.ACC) - len(Parameter)) // copies, 0)


def _tiling(elements: int, most: int, threads: int) -> tuple[int, int]:
    """Return the number of rounds of `threads` tiles, and the elements of a tile (0 if there are too few).
    The remaining elements form a last tile."""
    rounds = blocks(elements, most * threads)
    tile = elements // (rounds * threads)
    if elements - rounds * threads * tile > most:
        return elements // (most * threads), most
    return rounds, tile


def _tile(name: str, begin: str, count: int, config: AcceleratorConfig) -> Iterator[str]:
    """Yield the statements that compute `count` elements, beginning at `begin`. Names of buffers and loops
    begin with `name`."""
    shape, index = f"[1, {count}, {config.batch}, {config.block_out}]", f"{name}_e"
    sums = f"{name}[0, {index}, 0, 0]"

    def each(call: str) -> str:
        return nest({index: count}, call)

    yield f'{name} = alloc(int{config.acc_bits}{shape}, "accumulator")'
    for operand in OPERANDS:
        yield f'{name}{operand} = alloc(int8{shape}, "input")'
        yield each(f"load_inp({name}{operand}[0, {index}, 0, 0], {operand}[0, {begin} + {index}, 0, 0])")
    yield each(f"reset({sums})")
    for part in range(PARTS):
        if part:
            yield each(f"shr_imm({sums}, {sums}, int{config.acc_bits}({-PART_BITS}))")
        for place, operand in enumerate(OPERANDS, part * len(OPERANDS)):
            yield each(f"gemm({sums}, {name}{operand}[0, {index}, 0, 0], WL[{place}, 0, 0])")
    yield each(f"store_scaled(Z[0, {begin} + {index}, 0, 0], {sums}, PL[0, 0, 0, 0])")


@dataclass(frozen=True, slots=True)
class ScalingTask(PartedTask[PlaneTile]):
    """The product of planes with a factor per channel.

    Attributes:
        blocks: number of channel blocks in DRAM.
        elements: number of pixels of a plane.
        parts: number of elements per pixel of a block, of `block_out` numbers each.
        zeros: zero points of the planes and of the factors.
    """

    blocks: int
    elements: int
    parts: int
    zeros: tuple[int, int]
    SMALLEST: ClassVar[str] = "one element of a product"

    def tile(self, config: AcceleratorConfig, copies: int) -> PlaneTile | None:
        """Return the tile; see `PartedTask.tile`."""
        room = (config.depth(MemoryType.ACC) - SETS) // self.parts
        beside = room * self.elements // (self.elements + 1) - copies
        return plane_tile(self.blocks, self.elements, beside, copies)

    def tiled(self, tile: PlaneTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program of the requantised product of A: int8[blocks, elements, parts, batch,
        block]
        and F: int8[blocks, parts, batch, block], after subtraction of the zero points.

        The parameters of the program are P, the image A, the factors F and the result Z.
        """
        acc, element = f"int{config.acc_bits}", f"{config.batch}, {config.block_out}"
        params = {
            "P": f"{acc}[1, {SETS}, {element}]",
            "A": f"int8[{self.blocks}, {self.elements}, {self.parts}, {element}]",
            "F": f"int8[{self.blocks}, {self.parts}, {element}]",
            "Z": f"int8[{self.blocks}, {self.elements}, {self.parts}, {element}]",
        }
        loops, block, first = tile.loops(self.blocks, self.elements, choice.threads)
        each = {"c": tile.blocks, "e": tile.elements, "p": self.parts}
        factors, values, place = "FL[c, p, 0, 0]", "S[c, e, p, 0, 0]", f"[{block} + c, {first} + e, p, 0, 0]"
        of_channels = {"c": tile.blocks, "p": self.parts}
        body = (
            f'FL = alloc({acc}[{tile.blocks}, {self.parts}, {element}], "accumulator")',
            nest(of_channels, f"load_acc8({factors}, F[{block} + c, p, 0, 0])"),
            nest(of_channels, f"add_imm({factors}, {factors}, {acc}({-self.zeros[1]}))"),
            f'S = alloc({acc}[{tile.blocks}, {tile.elements}, {self.parts}, {element}], "accumulator")',
            nest(each, f"load_acc8({values}, A{place})"),
            nest(each, f"add_imm({values}, {values}, {acc}({-self.zeros[0]}))"),
            nest(each, f"mul({values}, {values}, {factors})"),
            nest(each, f"store_scaled(Z{place}, {values}, PL[0, 0, 0, 0])"),
        )
        statements = (
            f'PL = alloc({params["P"]}, "parameters")',
            nest({"p": SETS}, "load_parameters(PL[0, p, 0, 0], P[0, p, 0, 0])"),
            nest(loops, joined(body), threads="thread"),
        )
        return parse_program(params, statements, config)


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
