"""Operands of a program: the tensor in DRAM, and the map from operand elements to tensor elements."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import Rows, StreamBuilder
from vdla.runtime.windows import GatheredLines

Move = Callable[[int, str, int, Rows], None]
"""Records a transfer: first element on chip, tensor, first element of the tensor, rows."""


class Transfer(NamedTuple):
    """A LOAD or STORE, or a part of such a transfer.

    Attributes:
        chip: first element on chip; of a part, relative to the whole transfer.
        dram: first element in the tensor, or in the operand before it is mapped.
        rows: rows of elements.
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

    def tensors(self, tensor: str) -> tuple[str, ...]:
        """Return the names of the tensors that hold an operand in `tensor`."""
        return (tensor,)

    def renamed(self, names: Mapping[str, str]) -> "AddressMap":
        """Return the map with its tensors renamed by `names`."""
        return self

    def size(self, dense: int) -> int:
        """Return the bytes of the tensor of an operand with `dense` bytes; 0 if the operand has no
        separate tensor, because it consists of parts of other operands."""
        return dense


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

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of the tensors that hold the operand."""
        return self.address_map.tensors(self.tensor)

    def after(self, count: int) -> "Operand":
        """Return the operand without its first `count` elements."""
        return replace(self, begin=self.begin + count)

    def renamed(self, names: Mapping[str, str]) -> "Operand":
        """Return the operand with its tensors renamed by `names`."""
        return replace(self, tensor=names[self.tensor], address_map=self.address_map.renamed(names))

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
    """A map whose elements are windows of packed lines."""

    lines: GatheredLines

    def load(self, memory: MemoryType, builder: StreamBuilder, record: Move) -> Move:
        """Return the recorder of GATHERs of windows into INP; `record` records rows of padding."""

        def move(chip: int, tensor: str, element: int, rows: Rows) -> None:
            """Record a LOAD as GATHERs."""
            if rows.height:
                builder.gather(self.lines, chip, tensor, element, rows)
            else:
                record(chip, tensor, element, rows)

        return move


def whole_rows(rows: Rows, most: int, room: int) -> int:
    """Return how many rows of a transfer, at most `most`, lie in the first `room` contiguous elements."""
    spare = room - rows.width
    return 0 if spare < 0 else min(most, spare // max(rows.stride, 1) + 1)
