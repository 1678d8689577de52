"""The elements that an instruction accesses, and the error for an access out of bounds."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vdla.hw.spec import encoding, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import AccessError
from vdla.hw.spec.touched import accesses, extent, fields_of, named, rows_in_dram
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.decoded import DecodedStream


@dataclass(frozen=True, slots=True)
class Reach:
    """Elements (DRAM: bytes) `low` to `high - 1` of a memory of `limit`; `memory` None is DRAM."""

    memory: MemoryType | None
    low: int
    high: int
    limit: int

    def __str__(self) -> str:
        if self.memory is None:
            return f"reaches DRAM bytes {self.low:#x}..{self.high - 1:#x}, but DRAM has {self.limit:#x} bytes"
        name = self.memory.name
        return f"reaches {name} elements {self.low}..{self.high - 1}, but {name} holds {self.limit}"


def reaches(
    instruction: isa.Instruction, uop: np.ndarray, config: AcceleratorConfig, dram_bytes: int
) -> Iterator[Reach]:
    """Yield what `instruction` touches, access by access; nothing where its loops or sizes are empty.

    Micro-ops out of range are yielded alone, as what they would name is not defined.

    Args:
        uop: uint[depth], the micro-op memory when the instruction runs.
    """
    fields, used = fields_of(instruction), uop[:0]
    for access in accesses(instruction):
        memory, ends = MemoryType(named(access, fields)), (0, 0)
        if access.uop_field:
            column = uop_column(used, access.uop_field, config)
            ends = int(column.min()), int(column.max())
        if access.in_dram:
            rows = rows_in_dram(access, fields, config.element_bytes(memory, fields("halvings")))
            yield Reach(None, rows.begin, rows.end, dram_bytes)
            continue
        low, high = extent(access, fields, ends)
        yield Reach(memory, low, high, config.depth(memory))
        if access.reads and memory is MemoryType.UOP:
            if high > len(uop):
                return
            used = uop[low:high]


def check_access(program: DecodedStream, index: int, uop: np.ndarray, dram_bytes: int) -> None:
    """Refuse the instruction at `index` if it accesses anything outside a memory.

    Raises:
        AccessError: naming the instruction, the memory, the range it reaches and the size.
    """
    for reach in reaches(program.instruction(index), uop, program.config, dram_bytes):
        if reach.high > reach.limit:
            raise AccessError(f"{program.describe(index)} {reach}", index)


def uop_column(uop: np.ndarray, name: str, config: AcceleratorConfig) -> np.ndarray:
    """Return int64[n]: field `name` of encoded micro-ops uint[n]."""
    field = encoding.field_of(isa.MicroOp, name, config)
    return uop.astype(np.int64) >> field.start & ((1 << field.width) - 1)
