"""The operands of a program: their tensors in DRAM, and the map from their elements to those of the
tensor."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import Rows, StreamBuilder

Move = Callable[[int, str, int, Rows], None]
"""Records a transfer: first element on chip, tensor, first element of the tensor, rows."""


class AddressMap:
    """The dense map: the elements of an operand follow each other in its tensor.

    Programs count elements as if every operand were dense. The other maps derive from this class. They divide
    each transfer into transfers of elements from where these are.
    """

    __slots__ = ()

    def load(self, memory: MemoryType, builder: StreamBuilder, record: Move) -> Move:
        """Return what records LOADs of an operand into a memory on chip; `record` records dense LOADs."""
        return record

    def store(self, record: Move) -> Move:
        """Return what records STOREs of an operand; `record` records dense STOREs."""
        return record


DENSE = AddressMap()


@dataclass(frozen=True, slots=True)
class Operand:
    """Where an operand of a program lies in DRAM.

    Attributes:
        tensor: name of its tensor in the stream.
        begin: element of the operand with which the program's parameter begins.
        address_map: where the elements of the operand are.
    """

    tensor: str
    begin: int = 0
    address_map: AddressMap = DENSE

    def load(
        self, builder: StreamBuilder, memory: MemoryType, *, pad_minimum: bool = False, pad_value: int = 0
    ) -> Move:
        """Return what records LOADs of the operand into a memory on chip."""
        record = partial(builder.load, memory, pad_minimum=pad_minimum, pad_value=pad_value)
        return self.address_map.load(memory, builder, record)
