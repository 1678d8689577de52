"""The DRAM bytes that instructions move, row by row, as columns."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from vdla.hw.spec import encoding, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import FOOTPRINTS, dram_access, forms_in_dram
from vdla.hw.spec.touched import Fields, happens, rows_in_dram
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.decoded import DecodedStream
from vdla.sim.records import BoolArray, IntArray

PART_ROWS = 1 << 20  # rows that are listed at a time
NO_ROW = -1


@dataclass(frozen=True)
class DramRows:
    """What m transfers move: row y of a transfer is the bytes from `begin + y * stride`, `width` of them.

    Attributes:
        index: int64[m], positions in the stream, ascending.
        memory: int64[m], memory types.
        begin, stride, width: int64[m], bytes; `width` is at least 1.
        count: int64[m], rows; at least 1.
    """

    index: IntArray
    memory: IntArray
    begin: IntArray
    stride: IntArray
    width: IntArray
    count: IntArray

    def __len__(self) -> int:
        return len(self.index)

    @property
    def end(self) -> IntArray:
        """int64[m]: the end of the last row, behind its last byte."""
        return self.begin + (self.count - 1) * self.stride + self.width

    @property
    def columns(self) -> tuple[IntArray, ...]:
        """The fields, in order."""
        return tuple(getattr(self, name) for name in DramRows.__dataclass_fields__)

    def chosen(self, which: IntArray | BoolArray | slice) -> "DramRows":
        """Return the transfers that `which` (positions, a mask or a slice) selects."""
        return DramRows(*(column[which] for column in self.columns))

    def merged(self) -> "DramRows":
        """Return the same bytes, with rows that leave no gap as one row."""
        dense = self.stride <= self.width
        width, count = np.where(dense, self.end - self.begin, self.width), np.where(dense, 1, self.count)
        return DramRows(self.index, self.memory, self.begin, self.stride, width, count)

    def spans(self) -> tuple[IntArray, IntArray]:
        """Return int64[k] begins and ends of disjoint intervals, in order, that hold the bytes of all rows,
        and bytes between the rows of a transfer."""
        return joined(self.begin, self.end)

    def first_row_in(self, low: int, high: int) -> IntArray:
        """Return int64[m]: the first row of each transfer with a byte in [low, high); else NO_ROW."""
        after_low = (low - self.begin - self.width) // np.maximum(self.stride, 1) + 1
        row = np.where(self.stride > 0, np.maximum(after_low, 0), 0)
        begin = self.begin + row * self.stride
        return np.where((row < self.count) & (begin < high) & (begin + self.width > low), row, NO_ROW)

    def listed(self) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Yield all rows in order, about PART_ROWS at a time: transfers' places, begins, ends: int64[r]."""
        parts = np.cumsum(self.count) // PART_ROWS
        for places in np.split(np.arange(len(self)), np.flatnonzero(np.diff(parts)) + 1) if len(self) else ():
            count = self.count[places]
            owner = np.repeat(places, count)
            row = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
            begin = self.begin[owner] + row * self.stride[owner]
            yield owner, begin, begin + self.width[owner]


def joined(begins: IntArray, ends: IntArray) -> tuple[IntArray, IntArray]:
    """Return intervals in order; intervals that touch or overlap are joined."""
    if not len(begins):
        return begins, ends
    order = np.argsort(begins, kind="stable")
    begins, reached = begins[order], np.maximum.accumulate(ends[order])
    gaps = np.flatnonzero(begins[1:] > reached[:-1])
    return begins[np.append(0, gaps + 1)], reached[np.append(gaps, -1)]


def dram_rows(program: DecodedStream, form: type[isa.Instruction]) -> DramRows:
    """Return the rows that the instructions of `form` (of `forms_in_dram`) move, as far as a run reaches;
    without instructions that move nothing."""
    reached, access = program.part(slice(program.dispatched)), dram_access(form)
    fields = reached.fields(form)
    index = np.flatnonzero(reached.opcode == form.opcode)
    memory = moved_memories(reached, form)
    columns = rows_in_dram(access, fields, element_bytes(memory, fields, program.config))
    rows = DramRows(index, memory, *columns)
    return rows.chosen(happens(FOOTPRINTS[form], access, fields))


def written_rows(program: DecodedStream) -> DramRows:
    """Return the rows that instructions of all forms write, in order; see `dram_rows`."""
    writing = [form for form in forms_in_dram() if dram_access(form).writes]
    columns = zip(*(dram_rows(program, form).columns for form in writing), strict=True)
    rows = DramRows(*map(np.concatenate, columns))
    return rows.chosen(np.argsort(rows.index, kind="stable"))


def moved_memories(program: DecodedStream, form: type[isa.Instruction]) -> IntArray:
    """Return int64[...]: the memory type of what each instruction of `form` moves, in program order."""
    memory = dram_access(form).memory
    if memory is None:
        return program.column(form, "memory_type")
    return np.full(np.count_nonzero(program.opcode == form.opcode), memory, np.int64)


def element_bytes(memory: IntArray, fields: Fields, config: AcceleratorConfig) -> IntArray:
    """Return int64[m]: bytes in DRAM of an element that each instruction moves; 0 for codes of memories that
    are none.

    Args:
        memory: int64[m], memory types.
        fields: of the instructions.
    """
    codes = 1 << encoding.field_of(isa.Load, "memory_type", config).width
    sizes = np.zeros((codes, 1 << isa.HALVINGS_BITS), np.int64)
    for kind, halvings in product(MemoryType, range(sizes.shape[1])):
        sizes[kind, halvings] = config.element_bytes(kind, halvings)
    chosen: IntArray = sizes[memory, fields("halvings")]
    return chosen
