"""The address map of packed images: overlapping windows of pixel rows, read by GATHERs."""

from dataclasses import dataclass
from functools import partial

from vdla.compiler.operands.address_map import AddressMap, Move
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import StreamBuilder
from vdla.runtime.windows import Windows


@dataclass(frozen=True, slots=True)
class Packed(AddressMap):
    """A map whose elements are windows of a packed image."""

    windows: Windows

    def load(self, memory: MemoryType, builder: StreamBuilder, record: Move) -> Move:
        """Return the recorder of GATHERs of windows into INP."""
        return partial(builder.gather, self.windows)
