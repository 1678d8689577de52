"""What a stream builder has recorded: the fields of instructions, form by form, and what they touch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from vdla.hw.spec import encoding, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import (
    FOOTPRINTS,
    Access,
    dram_access,
    executing_unit,
    forms_in_dram,
    shared_accesses,
)
from vdla.hw.spec.memories import LOADABLE, LOADED_INTO_ACC
from vdla.hw.spec.touched import Fields, extent, happens, named
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.encode import blank_words, encode_rows
from vdla.runtime.stream.micro_kernels import MicroKernel
from vdla.runtime.stream.tokens import PLACES, tensor_read, tensor_written

UOP_FIELDS = ("dst", "src", "wgt")
FIELDS: Mapping[type[isa.Instruction], tuple[str, ...]] = {form: isa.field_names(form) for form in FOOTPRINTS}
UNITS = np.zeros(1 << encoding.OPCODE_BITS, np.uint8)  # by opcode; those of LOADs depend on the memory
for _form, _footprint in FOOTPRINTS.items():
    UNITS[_form.opcode] = _footprint.unit or 0
UNITS_OF_LOADS = np.zeros(len(MemoryType), np.uint8)  # by memory type
for _memory in LOADABLE:
    UNITS_OF_LOADS[_memory] = executing_unit(isa.Load, _memory)
IN_ACC = np.isin(np.arange(len(MemoryType)), (MemoryType.ACC, *LOADED_INTO_ACC))  # by memory type
WRITING = tuple(form for form in forms_in_dram() if dram_access(form).writes)
NO_TENSOR = -1
NO_LABEL = -1

Tables = dict[type[isa.Instruction], tuple[np.ndarray, np.ndarray, np.ndarray]]


class InsertedLoad(NamedTuple):
    """A LOAD that an edit inserts.

    Attributes:
        before: number of the instruction before which the LOAD is inserted.
        row: the values of its FIELDS.
        tensor: number of the tensor that it loads.
        owner: number of the label that it belongs to, or NO_LABEL.
    """

    before: int
    row: tuple[int, ...]
    tensor: int
    owner: int


@dataclass(frozen=True)
class Edit:
    """Changes of a record.

    Attributes:
        dropped: numbers of the LOADs that are left out.
        inserted: LOADs in any order; LOADs before the same instruction keep their order.
        moved: new first elements on chip, by the number of the LOAD.
        kernels: new micro-kernels, by the number of the instruction.
    """

    dropped: Sequence[int]
    inserted: Sequence[InsertedLoad]
    moved: Mapping[int, int]
    kernels: Mapping[int, MicroKernel]


class Record:
    """Instructions in the order in which they were recorded.

    Attributes:
        owner: number of the label to which instructions recorded from here on belong.
        owners: the owner of each.
    """

    def __init__(self) -> None:
        self.owner = NO_LABEL
        self.owners: list[int] = []
        self._opcodes = bytearray()
        self._fields: dict[type[isa.Instruction], list[int]] = {form: [] for form in FIELDS}
        self._kernels: dict[type[isa.Instruction], list[MicroKernel]] = {form: [] for form in FIELDS}
        self._tensors: list[int] = []
        self._tables: tuple[int, Tables] = 0, {}  # of so many instructions

    def __len__(self) -> int:
        return len(self._opcodes)

    def compute(
        self, form: type[isa.Instruction], row: tuple[int, ...], uops: MicroKernel | None = None
    ) -> None:
        """Append an instruction of the compute unit; `uops`: its micro-kernel, if any."""
        self.transfer(form, row, NO_TENSOR)
        if uops is not None:
            self._kernels[form].append(uops)

    def transfer(self, form: type[isa.Instruction], row: tuple[int, ...], tensor: int) -> None:
        """Append an instruction; `row`: its FIELDS; `tensor`: the number of the tensor that it moves, or
        NO_TENSOR."""
        self._opcodes.append(form.opcode)
        self._fields[form].extend(row)
        self._tensors.append(tensor)
        self.owners.append(self.owner)

    def table(self, form: type[isa.Instruction]) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers, int64[m], and the FIELDS, int64[m, fields], of the instructions of a form."""
        nothing = np.zeros(0, np.int64), np.zeros((0, len(FIELDS[form])), np.int64), None
        here, columns, _ = self._columns().get(form, nothing)
        return here, columns

    def kernels(self) -> dict[int, MicroKernel]:
        """Return the micro-kernels by the number of their instruction, in order."""
        numbered = [
            pair
            for form, kernels in self._kernels.items()
            if kernels
            for pair in zip(self.table(form)[0].tolist(), kernels, strict=True)
        ]
        return dict(sorted(numbered, key=itemgetter(0)))

    def edited(self, edit: Edit, begins: Mapping[int, int]) -> "Record":
        """Return the record after an edit. FINISH and the recorded LOADs of micro-ops are left out.

        Args:
            edit: has the micro-kernel of every instruction that steps through micro-ops.
            begins: places of the micro-kernels in micro-op memory, by the number of the instruction.
        """
        kept, inserted = self._kept(edit.dropped), edit.inserted
        before, tensors, owners = np.array([(each[0], *each[2:]) for each in inserted]).reshape(-1, 3).T
        opcodes = np.concatenate([self.opcodes()[kept], np.full(len(inserted), isa.Load.opcode, np.uint8)])
        order = np.argsort(np.concatenate([2 * np.flatnonzero(kept) + 1, 2 * before]), kind="stable")
        edited = Record()
        edited.owner = self.owner
        for form in FIELDS:
            here, columns = self.table(form)
            rows = _edited_rows(form, here, columns, edit, begins)[kept[here]]
            if form is isa.Load:
                added = np.array([each.row for each in inserted], np.int64)
                rows = np.concatenate([rows, added.reshape(-1, len(FIELDS[form]))])
            of_form = opcodes == form.opcode
            ranks = (np.cumsum(of_form) - 1)[order[of_form[order]]]
            edited._fields[form] = rows[ranks].ravel().tolist()
            edited._kernels[form] = [edit.kernels[number] for number in here.tolist() if self._kernels[form]]
        edited._opcodes = bytearray(opcodes[order])
        edited._tensors = np.concatenate([self.tensors()[kept], tensors])[order].tolist()
        edited.owners = np.concatenate([np.array(self.owners)[kept], owners])[order].tolist()
        return edited

    def _kept(self, dropped: Sequence[int]) -> np.ndarray:
        """Return bool[n]: which instructions an edit keeps."""
        kept: np.ndarray = self.opcodes() != isa.Finish.opcode
        kept[np.array(dropped, np.int64)] = False
        numbers, columns = self.table(isa.Load)
        kept[numbers[columns[:, 0] == MemoryType.UOP]] = False
        return kept

    def tensors(self) -> np.ndarray:
        """Return int64[n]: the number of the tensor that each instruction moves, or NO_TENSOR."""
        return np.array(self._tensors, np.int64)

    def written(self) -> np.ndarray:
        """Return int64[n]: the number of the tensor that each instruction writes, or NO_TENSOR."""
        writes = np.isin(self.opcodes(), [form.opcode for form in WRITING])
        return np.where(writes, self.tensors(), NO_TENSOR)

    def words(self, config: AcceleratorConfig) -> np.ndarray:
        """Return uint64[n, instruction_bits / 64]: the instructions, encoded without tokens."""
        words = blank_words(len(self), config)
        for form, (here, columns, _) in self._columns().items():
            words[here] = encode_rows(form, config, FIELDS[form], columns)
        return words

    def touched(self) -> np.ndarray:
        """Return int64[n, PLACES, 3]: what each instruction touches that another unit may touch, too; see
        `conflicts`."""
        places = np.zeros((len(self), PLACES, 3), np.int64)
        tensors = self.tensors()
        for form, (here, columns, ranges) in self._columns().items():
            for number, place in enumerate(_places(form, columns, ranges, tensors[here])):
                for column, values in enumerate(place):
                    places[here, number, column] = values
        return places

    def opcodes(self) -> np.ndarray:
        """Return uint8[n]: the opcode of each instruction."""
        return np.frombuffer(self._opcodes, np.uint8)

    def units(self) -> np.ndarray:
        """Return uint8[n]: the unit of each instruction."""
        units: np.ndarray = UNITS[self.opcodes()]
        loads, columns = self.table(isa.Load)
        units[loads] = UNITS_OF_LOADS[columns[:, 0]]
        return units

    def halves(self, config: AcceleratorConfig) -> np.ndarray:
        """Return int64[n]: a bit for each half of ACC that an instruction of the compute unit touches."""
        halves = np.zeros(len(self), np.int64)
        for form, (here, columns, ranges) in self._columns().items():
            halves[here] = _halves(form, columns, ranges, config)
        return halves

    def _ranges(self, form: type[isa.Instruction]) -> np.ndarray:
        """Return int64[m, 6]: the least and the greatest value of each of UOP_FIELDS in the micro-kernel of
        each instruction of a form."""
        values = [value for uops in self._kernels[form] for pair in uops.ranges for value in pair]
        return np.array(values, np.int64).reshape(-1, 2 * len(UOP_FIELDS))

    def _columns(self) -> Tables:
        """Return, by form, the positions of its instructions, their fields and their ranges, a row for
        each."""
        if self._tables[0] != len(self):
            self._tables = len(self), dict(self._new_tables())
        return self._tables[1]

    def _new_tables(
        self,
    ) -> Iterator[tuple[type[isa.Instruction], tuple[np.ndarray, np.ndarray, np.ndarray]]]:
        opcodes = self.opcodes()
        for form, values in self._fields.items():
            here = np.flatnonzero(opcodes == form.opcode)
            if here.size:
                yield form, (here, _rows(values, len(here)), self._ranges(form))


