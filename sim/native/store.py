"""The native STORE: outputs of accumulators, requantised, looked up in a table, with residuals added."""

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

from llvmlite import ir

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import FOOTPRINTS
from vdla.hw.spec.memories import storable_in
from vdla.hw.spec.numerics import (
    BYTE_BITS,
    MULTIPLIER_BITS,
    SHIFT_BITS,
    TABLE_ENTRIES,
    residual_operands,
    residual_parameters,
)
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter
from vdla.sim.native.emit import DONE, I8, I64, Emitter, InstructionEmitter, i64, splat
from vdla.sim.native.transfer import Shape, dram_start, shape_of
from vdla.sim.scratchpads import padded_block_in

OUTPUT_LANES = 16  # values that are stored at a time


class Part(NamedTuple):
    """Some values of an element of a STORE.

    Attributes:
        element: its number in the STORE.
        first: number of the first value in the element.
    """

    element: ir.Value
    first: ir.Value


Narrowing = Callable[[ir.Value, Part], ir.Value]  # what becomes of values before they are cut


class Destination(NamedTuple):
    """Where a STORE writes.

    Attributes:
        start: address of the first row.
        stride: bytes from one row to the next.
        bits: of a value there.
        row_ends: emits what is done behind a row, given its address and its number.
    """

    start: ir.Value
    stride: ir.Value
    bits: int
    row_ends: Callable[[ir.Value, ir.Value], None]


def emit_store(module: ir.Module, config: AcceleratorConfig, pack_inp: ir.Function) -> ir.Function:
    """Emit `store(state, row)`; where the configuration has several, it hands over to one function per
    memory type.

    Args:
        pack_inp: what prepares inputs for the array.
    """
    memories = storable_in(config)
    if len(memories) == 1:
        return _emit_store_into(InstructionEmitter(module, "store", isa.Store, config), *memories, pack_inp)
    e = InstructionEmitter(module, "store", isa.Store, config)
    for memory in memories:
        emitter = InstructionEmitter(module, f"store_{memory.name}", isa.Store, config)
        function = _emit_store_into(emitter, memory, pack_inp)
        with e.when(e.builder.icmp_unsigned("==", e.field("memory_type"), i64(memory))):
            e.builder.ret(e.builder.call(function, [e.state, e.row]))
    return e.finish(DONE)


def _emit_store_into(e: InstructionEmitter, memory: MemoryType, pack_inp: ir.Function) -> ir.Function:
    """Emit a STORE of one memory type."""
    b = e.builder
    e.done_if_nothing()
    for access in FOOTPRINTS[isa.Store].accesses:
        if not access.where and access.of in (None, memory):
            e.refuse_beyond(access, access.memory)
    target = destination_in(e, memory, pack_inp)
    if not e.config.has(Extension.REQUANTISE):
        _emit_rows(e, target, lambda value, part: value)
        return e.finish()
    with b.if_else(b.icmp_unsigned("==", e.field("parameters"), i64(0))) as (plain, scaled):
        with plain:
            _emit_rows(e, target, lambda value, part: value)
        with scaled:
            _emit_scaled(e, target)
    return e.finish()


def destination_in(e: InstructionEmitter, memory: MemoryType, pack_inp: ir.Function) -> Destination:
    """Return where a STORE or NORMALISE of a memory type writes; `pack_inp`: what prepares inputs for the
    array."""
    return _inputs(e, pack_inp) if memory is MemoryType.INP else _dram(e)


def _dram(e: InstructionEmitter) -> Destination:
    """Return the outputs' place in DRAM."""
    shape = shape_of(MemoryType.OUT, e.config)
    return Destination(*dram_start(e, shape), shape.dram_bits, lambda row, number: None)


def _inputs(e: InstructionEmitter, pack_inp: ir.Function) -> Destination:
    """Return the outputs' place in INP; behind each row its elements are prepared for the array."""
    b, shape = e.builder, shape_of(MemoryType.INP, e.config)
    base, stride = e.field("dram_base"), e.field("x_stride")
    operand = e.config.batch * padded_block_in(e.config)

    def prepare(row: ir.Value, number: ir.Value) -> None:
        first = b.add(base, b.mul(number, stride))
        prepared = e.at(e.memory("inp_operand"), e.scaled(first, operand))
        b.call(pack_inp, [row, prepared, e.field("x_size")])

    start = e.at(e.memory(shape.array), e.scaled(base, shape.chip_bytes))
    return Destination(start, e.scaled(stride, shape.chip_bytes), shape.chip_bits, prepare)


