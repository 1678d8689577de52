"""What a stream builder has recorded: the fields of instructions, form by form, and what they touch."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import FOOTPRINTS, Access, executing_unit, shared_accesses
from vdla.hw.spec.memories import LOADABLE, LOADED_INTO_ACC
from vdla.hw.spec.touched import Fields, extent, happens, named
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.encode import blank_words, encode_rows
from vdla.runtime.stream.micro_kernels import MicroKernel
from vdla.runtime.stream.tokens import PLACES, tensor_read, tensor_written

UOP_FIELDS = ("dst", "src", "wgt")
FIELDS: Mapping[type[isa.Instruction], tuple[str, ...]] = {form: isa.field_names(form) for form in FOOTPRINTS}
FORMS = {int(form.opcode): form for form in FIELDS}
LOADING_UNITS = {int(memory): executing_unit(isa.Load, memory) for memory in LOADABLE}
UNITS = {form: footprint.unit for form, footprint in FOOTPRINTS.items() if footprint.unit is not None}
IN_ACC = np.isin(np.arange(len(MemoryType)), (MemoryType.ACC, *LOADED_INTO_ACC))  # by memory type
NO_TENSOR = -1
NO_LABEL = -1

Tables = dict[type[isa.Instruction], tuple[np.ndarray, np.ndarray, np.ndarray]]


class Recorded(NamedTuple):
    """One recorded instruction.

    Attributes:
        row: the values of its FIELDS.
        tensor: number of the tensor that it moves, or NO_TENSOR.
        uops: its micro-kernel, if it steps through micro-ops.
        owner: number of the label that it belongs to, or NO_LABEL.
    """

    form: type[isa.Instruction]
    row: tuple[int, ...]
    tensor: int
    uops: MicroKernel | None
    owner: int


class Record:
    """Instructions in the order in which they were recorded.

    Attributes:
        units: the unit of each.
        owner: number of the label to which instructions recorded from here on belong.
        owners: the owner of each.
    """

    def __init__(self) -> None:
        self.units = bytearray()
        self.owner = NO_LABEL
        self.owners: list[int] = []
        self._opcodes = bytearray()
        self._fields: dict[type[isa.Instruction], list[int]] = {form: [] for form in FIELDS}
        self._kernels: dict[type[isa.Instruction], list[MicroKernel]] = {form: [] for form in FIELDS}
        self._tensors: list[int] = []
        self._tables: tuple[int, Tables] = 0, {}  # of so many instructions

    def __len__(self) -> int:
        return len(self.units)

    def transfer(self, form: type[isa.Instruction], row: tuple[int, ...], tensor: int) -> None:
        """Append a LOAD or STORE; `row`: its FIELDS; `tensor`: the number of the tensor that it moves."""
        unit = LOADING_UNITS[row[0]] if form is isa.Load else UNITS[form]
        self._append(form, unit, row, tensor)

    def compute(
        self, form: type[isa.Instruction], row: tuple[int, ...], uops: MicroKernel | None = None
    ) -> None:
        """Append an instruction of the compute unit; `uops`: its micro-kernel, if any."""
        self._append(form, UNITS[form], row, NO_TENSOR)
        if uops is not None:
            self._kernels[form].append(uops)

    def _append(self, form: type[isa.Instruction], unit: Unit, row: tuple[int, ...], tensor: int) -> None:
        self._opcodes.append(form.opcode)
        self.units.append(unit)
        self._fields[form] += row
        self._tensors.append(tensor)
        self.owners.append(self.owner)

    def instructions(self) -> Iterator[Recorded]:
        """Yield the instructions in order."""
        rows = {form: map(tuple, columns.tolist()) for form, (_, columns, _) in self._columns().items()}
        kernels = {form: iter(uops) for form, uops in self._kernels.items()}
        for opcode, tensor, owner in zip(self._opcodes, self._tensors, self.owners, strict=True):
            form = FORMS[opcode]
            yield Recorded(form, next(rows[form]), tensor, next(kernels[form], None), owner)

    def tensors(self) -> np.ndarray:
        """Return int64[n]: the number of the tensor that each instruction moves, or NO_TENSOR."""
        return np.array(self._tensors, np.int64)

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
