"""What the store unit does behind requantisation: it looks values up in a table.

Programs do not say so: what they store is changed on its way.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from vdla.compiler.codegen.emission import Move
from vdla.hw.spec import isa
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import Rows, StreamBuilder

TABLE = "T"
"""The tensor of the table, as operators name it."""


@dataclass(frozen=True, slots=True)
class After:
    """What comes behind requantisation.

    Attributes:
        table: number of the table on chip, from 1, in which values are looked up; 0: in none.
    """

    table: int = 0


NOTHING = After()


def begun(builder: StreamBuilder, tensors: Mapping[str, str], after: After) -> Callable[[int], Move]:
    """Load what all STOREs of a program need; return what records STOREs by a set of parameters.

    Args:
        tensors: the stream's name of TABLE.
    """
    size = isa.TABLE_ELEMENTS
    builder.load(MemoryType.TABLE, (after.table - 1) * size, tensors[TABLE], 0, Rows(1, size, size))
    return lambda parameters: partial(builder.store, parameters=parameters, table=after.table)
