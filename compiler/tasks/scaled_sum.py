"""Sums of scaled tensors on the multiplier array: A * factors[0] + B * factors[1], by diagonal weights.

A factor is split into high * 256 + low; each part fits a weight. The sum of the products with high parts is
shifted left by 8 bits before the products with low parts are added: four products and a shift per element.
The load unit loads the operands, so loads overlap with sums.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vdla.compiler.ir.nodes import Func
from vdla.compiler.tasks.base import BUS_BOUND_THREADS, Choice, PartedTask, parse_program
from vdla.compiler.tasks.constant_operands import scalar_weights
from vdla.compiler.tasks.program_text import joined, nest
from vdla.compiler.te.operators.sizes import blocks
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType, Parameter

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
