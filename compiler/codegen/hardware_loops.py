"""Mapping of loop nests onto instructions: two hardware loops and micro-ops, or padded rows of a transfer."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import Loop, Rows
from vdla.runtime.stream.micro_kernels import MicroKernel

LONGEST_LOOP = (1 << isa.LOOP_BITS) - 1
MOST_PADS = (1 << 4) - 1


@dataclass(frozen=True, slots=True)
class Steps:
    """A loop of a nest: its trips, and the steps of the operands' elements (dst, src, wgt)."""

    trips: int
    steps: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class ComputeInstruction:
    """What one GEMM or ALU instruction does."""

    uops: MicroKernel
    outer: Loop
    inner: Loop


@lru_cache(maxsize=1 << 16)
def cached_instructions(
    loops: tuple[Steps, ...], base: tuple[int, int, int], config: AcceleratorConfig
) -> tuple[ComputeInstruction, ...]:
    """Return what `compute_instructions` yields; tiles of one shape in one buffer have
    the same."""
    return tuple(compute_instructions(list(loops), base, config))


@lru_cache(maxsize=1 << 16)
def sum_instructions(
    loops: tuple[Steps, ...], sums: tuple[Steps, ...], base: tuple[int, int, int], config: AcceleratorConfig
) -> tuple[ComputeInstruction, ComputeInstruction | None] | None:
    """Return the instruction that writes the first product of every sum, and the one that adds the others to
    it.

    The loops of `sums` are written out as micro-ops, so that the first product is one micro-op of each
    accumulator's; None where that, or what is left of `loops`, is too much for one instruction.
    """
    merged = _merged([loop for loop in loops if loop.trips > 1])
    chosen = sorted((loop for loop in merged if fits(loop, config)), key=lambda loop: -loop.trips)[:2]
    rest = [loop for loop in merged if not any(loop is other for other in chosen)]
    if prod(loop.trips for loop in (*rest, *sums)) > config.depth(MemoryType.UOP) // 2:
        return None
    first = MicroKernel(places(rest, base))
    others = MicroKernel(places([*sums, *rest], base)[len(first) :])
    outer, inner = [Loop(loop.trips, *loop.steps) for loop in chosen] + [Loop()] * (2 - len(chosen))
    return ComputeInstruction(first, outer, inner), ComputeInstruction(
        others, outer, inner
    ) if others else None