def _emit_scaled(e: InstructionEmitter, target: Destination) -> None:
    """Emit a STORE with parameters."""
    b, config = e.builder, e.config
    for access in FOOTPRINTS[isa.Store].accesses:
        if access.where:
            with e.when(reduce(b.and_, (e.is_set(name) for name in access.where))):
                e.refuse_beyond(access, access.memory)
    requantised = requantiser(e, b.sub(e.field("parameters"), i64(1)))
    further = [extension for extension in _FURTHER if config.has(extension)]
    if not further:
        _emit_rows(e, target, requantised)
        return
    with b.if_else(reduce(b.or_, (e.is_set(_FURTHER[extension]) for extension in further))) as (more, alone):
        with more:
            makers = {Extension.TABLE: _table, Extension.RESIDUAL: _residual}
            steps = [requantised, *(makers[extension](e) for extension in further)]
            _emit_rows(e, target, lambda value, part: _through(steps, value, part))
        with alone:
            _emit_rows(e, target, requantised)


_FURTHER = {Extension.TABLE: "table", Extension.RESIDUAL: "residual"}
"""The fields that send requantised values through further steps, in this order."""


def _through(steps: list[Narrowing], value: ir.Value, part: Part) -> ir.Value:
    for step in steps:
        value = step(value, part)
    return value


