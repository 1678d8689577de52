"""The footprints are what the plain model of the instruction set reads and writes, and nothing else."""

from itertools import product

import pytest
from generators.programs import random_config, random_program

from tests.programs.model import Model
from vdla.hw.spec import encoding, isa
from vdla.hw.spec.footprint import FOOTPRINTS, executions, meets_other_units, shared_accesses
from vdla.hw.spec.memories import scratchpad_of
from vdla.hw.spec.touched import accesses, elements, extent, fields_of, named, rows_in_dram, total
from vdla.hw.spec.units import unit_of
from vdla.hw.spec.vocabulary import MemoryType, Unit

DRAM = "DRAM"


class Element(list):
    """An element on chip that notes when its values are read and written."""

    def __init__(self, values, place, noted):
        super().__init__(values)
        self.place, self.noted = place, noted

    def __getitem__(self, index):
        self.noted["read"].add(self.place)
        return super().__getitem__(index)

    def __iter__(self):
        self.noted["read"].add(self.place)
        return super().__iter__()

    def __setitem__(self, index, value):
        self.noted["written"].add(self.place)
        super().__setitem__(index, value)


class Pad(list):
    """A scratchpad whose elements note what happens to them."""

    def __init__(self, elements, memory, noted):
        self.memory, self.noted = memory, noted
        super().__init__(Element(values, (memory, index), noted) for index, values in enumerate(elements))

    def __setitem__(self, index, values):
        self.noted["written"].add((self.memory, index))
        super().__setitem__(index, Element(values, (self.memory, index), self.noted))


class Bytes(bytearray):
    """DRAM that notes which bytes are read and written."""

    noted = None

    def __getitem__(self, index):
        self.noted["read"].update((DRAM, byte) for byte in range(index.start, index.stop))
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        self.noted["written"].update((DRAM, byte) for byte in range(index.start, index.stop))
        super().__setitem__(index, value)


def declared(instruction, uops, config):
    """Return what the footprint of an instruction says that it reads and writes."""
    fields, touched = fields_of(instruction), {"read": set(), "written": set()}
    for access in accesses(instruction):
        bases = [getattr(uop, access.uop_field) for uop in uops] if access.uop_field else (0,)
        memory, indices = MemoryType(named(access, fields)), list(elements(access, fields, bases))
        assert (min(indices), max(indices) + 1) == extent(access, fields, (min(bases), max(bases)))
        size = config.element_bytes(memory, fields("halvings"))
        unit = 1 if access.in_bytes else size
        keys = (
            {(DRAM, byte) for first in set(indices) for byte in range(first * unit, first * unit + size)}
            if access.in_dram
            else {(scratchpad_of(memory), element) for element in indices}
        )
        if access.in_dram:
            keys |= within(rows_in_dram(access, fields, size), keys)
        if access.reads and not any(fields(name) for name in access.fresh):
            touched["read"] |= keys
        if access.writes:
            touched["written"] |= keys
    return touched


def within(rows, keys):
    """Return the bytes of rows, which begin and end with bytes of elements; only gathered rows leave gaps."""
    begins = [rows.begin + y * rows.stride for y in range(rows.count)]
    assert all({(DRAM, begin), (DRAM, begin + rows.width - 1)} <= keys for begin in begins)
    return {(DRAM, byte) for begin in begins for byte in range(begin, begin + rows.width)}


@pytest.mark.parametrize("seed", [0, 1, 3, 4, 5, 8])  # of small scratchpads, which have all extensions
def test_a_footprint_is_what_the_model_reads_and_writes(seed):
    config = random_config(seed)
    program = random_program(config, seed, 25)
    noted = {}
    dram = Bytes(program.image.tobytes())
    dram.noted = noted
    model = Model(config, dram)
    model.pads = {memory: Pad(pad, memory, noted) for memory, pad in model.pads.items()}
    for item in program.instructions:
        noted.update(read=set(), written=set())
        begin, end = getattr(item, "uop_begin", 0), getattr(item, "uop_end", 0)
        expected = declared(item, [decoded(model, index) for index in range(begin, end)], config)
        noted.update(read=set(), written=set())
        model.run([item])
        assert noted == expected, item