def _edited_rows(
    form: type[isa.Instruction],
    numbers: np.ndarray,
    columns: np.ndarray,
    edit: Edit,
    begins: Mapping[int, int],
) -> np.ndarray:
    """Return the fields of instructions of a form after an edit."""
    rows = columns.copy()
    if form is isa.Load and edit.moved:
        at = np.searchsorted(numbers, list(edit.moved))
        rows[at, FIELDS[form].index("sram_base")] = list(edit.moved.values())
    elif "uop_begin" in FIELDS[form]:
        begin, end = FIELDS[form].index("uop_begin"), FIELDS[form].index("uop_end")
        rows[:, begin] = [begins[number] for number in numbers.tolist()]
        rows[:, end] = rows[:, begin] + [len(edit.kernels[number]) for number in numbers.tolist()]
    return rows


def _rows(values: list[int], count: int) -> np.ndarray:
    """Return int64[count, -1]: values that stand row behind row."""
    return np.fromiter(values, np.int64, len(values)).reshape(count, -1)


def _fields(form: type[isa.Instruction], columns: np.ndarray) -> Fields:
    """Return the fields of instructions of a form by name."""
    return lambda name: columns[:, FIELDS[form].index(name)]


def _on_chip(
    access: Access, form: type[isa.Instruction], fields: Fields, ranges: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return memory, begin and end of what an access touches on chip; begin and end are equal where that is
    nothing."""
    if access.uop_field:
        column = 2 * UOP_FIELDS.index(access.uop_field)
        begin, end = extent(access, fields, (ranges[:, column], ranges[:, column + 1]))
    else:
        begin, end = extent(access, fields)
    occurs = happens(FOOTPRINTS[form], access, fields)
    return named(access, fields), begin, begin + (end - begin) * occurs


def _places(
    form: type[isa.Instruction], columns: np.ndarray, ranges: np.ndarray, tensors: np.ndarray
) -> list[tuple[np.ndarray | int, ...]]:
    """Return memory, begin and end of each access that can conflict with another unit's."""
    fields = _fields(form, columns)
    return [
        _in_tensor(access, form, fields, tensors)
        if access.in_dram
        else _on_chip(access, form, fields, ranges)
        for access in shared_accesses(form)
    ]


def _halves(
    form: type[isa.Instruction], columns: np.ndarray, ranges: np.ndarray, config: AcceleratorConfig
) -> np.ndarray:
    """Return a bit for each half of ACC that instructions of a form touch."""
    fields, half, bits = (
        _fields(form, columns),
        config.depth(MemoryType.ACC) // 2,
        np.zeros(len(columns), int),
    )
    for access in FOOTPRINTS[form].accesses:
        if access.in_dram or not (access.memory is None or IN_ACC[access.memory]):
            continue
        memory, begin, end = _on_chip(access, form, fields, ranges)
        of_acc = IN_ACC[memory] & (end > begin)
        bits |= (of_acc & (begin < half)) | (of_acc & (end > half)) << 1
    return bits


def _in_tensor(
    access: Access, form: type[isa.Instruction], fields: Fields, tensors: np.ndarray
) -> tuple[np.ndarray | int, ...]:
    """Return what transfers touch of their tensors."""
    if access.writes:
        return tensor_written(tensors)
    units = np.array([executing_unit(form, memory) for memory in LOADABLE])
    return tensor_read(tensors, units[np.searchsorted(LOADABLE, fields("memory_type"))])
