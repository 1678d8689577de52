"""What each memory type stands for, declared once: its scratchpad, the unit that loads it, its elements."""

from dataclasses import dataclass

from vdla.hw.spec.vocabulary import MemoryType, Unit


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory type.

    Attributes:
        scratchpad: the memory on chip in which its elements stand.
        loaded_by: the unit that executes LOADs of it; None: it cannot be loaded.
        rows, columns: parameters of the configuration that shape an element; empty where it is one value.
        bits: of a value in DRAM: a property of the configuration.
        values: what the values of an element are called.
    """

    scratchpad: MemoryType
    loaded_by: Unit | None
    rows: str
    columns: str
    bits: str
    values: str


MEMORIES = {
    MemoryType.UOP: Memory(MemoryType.UOP, Unit.COMPUTE, "", "", "uop_bits", "a micro-op"),
    MemoryType.INP: Memory(MemoryType.INP, Unit.LOAD, "batch", "block_in", "inp_bits", "inputs"),
    MemoryType.WGT: Memory(MemoryType.WGT, Unit.LOAD, "block_out", "block_in", "wgt_bits", "weights"),
    MemoryType.ACC: Memory(MemoryType.ACC, Unit.COMPUTE, "batch", "block_out", "acc_bits", "accumulators"),
    MemoryType.ACC_8BIT: Memory(
        MemoryType.ACC, Unit.COMPUTE, "batch", "block_out", "out_bits", "outputs, widened into ACC"
    ),
    MemoryType.OUT: Memory(MemoryType.ACC, None, "batch", "block_out", "out_bits", "outputs"),
}
"""Every memory type."""

LOADABLE = tuple(memory for memory in MemoryType if MEMORIES[memory].loaded_by is not None)
SCRATCHPADS = tuple(memory for memory, about in MEMORIES.items() if about.scratchpad is memory)


def counted_as(memory: MemoryType) -> MemoryType:
    """Return the memory type with which transfers of `memory` are counted: what is loaded, by scratchpad."""
    return MEMORIES[memory].scratchpad if memory in LOADABLE else memory


def loaded_by(unit: Unit) -> tuple[MemoryType, ...]:
    """Return the memory types whose LOADs `unit` executes."""
    return tuple(memory for memory, about in MEMORIES.items() if about.loaded_by is unit)


def scratchpad_of(memory: MemoryType) -> MemoryType:
    """Return the memory on chip in which elements of `memory` stand: ACC for OUT and ACC_8BIT."""
    return MEMORIES[memory].scratchpad
