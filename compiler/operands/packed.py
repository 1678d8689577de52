"""The address map of packed images: overlapping windows of rows of pixels, read by GATHERs."""

from dataclasses import dataclass
from functools import partial

from vdla.compiler.operands.address_map import AddressMap, Move
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import StreamBuilder
from vdla.runtime.windows import Windows


@dataclass(frozen=True, slots=True)
class Packed(AddressMap):
    """Elements that are windows of a packed image."""

    windows: Windows

    def load(self, memory: MemoryType, builder: StreamBuilder, record: Move) -> Move:
        """Return what records GATHERs of windows into INP."""
        return partial(builder.gather, self.windows)
