"""Operands of a program: the tensor in DRAM, and the map from operand elements to tensor elements."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import Rows, StreamBuilder
from vdla.runtime.windows import Windows

Move = Callable[[int, str, int, Rows], None]
"""Records a transfer: first element on chip, tensor, first element of the tensor, rows."""


class TransferPart(NamedTuple):
    """A part of a transfer.

    Attributes:
        chip: elements on chip that precede the part in the transfer.
        dram: first element of the part in the tensor, or in the operand before it is mapped.
        rows: rows of the part.
    """

    chip: int
    dram: int
    rows: Rows


class AddressMap:
    """The dense map: the elements of an operand are contiguous in its tensor.

    Programs count elements as if every operand were dense. The other maps derive from this class. They split
    each transfer into transfers from the actual positions of the elements.
    """

    __slots__ = ()

    def load(self, memory: MemoryType, builder: StreamBuilder, record: Move) -> Move:
        """Return the recorder of LOADs of an operand into an on-chip memory; `record` records dense LOADs."""
        return record

    def store(self, record: Move) -> Move:
        """Return the recorder of STOREs of an operand; `record` records dense STOREs."""
        return record


DENSE = AddressMap()


@dataclass(frozen=True, slots=True)
class Operand:
    """The position of a program's operand in DRAM.

    Attributes:
        tensor: name of its tensor in the stream.
        begin: first element of the operand that the program's parameter covers.
        address_map: map from elements of the operand to elements of the tensor.
    """

    tensor: str
    begin: int = 0
    address_map: AddressMap = DENSE

    def load(
        self, builder: StreamBuilder, memory: MemoryType, *, pad_minimum: bool = False, pad_value: int = 0
    ) -> Move:
        """Return the recorder of LOADs of the operand into an on-chip memory.

        Args:
            pad_minimum: padding is the least int8 value.
            pad_value: value of the padding.
        """
        record = partial(builder.load, memory, pad_minimum=pad_minimum, pad_value=pad_value)
        return self.address_map.load(memory, builder, record)


@dataclass(frozen=True, slots=True)
class Packed(AddressMap):
    """A map whose elements are windows of a packed image."""

    windows: Windows

    def load(self, memory: MemoryType, builder: StreamBuilder, record: Move) -> Move:
        """Return the recorder of GATHERs of windows into INP."""
        return partial(builder.gather, self.windows)
