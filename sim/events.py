"""The events of each instruction that cost energy: arithmetic, accesses to scratchpads, bytes of DRAM.

They follow from the footprint of the instruction. So they depend neither on data nor on time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import mul, or_

import numpy as np

from vdla.hw.spec import isa, touched
from vdla.hw.spec.footprint import FOOTPRINTS, MICRO_OP_COUNT, Access
from vdla.hw.spec.memories import LOADABLE, SCRATCHPADS, scratchpad_of
from vdla.hw.spec.touched import Fields
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType, Statistic
from vdla.hw.spec.window import window_columns
from vdla.sim.decoded import DecodedStream
from vdla.sim.records import BoolArray, IntArray
from vdla.sim.rows import element_bytes

SUMS_OF_REQUANTISATION = 2  # bias and zero point
PRODUCTS_OF_RESIDUAL = 4  # two, of 8 and 16 bits
SUMS_OF_RESIDUAL = 3  # of the products, addend and zero point
SUMS_OF_STATISTIC = 2  # of a value: its power, or its square, and what it is added to
PRODUCTS_OF_OUTPUT = 2  # of a value that is normalised: with the mantissa, and with the factor
SUMS_OF_OUTPUT = 2  # the mean, or the greatest value, and the addend


@dataclass(frozen=True, eq=False)
class Events:
    """The events of each of n instructions: int64[n]. Instructions that are never dispatched have none.

    Attributes:
        products: of an input and a weight.
        wide_products: of two numbers of an accumulator's width.
        sums: of an accumulator's width; the other operations of the ALU count as sums.
        reads, writes: elements, by scratchpad.
        dram_bytes: of data and of the instruction itself, without padding.
    """

    products: IntArray
    wide_products: IntArray
    sums: IntArray
    reads: Mapping[MemoryType, IntArray]
    writes: Mapping[MemoryType, IntArray]
    dram_bytes: IntArray


def events_of(program: DecodedStream) -> Events:
    """Return the events of a stream's instructions."""
    count = len(program)
    products, wide_products, sums = (np.zeros(count, np.int64) for _ in range(3))
    reads, writes = ({memory: np.zeros(count, np.int64) for memory in SCRATCHPADS} for _ in range(2))
    fetched = np.where(np.arange(count) < program.dispatched, program.config.instruction_bytes, 0)
    events = Events(products, wide_products, sums, reads, writes, fetched)
    dispatched = program.part(slice(0, program.dispatched))
    for form in isa.INSTRUCTIONS:
        _add_accesses(dispatched, form, events)
    _add_products(dispatched, events)
    _add_alu(dispatched, events)
    _add_requantisation(dispatched, events)
    _add_normalisation(dispatched, events)
    return events


def _rows(program: DecodedStream, form: type[isa.Instruction]) -> IntArray:
    """Return int64[m]: the instructions of a form."""
    rows: IntArray = np.flatnonzero(program.opcode == form.opcode)
    return rows


def _add_accesses(program: DecodedStream, form: type[isa.Instruction], events: Events) -> None:
    """Add the elements that the instructions of a form read and write, and the bytes that they move."""
    rows, fields = _rows(program, form), program.fields(form)
    for access in FOOTPRINTS[form].accesses:
        for memory, chosen in _by_memory(form, access, fields, len(rows)):
            if access.in_dram:
                memories = np.full(len(rows), memory)
                element = element_bytes(memories, fields, program.config)
                transfer = touched.rows_in_dram(access, fields, element)
                moved = np.broadcast_to(transfer.width * transfer.count, len(rows))
                events.dram_bytes[rows[chosen]] += moved[chosen]
                continue
            pad, moved = scratchpad_of(memory), _elements(program, form, access)[chosen]
            if access.reads:
                fresh = reduce(or_, (fields(name) != 0 for name in access.fresh), np.zeros(len(rows), bool))
                events.reads[pad][rows[chosen]] += np.where(fresh[chosen], 0, moved)
            if access.writes:
                events.writes[pad][rows[chosen]] += moved


def _by_memory(
    form: type[isa.Instruction], access: Access, fields: Fields, count: int
) -> Iterator[tuple[MemoryType, BoolArray]]:
    """Yield each memory type of an access with bool[count]: the instructions that access it."""
    happening = np.broadcast_to(touched.happens(FOOTPRINTS[form], access, fields), count)
    if access.memory is not None:
        yield access.memory, happening
        return
    for memory in LOADABLE:
        yield memory, happening & (fields("memory_type") == memory)


