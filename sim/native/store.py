"""The native STORE: outputs of accumulators, requantised, looked up in a table, with residuals added."""

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

from llvmlite import ir

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import FOOTPRINTS
from vdla.hw.spec.numerics import (
    BYTE_BITS,
    MULTIPLIER_BITS,
    SHIFT_BITS,
    TABLE_ENTRIES,
    residual_operands,
    residual_parameters,
)
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter
from vdla.sim.native.emit import I8, I64, Emitter, InstructionEmitter, i64, splat
from vdla.sim.native.transfer import Shape, dram_start, refuse_outside, shape_of

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


def emit_store(module: ir.Module, config: AcceleratorConfig) -> ir.Function:
    """Emit `store(state, row)`."""
    e = InstructionEmitter(module, "store", isa.Store, config)
    b = e.builder
    e.done_if_nothing()
    refuse_outside(e, MemoryType.OUT, e.field("y_size"))
    if not config.has(Extension.REQUANTISE):
        _emit_rows(e, lambda value, part: value)
        return e.finish()
    with b.if_else(b.icmp_unsigned("==", e.field("parameters"), i64(0))) as (plain, scaled):
        with plain:
            _emit_rows(e, lambda value, part: value)
        with scaled:
            _emit_scaled(e)
    return e.finish()


def _emit_scaled(e: InstructionEmitter) -> None:
    """Emit a STORE with parameters."""
    b, config = e.builder, e.config
    for access in FOOTPRINTS[isa.Store].accesses:
        if access.where:
            with e.when(reduce(b.and_, (e.is_set(name) for name in access.where))):
                e.refuse_beyond(access, access.memory)
    requantiser = _requantiser(e)
    further = [extension for extension in _FURTHER if config.has(extension)]
    if not further:
        _emit_rows(e, requantiser)
        return
    with b.if_else(reduce(b.or_, (e.is_set(_FURTHER[extension]) for extension in further))) as (more, alone):
        with more:
            makers = {Extension.TABLE: _table, Extension.RESIDUAL: _residual}
            steps = [requantiser, *(makers[extension](e) for extension in further)]
            _emit_rows(e, lambda value, part: _through(steps, value, part))
        with alone:
            _emit_rows(e, requantiser)


_FURTHER = {Extension.TABLE: "table", Extension.RESIDUAL: "residual"}
"""The fields that send requantised values through further steps, in this order."""


def _through(steps: list[Narrowing], value: ir.Value, part: Part) -> ir.Value:
    for step in steps:
        value = step(value, part)
    return value


def _emit_rows(e: InstructionEmitter, narrowed: Narrowing) -> None:
    """Copy the elements of a STORE to DRAM, cut to their low bits after `narrowed`."""
    b, shape = e.builder, shape_of(MemoryType.OUT, e.config)
    size, trips = e.field("x_size"), e.field("y_size")
    target, stride = dram_start(e, shape)
    source = e.at(e.memory("acc"), e.scaled(e.field("sram_base"), shape.chip_bytes))

    def row(y: ir.Value) -> None:
        first, there = b.mul(y, size), e.at(target, b.mul(y, stride))

        def element(x: ir.Value) -> None:
            number = b.add(first, x)
            own = e.at(source, e.scaled(number, shape.chip_bytes))
            _emit_element(e, shape, own, e.at(there, e.scaled(x, shape.dram_bytes)), number, narrowed)

        e.loop(size, element)

    e.spend(b.mul(size, trips))
    e.loop(trips, row)


def _emit_element(
    e: Emitter, shape: Shape, source: ir.Value, target: ir.Value, number: ir.Value, narrowed: Narrowing
) -> None:
    """Copy an element to DRAM, some values at a time."""
    b = e.builder
    lanes = min(shape.values, OUTPUT_LANES)
    wide, narrow = (
        ir.VectorType(ir.IntType(shape.chip_bits), lanes),
        ir.VectorType(ir.IntType(shape.dram_bits), lanes),
    )

    def part(index: ir.Value) -> None:
        first = e.scaled(index, lanes)
        value = narrowed(
            e.load(wide, e.at(source, e.scaled(first, shape.chip_bits // 8))), Part(number, first)
        )
        packed = b.bitcast(b.trunc(value, narrow), ir.IntType(lanes * shape.dram_bits))  # low bits first
        e.store(packed, e.at(target, e.scaled(index, lanes * shape.dram_bits // 8)))

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


def _requantiser(e: InstructionEmitter) -> Narrowing:
    """Return the requantisation by a STORE's parameters, each value by its own."""
    b, shape = e.builder, shape_of(MemoryType.OUT, e.config)
    number = b.sub(e.field("parameters"), i64(1))
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
    """Return the look-up in a STORE's table, where it names one."""
    b, config = e.builder, e.config
    used = e.is_set("table")
    first = e.scaled(
        b.sub(e.field("table"), i64(1)), isa.TABLE_ELEMENTS * config.element_bytes(MemoryType.TABLE)
    )
    table = e.at(e.memory("table"), b.select(used, first, i64(0)))

    def narrowed(value: ir.Value, part: Part) -> ir.Value:
        found = value
        for lane in range(value.type.count):
            own = b.extract_element(value, i64(lane))
            entry = e.load(I8, e.at(table, b.and_(own, i64(TABLE_ENTRIES - 1))))
            found = b.insert_element(found, b.select(used, b.sext(entry, I64), own), i64(lane))
        return found

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
        addend, factor, other, shift, zero, least, greatest = (_filled(e, word, wide) for word in operands)
        at = b.add(b.mul(b.add(first, part.element), step), part.first)
        own = e.load(ir.VectorType(I8, wide.count), e.at(e.memory("res"), at))
        products = b.add(b.mul(value, factor), b.mul(b.sext(own, wide), other))
        scaled = b.add(_shifted(e, b.add(products, addend), shift), zero)
        return _clipped(e, scaled, least, greatest)

    return narrowed


def _filled(e: Emitter, value: ir.Value, vector: ir.VectorType) -> ir.Value:
    """Return a vector of one value."""
    filled = ir.Constant(vector, ir.Undefined)
    for lane in range(vector.count):
        filled = e.builder.insert_element(filled, value, i64(lane))
    return filled
