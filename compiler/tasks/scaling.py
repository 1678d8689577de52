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

from vdla.compiler.ir.nodes import Func, Scope
from vdla.compiler.tasks.base import (
    BUS_BOUND_THREADS,
    Choice,
    PartedTask,
    PlaneTile,
    plane_tile,
    rounds_of_tiles,
)
from vdla.compiler.tasks.program_text import (
    REQUANTISATION,
    SCALED,
    ChipBuffer,
    ConstantOperand,
    operand_type,
    parse_program,
    scalar_weights,
    threaded,
)
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

        def statements() -> Iterator[str]:
            """Yield the statements of the program."""
            rounds, size = rounds_of_tiles(self.elements, tile, threads)
            done = rounds * threads * size
            if size:
                begin = f"outer * {threads * size} + thread * {size}"
                yield threaded({"outer": rounds, "thread": threads}, _tile("S", begin, size, config))
            if done < self.elements:
                yield from _tile("R", str(done), self.elements - done, config)

        operands = dict.fromkeys((*OPERANDS, "Z"), operand_type(config, 1, self.elements))
        constants = REQUANTISATION, ConstantOperand("W", Scope.WEIGHT, WEIGHTS)
        return parse_program(operands, statements(), config, constants)


def elements_of_a_sum(config: AcceleratorConfig, copies: int) -> int:
    """Return the maximum number of elements per tile, of each operand and of the sum, such that `copies`
    tiles fit the scratchpads; 0 if none fits."""
    if config.depth(MemoryType.WGT) < WEIGHTS:
        return 0
    operands = config.depth(MemoryType.INP) // len(OPERANDS)
    return max(min(operands, config.depth(MemoryType.ACC) - len(Parameter)) // copies, 0)


def _tile(name: str, begin: str, count: int, config: AcceleratorConfig) -> Iterator[str]:
    """Yield the statements that compute `count` elements, beginning at `begin`. Names of buffers and loops
    begin with `name`."""
    index = f"{name}_e"
    inputs = [ChipBuffer(name + operand, Scope.INPUT, {index: count}, config) for operand in OPERANDS]
    sums = ChipBuffer(name, Scope.ACCUMULATOR, {index: count}, config)
    for operand, source in zip(inputs, OPERANDS, strict=True):
        yield operand.loaded(f"{source}[0, {begin} + {index}, 0, 0]")
    yield sums.zeros()
    for part in range(PARTS):
        if part:
            yield sums.each(f"shr_imm({sums.element}, {sums.element}, int{config.acc_bits}({-PART_BITS}))")
        for place, operand in enumerate(inputs, part * len(OPERANDS)):
            yield sums.each(f"gemm({sums.element}, {operand.element}, WL[{place}, 0, 0])")
    yield sums.each(f"store_scaled(Z[0, {begin} + {index}, 0, 0], {sums.element}, {SCALED})")


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
        loops, block, first = tile.loops(self.blocks, self.elements, choice.threads)
        channels, elements = {"c": tile.blocks, "p": self.parts}, {"c": tile.blocks, "e": tile.elements}
        factors = ChipBuffer("FL", Scope.ACCUMULATOR, channels, config)
        image = ChipBuffer("S", Scope.ACCUMULATOR, elements | {"p": self.parts}, config)
        place = f"[{block} + c, {first} + e, p, 0, 0]"

        def shifted(values: ChipBuffer, zero: int) -> str:
            """Return the subtraction of a zero point."""
            return values.each(f"add_imm({values.element}, {values.element}, int{config.acc_bits}({-zero}))")

        body = (
            factors.loaded(f"F[{block} + c, p, 0, 0]"),
            shifted(factors, self.zeros[1]),
            image.loaded(f"A{place}"),
            shifted(image, self.zeros[0]),
            image.each(f"mul({image.element}, {image.element}, {factors.element})"),
            image.each(f"store_scaled(Z{place}, {image.element}, {SCALED})"),
        )
        planes = operand_type(config, self.blocks, self.elements, self.parts)
        operands = {"A": planes, "F": operand_type(config, self.blocks, self.parts), "Z": planes}
        return parse_program(operands, [threaded(loops, body)], config, [REQUANTISATION])


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
        o = config.block_out
        loops, block, _ = tile.loops(self.blocks, o, choice.threads)
        factors = ChipBuffer("FL", Scope.INPUT, {"c": tile.blocks}, config)
        sums = ChipBuffer("S", Scope.ACCUMULATOR, {"c": tile.blocks, "r": o}, config)
        body = (
            factors.loaded(f"F[{block} + c, 0, 0]"),
            sums.zeros(),
            sums.each(f"gemm({sums.element}, {factors.element}, UL[r, 0, 0])"),
            sums.each(f"store(D[{block} + c, r, 0, 0], {sums.element})"),
        )
        operands = {"F": operand_type(config, self.blocks), "D": f"int8[{self.blocks}, {o}, 1, {o}]"}
        masks = ConstantOperand("U", Scope.WEIGHT, o)
        return parse_program(operands, [threaded(loops, body)], config, [masks])


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
        loops, block, element = tile.loops(self.blocks, self.elements, choice.threads)
        image = operand_type(config, self.blocks, self.elements)
        operands = {"A": image, "D": operand_type(config, self.blocks, scope=Scope.WEIGHT), "Z": image}
        constants = (
            REQUANTISATION,
            ConstantOperand("K", Scope.WEIGHT, self.units),
            ConstantOperand("C", Scope.INPUT, self.constants),
        )
        body = self._body(tile, config, block, element)
        return parse_program(operands, [threaded(loops, body)], config, constants)

    def _body(self, tile: PlaneTile, config: AcceleratorConfig, block: str, element: str) -> Iterator[str]:
        """Yield the statements of the tile that begins at `block` and `element`."""
        loops, place = {"c": tile.blocks, "e": tile.elements}, f"[{block} + c, {element} + e, 0, 0]"
        factors = ChipBuffer("DL", Scope.WEIGHT, {"c": tile.blocks}, config)
        image = ChipBuffer("AL", Scope.INPUT, loops, config)
        sums = ChipBuffer("S", Scope.ACCUMULATOR, loops, config)
        yield factors.loaded(f"D[{block} + c, 0, 0]")
        yield image.loaded(f"A{place}")
        yield sums.zeros()
        yield sums.each(f"gemm({sums.element}, {image.element}, {factors.element})")
        for number in range(self.units):
            yield sums.each(f"gemm({sums.element}, {image.element}, KL[{number}, 0, 0])")
        for number in range(self.constants):
            yield sums.each(f"gemm({sums.element}, CL[{number}, 0, 0], {factors.element})")
        yield sums.each(f"store_scaled(Z{place}, {sums.element}, {SCALED})")
