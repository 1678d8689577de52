"""What each memory type stands for, declared once: its scratchpad, the unit that loads it, its elements."""

from dataclasses import dataclass
from typing import Protocol

from vdla.hw.spec.vocabulary import Extension, MemoryType, Unit


class HasExtensions(Protocol):
    """What the memories of an accelerator depend on. `AcceleratorConfig` implements it."""

    def has(self, extension: Extension) -> bool:
        """Return whether an extension is on."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory type.

    Attributes:
        scratchpad: the memory on chip in which its elements stand.
        loaded_by: the unit that executes LOADs of it; None: it cannot be loaded.
        rows, columns: parameters of the configuration that shape an element; empty where it is one value.
        bits: of a value in DRAM: a property of the configuration.
        values: what the values of an element are called.
        counted: the memory type with which its transfers are counted.
        extension: that brings it; None: every accelerator has it.
    """

    scratchpad: MemoryType
    loaded_by: Unit | None
    rows: str
    columns: str
    bits: str
    values: str
    counted: MemoryType
    extension: Extension | None = None


MEMORIES = {
    MemoryType.UOP: Memory(
        MemoryType.UOP, Unit.COMPUTE, "", "", "uop_bits", "a micro-op", counted=MemoryType.UOP
    ),
    MemoryType.INP: Memory(
        MemoryType.INP, Unit.LOAD, "batch", "block_in", "inp_bits", "inputs", counted=MemoryType.INP
    ),
    MemoryType.WGT: Memory(
        MemoryType.WGT, Unit.LOAD, "block_out", "block_in", "wgt_bits", "weights", counted=MemoryType.WGT
    ),
    MemoryType.ACC: Memory(
        MemoryType.ACC,
        Unit.COMPUTE,
        "batch",
        "block_out",
        "acc_bits",
        "accumulators",
        counted=MemoryType.ACC,
    ),
    MemoryType.ACC_8BIT: Memory(
        MemoryType.ACC,
        Unit.COMPUTE,
        "batch",
        "block_out",
        "out_bits",
        "outputs, widened into ACC",
        counted=MemoryType.ACC,
    ),
    MemoryType.OUT: Memory(
        MemoryType.ACC, None, "batch", "block_out", "out_bits", "outputs", counted=MemoryType.OUT
    ),
    MemoryType.TABLE: Memory(
        MemoryType.TABLE,
        Unit.COMPUTE,
        "",
        "entries",
        "entry_bits",
        "4 entries of a table, 8 bits each",
        counted=MemoryType.UOP,
        extension=Extension.TABLE,
    ),
    MemoryType.RES: Memory(
        MemoryType.RES,
        Unit.COMPUTE,
        "batch",
        "block_out",
        "out_bits",
        "outputs, to be added to others",
        counted=MemoryType.ACC,
        extension=Extension.RESIDUAL,
    ),
}
"""Every memory type."""

LOADABLE = tuple(memory for memory in MemoryType if MEMORIES[memory].loaded_by is not None)
SCRATCHPADS = tuple(memory for memory, about in MEMORIES.items() if about.scratchpad is memory)


def memories_of(config: HasExtensions) -> tuple[MemoryType, ...]:
    """Return the memory types that an accelerator has."""
    needed = {memory: MEMORIES[memory].extension for memory in MemoryType}
    return tuple(memory for memory, extension in needed.items() if extension is None or config.has(extension))


def scratchpads_of(config: HasExtensions) -> tuple[MemoryType, ...]:
    """Return the scratchpads that an accelerator has."""
    present = memories_of(config)
    return tuple(memory for memory in SCRATCHPADS if memory in present)


def loadable_in(config: HasExtensions) -> tuple[MemoryType, ...]:
    """Return the memory types that an accelerator can load."""
    return tuple(memory for memory in memories_of(config) if memory in LOADABLE)


def storable_in(config: HasExtensions) -> tuple[MemoryType, ...]:
    """Return the memory types that a STORE of an accelerator can write: OUT in DRAM, INP on chip."""
    return (MemoryType.OUT, *([MemoryType.INP] if config.has(Extension.FEEDBACK) else []))


LOADED_INTO_ACC = tuple(memory for memory in LOADABLE if MEMORIES[memory].scratchpad is MemoryType.ACC)
"""Memory types whose LOADs write accumulators."""
UNREAD_BY_STEPS = (MemoryType.TABLE, MemoryType.RES)
"""Scratchpads that the compute unit loads and only the store unit reads."""


def unread_by_steps(config: HasExtensions) -> tuple[MemoryType, ...]:
    """Return the memory types of UNREAD_BY_STEPS that an accelerator has."""
    return tuple(memory for memory in UNREAD_BY_STEPS if memory in memories_of(config))


def counted_as(memory: MemoryType) -> MemoryType:
    """Return the memory type with which transfers of `memory` are counted: transfers of a table as micro-ops,
    others loaded for the accumulators or what is added to them as accumulators."""
    return MEMORIES[memory].counted


def loaded_by(unit: Unit, config: HasExtensions | None = None) -> tuple[MemoryType, ...]:
    """Return the memory types whose LOADs `unit` executes: the types of an accelerator, or all."""
    present = MemoryType if config is None else memories_of(config)
    return tuple(
        memory for memory, about in MEMORIES.items() if about.loaded_by is unit and memory in present
    )


def scratchpad_of(memory: MemoryType) -> MemoryType:
    """Return the memory on chip in which elements of `memory` stand: ACC for OUT and ACC_8BIT."""
    return MEMORIES[memory].scratchpad
