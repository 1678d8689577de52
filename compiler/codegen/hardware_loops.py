"""Mapping of loop nests to instructions: two hardware loops and micro-ops, or padded rows of a transfer."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

from vdla.compiler.operands.address_map import Transfer
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import Loop, Rows
from vdla.runtime.stream.micro_kernels import MicroKernel

LONGEST_LOOP = (1 << isa.LOOP_BITS) - 1
MOST_PADS = (1 << 4) - 1


class Steps(NamedTuple):
    """A loop of a nest.

    Attributes:
        trips: number of iterations.
        steps: increments of the operands' elements (dst, src, wgt) per iteration.
    """

    trips: int
    steps: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class ComputeInstruction:
    """A GEMM or ALU instruction: micro-kernel and hardware loops."""

    uops: MicroKernel
    outer: Loop
    inner: Loop


@lru_cache(maxsize=1 << 16)
def sum_instructions(
    loops: tuple[Steps, ...], sums: tuple[Steps, ...], base: tuple[int, int, int], config: AcceleratorConfig
) -> tuple[ComputeInstruction, ComputeInstruction | None] | None:
    """Return the instruction that writes the first product of every sum, and the instruction that adds all
    further products, if there are any.

    The loops of `sums` are unrolled into micro-ops, so that the first product of each sum is a single
    micro-op. Return None if the micro-ops do not fit an instruction.
    """
    outer, inner, rest = _hardware_loops(loops, config)
    if prod(loop.trips for loop in (*rest, *sums)) > config.depth(MemoryType.UOP) // 2:
        return None
    first = MicroKernel(iteration_elements(rest, base))
    further = MicroKernel(iteration_elements([*sums, *rest], base)[len(first) :])
    return ComputeInstruction(first, outer, inner), ComputeInstruction(
        further, outer, inner
    ) if further else None


@lru_cache(maxsize=1 << 16)
def compute_instructions(
    loops: tuple[Steps, ...], base: tuple[int, int, int], config: AcceleratorConfig
) -> tuple[ComputeInstruction, ...]:
    """Return the instructions that iterate over `loops` from `base` on: usually a single instruction.

    The two loops with the most trips become hardware loops. The other loops are unrolled into micro-ops, or
    into several instructions if they exceed micro-op memory. The iterations may run in any order. Tiles of
    equal shape at the same position have equal instructions, which are computed once.
    """
    outer, inner, rest = _hardware_loops(loops, config)
    unrolled, repeated = _unrolled_within(rest, config.depth(MemoryType.UOP) // 2)
    uops = iteration_elements(unrolled, (0, 0, 0))
    kernels = (
        MicroKernel((uop[0] + dst, uop[1] + src, uop[2] + wgt) for uop in uops)
        for dst, src, wgt in iteration_elements(repeated, base)
    )
    return tuple(ComputeInstruction(kernel, outer, inner) for kernel in kernels)


def _hardware_loops(loops: Iterable[Steps], config: AcceleratorConfig) -> tuple[Loop, Loop, list[Steps]]:
    """Merge loops. Return the two with the most trips that fit a hardware loop, and all other loops."""
    merged = _merged_loops([loop for loop in loops if loop.trips > 1])
    fitting = (loop for loop in merged if fits_hardware_loop(loop, config))
    chosen = sorted(fitting, key=lambda loop: -loop.trips)[:2]
    outer, inner = [Loop(loop.trips, *loop.steps) for loop in chosen] + [Loop()] * (2 - len(chosen))
    return outer, inner, [loop for loop in merged if not any(loop is chosen_loop for chosen_loop in chosen)]


def _merged_loops(loops: list[Steps]) -> list[Steps]:
    """Merge loops whose operands are contiguous: an outer step equals all steps of the inner loop."""
    joined = True
    while joined:
        joined = False
        for inner, outer in product(loops, loops):
            if inner is not outer and tuple(step * inner.trips for step in inner.steps) == outer.steps:
                loops = [loop for loop in loops if loop is not inner and loop is not outer]
                loops.append(Steps(inner.trips * outer.trips, inner.steps))
                joined = True
                break
    return loops


def fits_hardware_loop(loop: Steps, config: AcceleratorConfig) -> bool:
    """Whether a loop fits the fields of a hardware loop."""
    limits = (config.depth(MemoryType.ACC), config.depth(MemoryType.INP), config.depth(MemoryType.WGT))
    return loop.trips <= LONGEST_LOOP and all(
        0 <= step < limit for step, limit in zip(loop.steps, limits, strict=True)
    )


def _unrolled_within(loops: list[Steps], limit: int) -> tuple[list[Steps], list[Steps]]:
    """Partition loops into loops that are unrolled into at most `limit` micro-ops, and loops that repeat the
    instruction."""
    unrolled, count = [], 1
    for loop in sorted(loops, key=lambda loop: loop.trips):
        if count * loop.trips > limit:
            break
        unrolled.append(loop)
        count *= loop.trips
    return unrolled, [loop for loop in loops if not any(loop is unrolled_loop for unrolled_loop in unrolled)]


def iteration_elements(loops: list[Steps], base: tuple[int, int, int]) -> tuple[tuple[int, int, int], ...]:
    """Return the operands (dst, src, wgt) of every iteration of `loops`, outermost loop first."""
    elements = [base]
    for loop in loops:
        dst_step, src_step, wgt_step = loop.steps
        elements = [
            (dst + count * dst_step, src + count * src_step, wgt + count * wgt_step)
            for dst, src, wgt in elements
            for count in range(loop.trips)
        ]
    return tuple(elements)


class Dimension(NamedTuple):
    """A loop of a transfer.

    Attributes:
        trips: number of iterations.
        chip, dram: steps on chip and in DRAM, in elements.
        low, high: range of the iterations inside the tensor; all others are padding.
    """

    trips: int
    chip: int
    dram: int
    low: int
    high: int

    @property
    def whole(self) -> bool:
        """Whether all iterations are inside the tensor."""
        return self.low == 0 and self.high == self.trips

    @property
    def pads(self) -> tuple[int, int]:
        """Number of padding iterations before and after the tensor."""
        return self.low, self.trips - self.high


POINT = Dimension(1, 1, 1, 0, 1)


def transfer_instructions(
    dimensions: list[Dimension], chip: int, dram: int, *, inside: bool = True
) -> Iterator[Transfer]:
    """Yield the instructions that transfer the elements of `dimensions`.

    Args:
        chip, dram: first element on chip and in DRAM.
        inside: False: all elements are outside the tensor, so only padding is written.
    """
    moving = sorted((part for part in dimensions if part.trips > 1), key=lambda part: part.chip)
    parts = [short for part in _merged_dimensions(moving) for short in _split_long(part)]
    row = (
        parts.pop(0)
        if parts and (parts[0].chip, parts[0].dram) == (1, 1) and parts[0].trips <= isa.LONGEST_ROW
        else POINT
    )
    has_rows = (
        bool(parts)
        and parts[0].chip == row.trips
        and 0 <= parts[0].dram <= isa.LONGEST_ROW
        and parts[0].trips <= isa.LONGEST_ROW
    )
    rows = parts.pop(0) if has_rows else POINT._replace(chip=row.trips)
    for counters in product(*(range(part.trips) for part in parts)):
        here = chip + sum(count * part.chip for count, part in zip(counters, parts, strict=True))
        there = dram + sum(count * part.dram for count, part in zip(counters, parts, strict=True))
        if inside and all(part.low <= count < part.high for count, part in zip(counters, parts, strict=True)):
            yield from _padded(row, rows, here, there)
        else:
            yield from _padding_only(here, rows.trips * row.trips)


def _merged_dimensions(parts: list[Dimension]) -> list[Dimension]:
    """Merge dimensions that are contiguous on chip and in DRAM."""
    result: list[Dimension] = []
    for part in parts:
        last = result[-1] if result else None
        if (
            last
            and last.whole
            and part.whole
            and (part.chip, part.dram) == (last.trips * last.chip, last.trips * last.dram)
        ):
            result[-1] = last._replace(trips=last.trips * part.trips, high=last.trips * part.trips)
        else:
            result.append(part)
    return result


def _split_long(part: Dimension) -> Iterator[Dimension]:
    """Yield a dimension, split in two (inner first) if its trips exceed the field of an instruction."""
    if part.trips <= isa.LONGEST_ROW or not part.whole:
        yield part
        return
    inner = next(trips for trips in range(isa.LONGEST_ROW, 0, -1) if part.trips % trips == 0)
    outer = part.trips // inner
    yield part._replace(trips=inner, high=inner)
    yield Dimension(outer, inner * part.chip, inner * part.dram, 0, outer)


def _padded(row: Dimension, rows: Dimension, chip: int, dram: int) -> Iterator[Transfer]:
    """Yield a transfer of rows with padding. Padding that exceeds the fields of an instruction is written by
    separate transfers."""
    if row.low >= row.high or rows.low >= rows.high:
        yield from _padding_only(chip, rows.trips * row.trips)
    elif max(row.pads) > MOST_PADS:
        for number in range(rows.trips):
            yield from _split_row(
                row, rows.low <= number < rows.high, chip + number * row.trips, dram + number * rows.dram
            )
    elif max(rows.pads) > MOST_PADS:
        before, after = rows.pads
        yield from _padding_only(chip, before * row.trips)
        inner = rows._replace(trips=rows.high - rows.low, low=0, high=rows.high - rows.low)
        yield from _padded(row, inner, chip + before * row.trips, dram + before * rows.dram)
        yield from _padding_only(chip + rows.high * row.trips, after * row.trips)
    else:
        size = Rows(rows.high - rows.low, row.high - row.low, max(rows.dram, 0), rows.pads, row.pads)
        yield Transfer(chip, dram + rows.low * rows.dram + row.low * row.dram, size)


def _split_row(row: Dimension, inside: bool, chip: int, dram: int) -> Iterator[Transfer]:
    if not inside:
        yield from _padding_only(chip, row.trips)
        return
    width = row.high - row.low
    yield from _padding_only(chip, row.low)
    yield Transfer(chip + row.low, dram + row.low, Rows(1, width, width))
    yield from _padding_only(chip + row.high, row.trips - row.high)


def _padding_only(chip: int, elements: int) -> Iterator[Transfer]:
    """Yield transfers of padding: padding rows around 0 rows of the tensor."""
    while elements > 0:
        width = min(elements, isa.LONGEST_ROW)
        height = min(elements // width, 2 * MOST_PADS)
        yield Transfer(chip, 0, Rows(0, width, width, (min(height, MOST_PADS), max(height - MOST_PADS, 0))))
        chip, elements = chip + height * width, elements - height * width