def _emit_rows(e: InstructionEmitter, target: Destination, narrowed: Narrowing) -> None:
    """Copy the elements of a STORE, cut to their low bits after `narrowed`."""
    b, shape = e.builder, shape_of(MemoryType.OUT, e.config)
    size, trips = e.field("x_size"), e.field("y_size")
    source = e.at(e.memory("acc"), e.scaled(e.field("sram_base"), shape.chip_bytes))

    def row(y: ir.Value) -> None:
        first, there = b.mul(y, size), e.at(target.start, b.mul(y, target.stride))

        def element(x: ir.Value) -> None:
            number = b.add(first, x)
            sums = e.at(source, e.scaled(number, shape.chip_bytes))
            place = e.at(there, e.scaled(x, shape.values * target.bits // 8))
            _emit_element(e, shape, sums, (place, target.bits), number, narrowed)

        e.loop(size, element)
        target.row_ends(there, y)

    e.spend(b.mul(size, trips))
    e.loop(trips, row)


def _emit_element(
    e: Emitter,
    shape: Shape,
    source: ir.Value,
    target: tuple[ir.Value, int],
    number: ir.Value,
    narrowed: Narrowing,
) -> None:
    """Copy an element, some values at a time; `target`: its address, and the bits of a value there."""
    b, (place, bits) = e.builder, target
    lanes = min(shape.values, OUTPUT_LANES)
    wide, narrow, stored = (
        ir.VectorType(ir.IntType(width), lanes) for width in (shape.chip_bits, shape.dram_bits, bits)
    )

    def part(index: ir.Value) -> None:
        first = e.scaled(index, lanes)
        value = narrowed(
            e.load(wide, e.at(source, e.scaled(first, shape.chip_bits // 8))), Part(number, first)
        )
        cut = b.trunc(value, narrow)
        cut = b.sext(cut, stored) if bits > shape.dram_bits else cut
        packed = b.bitcast(cut, ir.IntType(lanes * bits))  # low bits first
        e.store(packed, e.at(place, e.scaled(index, lanes * bits // 8)))

    e.repeat(shape.values // lanes, part)


def _clipped(e: Emitter, value: ir.Value, least: ir.Value, greatest: ir.Value) -> ir.Value:
    b = e.builder
    value = b.select(b.icmp_signed(">", value, greatest), greatest, value)
    return b.select(b.icmp_signed("<", value, least), least, value)


def _shifted(e: Emitter, value: ir.Value, shift: ir.Value) -> ir.Value:
    """Divide by 2^shift; halves round up."""
    b = e.builder
    half = b.lshr(b.shl(splat(1, value.type), shift), splat(1, value.type))
    return b.ashr(b.add(value, half), shift)


def requantiser(e: InstructionEmitter, number: ir.Value) -> Narrowing:
    """Return the requantisation by the set of parameters with this number, counted from 0, each value by the
    parameters of its channel."""
    b, shape = e.builder, shape_of(MemoryType.OUT, e.config)
    base = e.at(e.memory("acc"), e.scaled(number, len(Parameter) * shape.chip_bytes))

    def narrowed(value: ir.Value, part: Part) -> ir.Value:
        kind = value.type
        wide = ir.VectorType(I64, kind.count)

        def byte(word: ir.Value, index: int) -> ir.Value:
            return b.sext(
                b.trunc(b.lshr(word, splat(index * BYTE_BITS, kind)), ir.VectorType(I8, kind.count)), wide
            )

        place = e.scaled(part.first, shape.chip_bits // 8)
        bias, multiplier, shift_and_zero, clip = (
            e.load(kind, e.at(e.at(base, i64(row * shape.chip_bytes)), place)) for row in Parameter
        )
        product = b.mul(
            b.sext(b.add(value, bias), wide),
            b.and_(b.sext(multiplier, wide), splat((1 << MULTIPLIER_BITS) - 1, wide)),
        )
        shift = b.and_(b.sext(shift_and_zero, wide), splat((1 << SHIFT_BITS) - 1, wide))
        scaled = b.add(_shifted(e, product, shift), byte(shift_and_zero, 1))
        return _clipped(e, scaled, byte(clip, 0), byte(clip, 1))

    return narrowed


def _table(e: InstructionEmitter) -> Narrowing:
    """Return the look-up in a STORE's table, where it names a table."""
    b, config = e.builder, e.config
    used = e.is_set("table")
    first = e.scaled(
        b.sub(e.field("table"), i64(1)), isa.TABLE_ELEMENTS * config.element_bytes(MemoryType.TABLE)
    )
    table = e.at(e.memory("table"), b.select(used, first, i64(0)))

    def narrowed(value: ir.Value, part: Part) -> ir.Value:
        outputs = value
        for lane in range(value.type.count):
            index = b.extract_element(value, i64(lane))
            entry = e.load(I8, e.at(table, b.and_(index, i64(TABLE_ENTRIES - 1))))
            outputs = b.insert_element(outputs, b.select(used, b.sext(entry, I64), index), i64(lane))
        return outputs

    return narrowed


def _residual(e: InstructionEmitter) -> Narrowing:
    """Return the sum with a STORE's residuals, where it names some: by neutral parameters where not."""
    b, shape = e.builder, shape_of(MemoryType.OUT, e.config)
    used, kind = e.is_set("residual"), ir.IntType(shape.chip_bits)
    neutral = residual_parameters(0, (1, 0), 0, 0, -(1 << BYTE_BITS - 1), (1 << BYTE_BITS - 1) - 1)
    base = e.memory("acc")
    words = [
        b.select(used, b.sext(e.load(kind, e.at(base, i64(row * shape.chip_bytes))), I64), i64(neutral[row]))
        for row in Parameter
    ]
    operands = [word.value for word in residual_operands([e.word_from(word) for word in words])]
    first = b.select(used, b.sub(e.field("residual"), i64(1)), i64(0))
    step = b.select(used, i64(shape.values), i64(0))

    def narrowed(value: ir.Value, part: Part) -> ir.Value:
        wide = value.type
        addend, factor, res_factor, shift, zero, least, greatest = (
            _filled(e, word, wide) for word in operands
        )
        at = b.add(b.mul(b.add(first, part.element), step), part.first)
        residuals = e.load(ir.VectorType(I8, wide.count), e.at(e.memory("res"), at))
        products = b.add(b.mul(value, factor), b.mul(b.sext(residuals, wide), res_factor))
        scaled = b.add(_shifted(e, b.add(products, addend), shift), zero)
        return _clipped(e, scaled, least, greatest)

    return narrowed


def _filled(e: Emitter, value: ir.Value, vector: ir.VectorType) -> ir.Value:
    """Return a vector of one value."""
    filled = ir.Constant(vector, ir.Undefined)
    for lane in range(vector.count):
        filled = e.builder.insert_element(filled, value, i64(lane))
    return filled