def compute_instructions(
    loops: list[Steps], base: tuple[int, int, int], config: AcceleratorConfig
) -> Iterator[ComputeInstruction]:
    """Yield the instructions that walk `loops` from `base` on: mostly one.

    The two loops of most trips become hardware loops, the others are written out as micro-ops; what is too
    much for micro-op memory becomes several instructions. Steps of a nest can be taken in any order.
    """
    merged = _merged([loop for loop in loops if loop.trips > 1])
    chosen = sorted((loop for loop in merged if fits(loop, config)), key=lambda loop: -loop.trips)[:2]
    rest = [loop for loop in merged if not any(loop is other for other in chosen)]
    written, repeated = _within(rest, config.depth(MemoryType.UOP) // 2)
    uops = places(written, (0, 0, 0))
    outer, inner = [Loop(loop.trips, *loop.steps) for loop in chosen] + [Loop()] * (2 - len(chosen))
    for place in places(repeated, base):
        dst, src, wgt = place
        yield ComputeInstruction(
            MicroKernel((uop[0] + dst, uop[1] + src, uop[2] + wgt) for uop in uops),
            outer,
            inner,
        )


def _merged(loops: list[Steps]) -> list[Steps]:
    """Join loops of which one goes on where the other ends."""
    joined = True
    while joined:
        joined = False
        for one, other in product(loops, loops):
            if one is not other and tuple(step * one.trips for step in one.steps) == other.steps:
                loops = [loop for loop in loops if loop is not one and loop is not other]
                loops.append(Steps(one.trips * other.trips, one.steps))
                joined = True
                break
    return loops


def fits(loop: Steps, config: AcceleratorConfig) -> bool:
    """Return whether a loop can be one of the hardware's."""
    limits = (config.depth(MemoryType.ACC), config.depth(MemoryType.INP), config.depth(MemoryType.WGT))
    return loop.trips <= LONGEST_LOOP and all(
        0 <= step < limit for step, limit in zip(loop.steps, limits, strict=True)
    )


def _within(loops: list[Steps], limit: int) -> tuple[list[Steps], list[Steps]]:
    """Part loops in those that `limit` micro-ops can write out, and those that must be repeated
    instructions."""
    written, count = [], 1
    for loop in sorted(loops, key=lambda loop: loop.trips):
        if count * loop.trips > limit:
            break
        written.append(loop)
        count *= loop.trips
    return written, [loop for loop in loops if not any(loop is other for other in written)]


def places(loops: list[Steps], base: tuple[int, int, int]) -> tuple[tuple[int, int, int], ...]:
    """Return the elements of every iteration of `loops`, the last of which is the innermost."""
    places = [base]
    for loop in loops:
        one, two, three = loop.steps
        places = [
            (dst + count * one, src + count * two, wgt + count * three)
            for dst, src, wgt in places
            for count in range(loop.trips)
        ]
    return tuple(places)


@dataclass(frozen=True, slots=True)
class Dimension:
    """A loop of a transfer: its trips, the steps on chip and in DRAM, and the iterations that lie inside the
    tensor."""

    trips: int
    chip: int
    dram: int
    low: int
    high: int

    @property
    def whole(self) -> bool:
        """Whether all iterations lie inside."""
        return self.low == 0 and self.high == self.trips

    @property
    def pads(self) -> tuple[int, int]:
        """Iterations outside, before and behind."""
        return self.low, self.trips - self.high


POINT = Dimension(1, 1, 1, 0, 1)


@dataclass(frozen=True, slots=True)
class Transfer:
    """What one LOAD or STORE moves: rows from element `chip` on, of DRAM's element `dram` on."""

    chip: int
    dram: int
    rows: Rows


def transfer_instructions(
    dimensions: list[Dimension], chip: int, dram: int, *, inside: bool = True
) -> Iterator[Transfer]:
    """Yield the instructions that move the elements of `dimensions`, on chip from `chip`, in DRAM from `dram`
    on.

    Without `inside` all of them lie outside the tensor, and nothing but padding is written.
    """
    moving = sorted((part for part in dimensions if part.trips > 1), key=lambda part: part.chip)
    parts = [short for part in _joined(moving) for short in _shortened(part)]
    row = (
        parts.pop(0)
        if parts and (parts[0].chip, parts[0].dram) == (1, 1) and parts[0].trips <= isa.LONGEST_ROW
        else POINT
    )
    fits = (
        bool(parts)
        and parts[0].chip == row.trips
        and 0 <= parts[0].dram <= isa.LONGEST_ROW
        and parts[0].trips <= isa.LONGEST_ROW
    )
    rows = parts.pop(0) if fits else replace(POINT, chip=row.trips)
    for counters in product(*(range(part.trips) for part in parts)):
        here = chip + sum(count * part.chip for count, part in zip(counters, parts, strict=True))
        there = dram + sum(count * part.dram for count, part in zip(counters, parts, strict=True))
        if inside and all(part.low <= count < part.high for count, part in zip(counters, parts, strict=True)):
            yield from _padded(row, rows, here, there)
        else:
            yield from _blank(here, rows.trips * row.trips)


def _joined(parts: list[Dimension]) -> list[Dimension]:
    """Join dimensions of which the outer goes on where the inner ends, on chip and in DRAM."""
    result: list[Dimension] = []
    for part in parts:
        last = result[-1] if result else None
        if (
            last
            and last.whole
            and part.whole
            and (part.chip, part.dram) == (last.trips * last.chip, last.trips * last.dram)
        ):
            result[-1] = replace(last, trips=last.trips * part.trips, high=last.trips * part.trips)
        else:
            result.append(part)
    return result


def _shortened(part: Dimension) -> Iterator[Dimension]:
    """Yield a dimension; one of more trips than a field holds as two, the inner first, if they divide."""
    if part.trips <= isa.LONGEST_ROW or not part.whole:
        yield part
        return
    inner = next(trips for trips in range(isa.LONGEST_ROW, 0, -1) if part.trips % trips == 0)
    outer = part.trips // inner
    yield replace(part, trips=inner, high=inner)
    yield Dimension(outer, inner * part.chip, inner * part.dram, 0, outer)


def _padded(row: Dimension, rows: Dimension, chip: int, dram: int) -> Iterator[Transfer]:
    """Yield a transfer of rows with their padding; padding that its fields cannot hold is written by
    transfers of its own."""
    if row.low >= row.high or rows.low >= rows.high:
        yield from _blank(chip, rows.trips * row.trips)
    elif max(row.pads) > MOST_PADS:
        for number in range(rows.trips):
            yield from _split_row(
                row, rows.low <= number < rows.high, chip + number * row.trips, dram + number * rows.dram
            )
    elif max(rows.pads) > MOST_PADS:
        before, behind = rows.pads
        yield from _blank(chip, before * row.trips)
        inner = replace(rows, trips=rows.high - rows.low, low=0, high=rows.high - rows.low)
        yield from _padded(row, inner, chip + before * row.trips, dram + before * rows.dram)
        yield from _blank(chip + rows.high * row.trips, behind * row.trips)
    else:
        size = Rows(rows.high - rows.low, row.high - row.low, max(rows.dram, 0), rows.pads, row.pads)
        yield Transfer(chip, dram + rows.low * rows.dram + row.low * row.dram, size)


def _split_row(row: Dimension, inside: bool, chip: int, dram: int) -> Iterator[Transfer]:
    if not inside:
        yield from _blank(chip, row.trips)
        return
    width = row.high - row.low
    yield from _blank(chip, row.low)
    yield Transfer(chip + row.low, dram + row.low, Rows(1, width, width))
    yield from _blank(chip + row.high, row.trips - row.high)


def _blank(chip: int, elements: int) -> Iterator[Transfer]:
    """Yield transfers of nothing but padding: rows above and below none that are read."""
    while elements > 0:
        width = min(elements, isa.LONGEST_ROW)
        height = min(elements // width, 2 * MOST_PADS)
        yield Transfer(chip, 0, Rows(0, width, width, (min(height, MOST_PADS), max(height - MOST_PADS, 0))))
        chip, elements = chip + height * width, elements - height * width
