"""What a load engine tells apart of its LOADs: the memory type, and how narrow its values are in DRAM."""

from typing import NamedTuple

from amaranth.hdl import Value
from amaranth.lib import data

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memories import scratchpad_of
from vdla.hw.spec.vocabulary import MemoryType


class Source(NamedTuple):
    """A kind of elements in DRAM.

    Attributes:
        memory: the memory type of the LOADs that read them.
        halvings: of these LOADs.
    """

    memory: MemoryType
    halvings: int = 0

    @property
    def name(self) -> str:
        """The name of its signals."""
        name = self.memory.name.lower()
        return f"{name}_halved_{self.halvings}" if self.halvings else name

    @property
    def scratchpad(self) -> MemoryType:
        """The scratchpad that the LOADs write."""
        return scratchpad_of(self.memory)

    def element_bits(self, config: AcceleratorConfig) -> int:
        """Return the bits of an element in DRAM."""
        return config.element_bits(self.memory, self.halvings)

    def value_bits(self, config: AcceleratorConfig) -> int:
        """Return the bits of a value in DRAM."""
        return config.value_bits(self.memory, self.halvings)

    def steps(self, config: AcceleratorConfig) -> int:
        """Return the steps that write one element: one per beat that it fills."""
        return max(1, self.element_bits(config) // config.bus_bits)


def sources(config: AcceleratorConfig, memories: tuple[MemoryType, ...]) -> tuple[Source, ...]:
    """Return the sources of LOADs of `memories`."""
    return tuple(Source(memory, halvings) for memory in memories for halvings in config.halvings(memory))


def names_source(load: data.View, source: Source, config: AcceleratorConfig) -> Value:
    """Return whether a LOAD reads elements of a source."""
    named: Value = load.memory_type == source.memory
    if len(config.halvings(source.memory)) == 1:
        return named
    return named & (load.halvings == source.halvings)