def _elements(program: DecodedStream, form: type[isa.Instruction], access: Access) -> IntArray:
    """Return int64[m]: the elements of an access; an instruction with micro-ops reads one of them in every
    step, and makes its other accesses for each of them."""
    fields, footprint = program.fields(form), FOOTPRINTS[form]
    if footprint.uses_uops and not access.uop_field:
        return program.steps(form)
    trips = (axis.every for axis in (access.outer, access.inner))
    counted = reduce(mul, (touched.total(text, fields) for text in trips))
    if access.uop_field:
        counted = np.maximum(counted * touched.total(MICRO_OP_COUNT, fields), 0)
    return np.broadcast_to(np.asarray(counted, np.int64), len(_rows(program, form)))


def _add_products(program: DecodedStream, events: Events) -> None:
    """Add the multiply-accumulates of the array."""
    moved = np.where(program.column(isa.Gemm, "reset") == 0, program.steps(isa.Gemm), 0)
    rows = _rows(program, isa.Gemm)
    events.products[rows] += moved * program.config.macs_per_cycle
    events.sums[rows] += moved * program.config.macs_per_cycle
    rows = _rows(program, isa.Depthwise)
    done = program.steps(isa.Depthwise) * _products(program) * program.config.values(MemoryType.ACC)
    events.products[rows] += done
    events.sums[rows] += done


def _products(program: DecodedStream) -> IntArray:
    """Return the products of a sum of each DEPTHWISE."""
    window, fields = program.config.window, program.fields(isa.Depthwise)
    columns = np.minimum(window_columns(fields("wide")), window.columns)
    products: IntArray = np.minimum(1 + fields("more_rows"), window.rows) * columns * window.channels
    return products


def _add_alu(program: DecodedStream, events: Events) -> None:
    """Add the operations of the ALU."""
    rows = _rows(program, isa.Alu)
    done = program.steps(isa.Alu) * program.config.values(MemoryType.ACC)
    multiplies = program.column(isa.Alu, "alu_opcode") == AluOpcode.MUL
    events.wide_products[rows] += np.where(multiplies, done, 0)
    events.sums[rows] += np.where(multiplies, 0, done)


def _add_requantisation(program: DecodedStream, events: Events) -> None:
    """Add the arithmetic of STOREs and NORMALISEs that requantise; a table is read once for each value of a
    STORE."""
    for form in (isa.Normalise, isa.Store):
        fields, values = program.fields(form), _values(program, form)
        rows, requantised = _rows(program, form), np.where(fields("parameters") != 0, values, 0)
        events.wide_products[rows] += requantised
        events.sums[rows] += SUMS_OF_REQUANTISATION * requantised
    events.reads[MemoryType.TABLE][rows] = np.where(fields("table") != 0, requantised, 0)
    added = np.where(fields("residual") != 0, requantised, 0)
    events.products[rows] += PRODUCTS_OF_RESIDUAL * added
    events.sums[rows] += SUMS_OF_RESIDUAL * added


def _values(program: DecodedStream, form: type[isa.Instruction]) -> IntArray:
    """Return int64[m]: the accumulators that each STORE or NORMALISE reads as values."""
    fields = program.fields(form)
    values: IntArray = fields("y_size") * fields("x_size") * program.config.values(MemoryType.OUT)
    return values


def _add_normalisation(program: DecodedStream, events: Events) -> None:
    """Add the arithmetic of NORMALISEs on values; the table is read once for each power. The arithmetic on
    the statistics of a row, once for each element, is left out."""
    fields, values = program.fields(isa.Normalise), _values(program, isa.Normalise)
    rows, statistic, writes = _rows(program, isa.Normalise), fields("statistic"), fields("normal") != 0
    squares = np.where((statistic == Statistic.MOMENTS) & ~writes, values, 0)
    events.products[rows] += squares
    events.wide_products[rows] += np.where(writes, PRODUCTS_OF_OUTPUT * values, 0)
    events.sums[rows] += np.where(writes, SUMS_OF_OUTPUT, SUMS_OF_STATISTIC) * values
    is_power = (statistic == Statistic.POWERS) | ((statistic == Statistic.GREATEST) & writes)
    events.reads[MemoryType.TABLE][rows] = np.where((fields("table") != 0) & is_power, values, 0)