def decoded(model, index):
    word = list.__getitem__(model.pads[MemoryType.UOP][index], 0)
    values = {}
    for field in encoding.layout(isa.MicroOp, model.config):
        values[field.name] = (word & 0xFFFFFFFF) >> field.start & ((1 << field.width) - 1)
    return isa.MicroOp(**values)


def test_every_instruction_has_a_footprint():
    assert FOOTPRINTS.keys() == set(isa.INSTRUCTIONS)


def test_every_field_that_a_footprint_names_exists():
    for form, footprint in FOOTPRINTS.items():
        texts = [*footprint.trips]
        for access in footprint.accesses:
            texts += [access.base, *access.unless, *access.fresh, *access.where]
            texts += [text for axis in (access.outer, access.inner) for text in (axis.every, axis.step)]
        for text in texts:
            assert total(text, fields_of(form())) is not None


def test_accesses_of_two_units_that_can_conflict_all_do():
    """The stream builder orders any two of these that meet, so two reads must not be among them."""
    kept = [
        (unit, scratchpad_of(memory if access.memory is None else access.memory), access)
        for form, memory, unit in executions()
        for access in FOOTPRINTS[form].accesses
        if not access.in_dram and meets_other_units(access, form, memory)
    ]
    assert {(unit, pad) for unit, pad, _ in kept} == {
        (Unit.LOAD, MemoryType.INP),
        (Unit.LOAD, MemoryType.WGT),
        (Unit.COMPUTE, MemoryType.INP),
        (Unit.COMPUTE, MemoryType.WGT),
        (Unit.COMPUTE, MemoryType.ACC),
        (Unit.STORE, MemoryType.ACC),
        (Unit.STORE, MemoryType.INP),
        *((unit, pad) for unit in (Unit.COMPUTE, Unit.STORE) for pad in (MemoryType.TABLE, MemoryType.RES)),
    }
    for (unit, pad, access), (other_unit, other_pad, other_access) in product(kept, kept):
        if unit is not other_unit and pad is other_pad:
            assert access.writes or other_access.writes


@pytest.mark.parametrize(
    ("instruction", "unit"),
    [
        (isa.Load(memory_type=MemoryType.INP), Unit.LOAD),
        (isa.Load(memory_type=MemoryType.WGT), Unit.LOAD),
        (isa.Load(memory_type=MemoryType.UOP), Unit.COMPUTE),
        (isa.Load(memory_type=MemoryType.ACC), Unit.COMPUTE),
        (isa.Load(memory_type=MemoryType.ACC_8BIT), Unit.COMPUTE),
        (isa.Gemm(), Unit.COMPUTE),
        (isa.Alu(), Unit.COMPUTE),
        (isa.Finish(), Unit.COMPUTE),
        (isa.Store(memory_type=MemoryType.OUT), Unit.STORE),
        (isa.Store(memory_type=MemoryType.UOP), Unit.STORE),
    ],
)
def test_each_instruction_runs_in_its_unit(instruction, unit):
    assert unit_of(instruction) is unit


def test_micro_ops_and_accumulators_that_only_one_unit_reads_are_not_shared():
    left_out = {
        form.__name__: [
            (access.memory, "writes" if access.writes else "reads")
            for access in footprint.accesses
            if access not in shared_accesses(form)
        ]
        for form, footprint in FOOTPRINTS.items()
    }
    micro_ops, accumulators = (MemoryType.UOP, "reads"), (MemoryType.ACC, "reads")
    assert left_out == {
        "Load": [],
        "Store": [],
        "Gemm": [micro_ops],
        "Alu": [micro_ops, accumulators],  # of the second operand, which the STORE does not write
        "Depthwise": [micro_ops],
        "Finish": [],
        "Gather": [],
        "Normalise": [],
    }
