"""What memories are made of: block RAM or LUT RAM, the choice that Yosys makes, as far as it was observed.

Yosys compares the cost of LUT RAM with that of block RAM, and takes the block mode that needs fewest blocks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

from vdla.hw.components import MemoryShape

ENABLE_BITS = 9
LUTS_OF_LUT_RAM = 4
ECP5_LUT_RAMS_PER_BLOCK = 23
# of the measured memories, those up to it became LUT RAM, and those from 44 on block RAM
XC7_LUT_RAMS_PER_BLOCK = 26


@dataclass(frozen=True, slots=True)
class BlockKind:
    """The memories of a family.

    Attributes:
        modes: width and depth of a block, and what it counts.
        lut_bits, lut_depth: of one LUT RAM.
        luts_per_block: a memory of at most so many LUT RAMs for each block it would take is made of LUT RAM.
        bank_luts: for each bit, that add one more LUT RAM to those that words are read from.
    """

    modes: tuple[tuple[int, int, float], ...]
    lut_bits: int
    lut_depth: int
    luts_per_block: float
    bank_luts: float


_NARROW = ((36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384))
KINDS: Mapping[str, BlockKind] = {
    "ecp5": BlockKind(
        tuple((bits, depth, 1.0) for bits, depth in _NARROW), 4, 16, ECP5_LUT_RAMS_PER_BLOCK, 1
    ),
    "xc7": BlockKind(
        (
            *((bits, depth, 0.5) for bits, depth in _NARROW),
            *((2 * bits, depth, 1.0) for bits, depth in _NARROW),
            (1, 32768, 1.0),
        ),
        6,
        32,
        XC7_LUT_RAMS_PER_BLOCK,
        0,
    ),
}


def blocks(family: str, memory: MemoryShape) -> float:
    """Return the block RAMs of a memory; 0 where LUT RAM holds it."""
    kind = KINDS[family]
    needed = min(
        _columns(memory, bits) * ceil(memory.depth / depth) * size for bits, depth, size in kind.modes
    )
    return 0.0 if _lut_rams(kind, memory) <= kind.luts_per_block * needed else needed


def memory_features(family: str, memories: Iterable[MemoryShape]) -> dict[str, float]:
    """Return what the LUTs of a component depend on in its memories.

    Returns:
        `lut_ram`: LUTs of LUT RAM.
    """
    kind = KINDS[family]
    small = [memory for memory in memories if not blocks(family, memory)]
    return {
        "lut_ram": sum(
            LUTS_OF_LUT_RAM * _lut_rams(kind, memory)
            + kind.bank_luts * memory.bits * (ceil(memory.depth / kind.lut_depth) - 1)
            for memory in small
        ),
    }


def _lut_rams(kind: BlockKind, memory: MemoryShape) -> int:
    return ceil(memory.bits / kind.lut_bits) * ceil(memory.depth / kind.lut_depth)


def _columns(memory: MemoryShape, bits: int) -> int:
    """Return the blocks side by side. Modes of 9 bits and more write units of 9 bits alone."""
    if memory.lanes == 1:
        return ceil(memory.bits / bits)
    lane = memory.bits // memory.lanes
    if bits < ENABLE_BITS:
        return memory.lanes * ceil(lane / bits)
    return ceil(memory.lanes * ENABLE_BITS * ceil(lane / ENABLE_BITS) / bits)
