"""The native NORMALISE: statistics of rows, and outputs normalised by them.

`normalise` checks an instruction and hands over to a function for its statistic, which gathers or writes.
"""

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import numpy as np
from llvmlite import ir

from vdla.hw.spec import isa, normalisation
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import FOOTPRINTS
from vdla.hw.spec.memories import storable_in
from vdla.hw.spec.normalisation import Interval, NormalOperands
from vdla.hw.spec.numerics import BYTE_BITS
from vdla.hw.spec.vocabulary import MemoryType, NormalParameter, Parameter, Statistic
from vdla.sim.native.emit import DONE, I8, I16, I32, I64, InstructionEmitter, Variable, i64, splat
from vdla.sim.native.store import OUTPUT_LANES, Destination, Part, destination_in, requantiser
from vdla.sim.native.transfer import Shape, shape_of
from vdla.sim.scratchpads import SUMS_OF_ROWS

_BYTES_OF_SUM = 4


class Values(NamedTuple):
    """Some values of an element, one in each lane.

    Attributes:
        values: signed, of 64 bits.
        counts: of each lane, whether its value joins the statistics.
        part: where they stand.
    """

    values: list[ir.Value]
    counts: list[ir.Value]
    part: Part


def emit_normalise(module: ir.Module, config: AcceleratorConfig, pack_inp: ir.Function) -> ir.Function:
    """Emit `normalise(state, row)`; `pack_inp`: what prepares inputs for the array."""
    e = InstructionEmitter(module, "normalise", isa.Normalise, config)
    e.done_if_nothing()
    _refuse_outside(e)
    e.spend(e.builder.mul(e.field("x_size"), e.field("y_size")))
    for statistic in Statistic:
        gather = _emit_gather(_emitter(module, f"gather_{statistic.name}", config), statistic)
        write = _emit_write(_emitter(module, f"write_{statistic.name}", config), statistic, pack_inp)
        with e.when(e.builder.icmp_unsigned("==", e.field("statistic"), i64(statistic))):
            with e.when(e.is_set("normal")):
                e.builder.ret(e.builder.call(write, [e.state, e.row]))
            e.builder.ret(e.builder.call(gather, [e.state, e.row]))
    return e.finish(DONE)


def _emitter(module: ir.Module, name: str, config: AcceleratorConfig) -> InstructionEmitter:
    return InstructionEmitter(module, f"normalise_{name}", isa.Normalise, config)


def _refuse_outside(e: InstructionEmitter) -> None:
    """Refuse an instruction that reaches beyond a memory."""
    b = e.builder
    for access in FOOTPRINTS[isa.Normalise].accesses:
        happens = [e.is_set(name) for name in access.where]
        if access.of is not None:
            happens.append(b.icmp_unsigned("==", e.field("memory_type"), i64(access.of)))
        with e.when(reduce(b.and_, happens, ir.Constant(ir.IntType(1), 1))):
            e.refuse_beyond(access, access.memory)


def _emit_elements(
    e: InstructionEmitter,
    begin_row: Callable[[ir.Value], Callable[[ir.Value, ir.Value, ir.Value], None]],
    end_row: Callable[[ir.Value], None],
) -> None:
    """Emit loops over rows of elements and their elements.

    Args:
        begin_row: emits what comes before row y of elements; returns what emits the work on an element, given
            its column, its number and the number of its row of values.
        end_row: emits what comes behind row y of elements.
    """
    b, size = e.builder, e.field("x_size")

    def row(y: ir.Value) -> None:
        first, element = b.mul(y, size), begin_row(y)

        def column(x: ir.Value) -> None:
            number = b.add(first, x)
            element(x, number, b.and_(number, i64(isa.NORMAL_ROWS - 1)))

        e.loop(size, column)
        end_row(y)

    e.loop(e.field("y_size"), row)


def _reader(e: InstructionEmitter) -> Callable[[ir.Value, Callable[[Values], None]], None]:
    """Return what emits the reading of an element, given its number and what is done with some of its
    values."""
    b, shape = e.builder, shape_of(MemoryType.OUT, e.config)
    lanes, used = min(shape.values, OUTPUT_LANES), e.is_set("parameters")
    parameters = b.select(used, b.sub(e.field("parameters"), i64(1)), i64(0))
    requantised, clip = requantiser(e, parameters), _clip(e, parameters, shape)
    source = e.at(e.memory("acc"), e.scaled(e.field("sram_base"), shape.chip_bytes))
    kind, wide = (ir.VectorType(number, lanes) for number in (I32, I64))

    def read(number: ir.Value, work: Callable[[Values], None]) -> None:
        element = e.at(source, e.scaled(number, shape.chip_bytes))

        def part(index: ir.Value) -> None:
            here = Part(number, e.scaled(index, lanes))
            offset = e.scaled(here.first, shape.chip_bits // 8)
            value = e.load(kind, e.at(element, offset))
            low = b.sext(b.trunc(value, ir.VectorType(I8, lanes)), wide)
            value = b.select(used, requantised(value, here), low)
            left_out = b.and_(e.load(kind, e.at(clip, offset)), splat(1 << normalisation.LEFT_OUT_BIT, kind))
            counts = b.or_(
                b.icmp_unsigned("==", left_out, splat(0, kind)), _filled_bits(e, b.not_(used), lanes)
            )
            work(Values(_lanes(e, value), _lanes(e, counts), here))

        e.repeat(shape.values // lanes, part)

    return read


def _clip(e: InstructionEmitter, parameters: ir.Value, shape: Shape) -> ir.Value:
    """Return the address of the CLIP parameters of a set, whose number counts from 0."""
    element = e.builder.add(e.scaled(parameters, len(Parameter)), i64(Parameter.CLIP))
    return e.at(e.memory("acc"), e.scaled(element, shape.chip_bytes))


def _filled_bits(e: InstructionEmitter, bit: ir.Value, lanes: int) -> ir.Value:
    filled = ir.Constant(ir.VectorType(ir.IntType(1), lanes), ir.Undefined)
    for lane in range(lanes):
        filled = e.builder.insert_element(filled, bit, i64(lane))
    return filled


def _lanes(e: InstructionEmitter, vector: ir.Value) -> list[ir.Value]:
    return [e.builder.extract_element(vector, i64(lane)) for lane in range(vector.type.count)]


def _emit_gather(e: InstructionEmitter, statistic: Statistic) -> ir.Function:
    """Emit a NORMALISE that gathers a statistic."""
    b, read, power = e.builder, _reader(e), _power(e)

    def element(_: ir.Value, number: ir.Value, row: ir.Value) -> None:
        held = _Statistics(e, row)
        match statistic:
            case Statistic.GREATEST:
                greatest = _begun(e, held.greatest(), normalisation.LEAST_VALUE)
                read(number, lambda values: _raise(e, greatest, values))
                held.set_greatest(greatest.get())
            case Statistic.POWERS:
                total, most = _begun(e, held.sum("powers"), 0), held.greatest()
                read(number, lambda values: _add(e, total, values, lambda value: power(value, most)))
                held.set_sum("powers", total.get())
            case Statistic.MOMENTS:
                total, squares = (_begun(e, held.sum(name), 0) for name in ("totals", "squares"))

                def add(values: Values) -> None:
                    _add(e, total, values, lambda value: value)
                    _add(e, squares, values, lambda value: b.mul(value, value))

                read(number, add)
                unused = i64(64 - normalisation.TOTAL_BITS)
                held.set_sum("totals", b.ashr(b.shl(total.get(), unused), unused))
                held.set_sum("squares", squares.get())

    _emit_elements(e, lambda y: element, lambda y: None)
    return e.finish()


def _begun(e: InstructionEmitter, held: ir.Value, empty: int) -> Variable:
    """Return a variable of what a statistic is before an element joins it."""
    return e.variable(e.builder.select(e.is_set("anew"), i64(empty), held))


def _raise(e: InstructionEmitter, greatest: Variable, values: Values) -> None:
    """Raise the greatest value to the values that count."""
    b, most = e.builder, greatest.get()
    for value, counts in zip(values.values, values.counts, strict=True):
        most = b.select(b.and_(counts, b.icmp_signed(">", value, most)), value, most)
    greatest.set(most)


def _add(
    e: InstructionEmitter, total: Variable, values: Values, term: Callable[[ir.Value], ir.Value]
) -> None:
    """Add the terms of the values that count."""
    b, added = e.builder, total.get()
    for value, counts in zip(values.values, values.counts, strict=True):
        added = b.add(added, b.select(counts, term(value), i64(0)))
    total.set(added)


class _Statistics:
    """The statistics of a row."""

    def __init__(self, e: InstructionEmitter, row: ir.Value) -> None:
        self._e, self._row = e, row

    def greatest(self) -> ir.Value:
        """Return the greatest value, of 64 bits."""
        return self._e.builder.sext(self._e.load(I8, self._place("greatest", 1)), I64)

    def set_greatest(self, value: ir.Value) -> None:
        """Hold another greatest value."""
        self._e.store(self._e.builder.trunc(value, I8), self._place("greatest", 1))

    def sum(self, name: str) -> ir.Value:
        """Return a sum, of 64 bits."""
        b, held = self._e.builder, self._e.load(I32, self._place(name, _BYTES_OF_SUM))
        return (
            b.zext(held, I64) if np.issubdtype(SUMS_OF_ROWS[name], np.unsignedinteger) else b.sext(held, I64)
        )

    def set_sum(self, name: str, value: ir.Value) -> None:
        """Hold the low bits of another sum."""
        self._e.store(self._e.builder.trunc(value, I32), self._place(name, _BYTES_OF_SUM))

    def _place(self, name: str, size: int) -> ir.Value:
        return self._e.at(self._e.memory(name), self._e.scaled(self._row, size))


def _power(e: InstructionEmitter) -> Callable[[ir.Value, ir.Value], ir.Value]:
    """Return what emits the power of a value, given the greatest value of its row."""
    b, used = e.builder, e.is_set("table")
    first = e.scaled(
        b.sub(e.field("table"), i64(1)), isa.TABLE_ELEMENTS * e.config.element_bytes(MemoryType.TABLE)
    )
    table = e.at(e.memory("table"), b.select(used, first, i64(0)))

    def power(value: ir.Value, greatest: ir.Value) -> ir.Value:
        distance = b.and_(b.sub(greatest, value), i64((1 << BYTE_BITS) - 1))
        entry = b.zext(e.load(I16, e.at(table, e.scaled(distance, 2))), I64)
        return b.select(used, entry, distance)

    return power


def _emit_write(e: InstructionEmitter, statistic: Statistic, pack_inp: ir.Function) -> ir.Function:
    """Emit a NORMALISE that writes outputs."""
    b, read, power, normal = e.builder, _reader(e), _power(e), _Normal(e)
    places = [(memory, destination_in(e, memory, pack_inp)) for memory in storable_in(e.config)]
    target = reduce(lambda first, other: _chosen(e, first, other), places[1:], places[0][1])

    def begin(y: ir.Value) -> Callable[[ir.Value, ir.Value, ir.Value], None]:
        there = e.at(target.start, b.mul(y, target.stride))

        def element(x: ir.Value, number: ir.Value, row: ir.Value) -> None:
            held = _Statistics(e, row)
            mean, mantissa, shift = _row_scale(e, statistic, held, normal.shared)
            greatest, place = held.greatest(), e.at(there, e.scaled(x, normal.shape.values))

            def write(values: Values) -> None:
                for lane, value in enumerate(values.values):
                    if statistic is Statistic.MOMENTS:
                        operand = b.sub(b.shl(value, i64(normalisation.MEAN_FRACTION_BITS)), mean)
                    else:
                        operand = power(value, greatest)
                    at = b.add(values.part.first, i64(lane))
                    output = normal.output(b.ashr(b.mul(operand, mantissa), shift), at)
                    e.store(b.trunc(output, I8), e.at(place, at))

            read(number, write)

        return element

    _emit_elements(e, begin, lambda y: target.row_ends(e.at(target.start, b.mul(y, target.stride)), y))
    return e.finish()


def _chosen(e: InstructionEmitter, first: Destination, other: tuple[MemoryType, Destination]) -> Destination:
    """Return the other destination where the instruction writes to its memory type, else the first."""
    (memory, there), b = other, e.builder
    is_there = b.icmp_unsigned("==", e.field("memory_type"), i64(memory))

    def row_ends(row: ir.Value, number: ir.Value) -> None:
        with b.if_else(is_there) as (yes, no):
            with yes:
                there.row_ends(row, number)
            with no:
                first.row_ends(row, number)

    start = b.select(is_there, there.start, first.start)
    return Destination(start, b.select(is_there, there.stride, first.stride), first.bits, row_ends)


class _Normal:
    """The parameters of normalisation.

    Attributes:
        shape: of the elements that hold them.
        shared: as words, those of column 0.
    """

    def __init__(self, e: InstructionEmitter) -> None:
        self._e, self.shape = e, shape_of(MemoryType.OUT, e.config)
        number = e.scaled(e.builder.sub(e.field("normal"), i64(1)), len(NormalParameter))
        self._base = e.at(e.memory("acc"), e.scaled(number, self.shape.chip_bytes))
        self.shared = self._operands(i64(0))

    def _operands(self, lane: ir.Value) -> NormalOperands:
        """Return the operands that a column holds."""
        e, offset = self._e, self._e.scaled(lane, self.shape.chip_bits // 8)
        rows = (e.at(self._base, i64(row * self.shape.chip_bytes)) for row in NormalParameter)
        words = [e.builder.sext(e.load(I32, e.at(row, offset)), I64) for row in rows]
        return normalisation.normal_operands([e.word_from(word) for word in words])

    def output(self, scaled: ir.Value, lane: ir.Value) -> ir.Value:
        """Return the output for a scaled value in a column."""
        e, own = self._e, self._operands(lane)
        product = e.builder.mul(_saturated(e, scaled, normalisation.SCALED_BITS), own.factor.value)
        total = e.builder.ashr(e.builder.add(product, own.addend.value), i64(normalisation.OUTPUT_SHIFT))
        return _saturated(e, total, BYTE_BITS)


def _row_scale(
    e: InstructionEmitter, statistic: Statistic, row: _Statistics, normal: NormalOperands
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return mean, mantissa and shift of a row; see `normalisation.row_scale`."""
    b = e.builder
    if statistic is Statistic.GREATEST:
        scale = normalisation.row_scale(statistic, normalisation.RowStatistics(), normal)
        return i64(scale.mean), i64(scale.mantissa), i64(scale.shift)
    if statistic is Statistic.POWERS:
        mantissa, exponent = _reciprocal(e, row.sum("powers"))
        shift = b.add(exponent, i64(normalisation.POWER_SHIFT))
        return i64(0), mantissa, shift
    total, squares, exponent_of_count = row.sum("totals"), row.sum("squares"), normal.exponent.value
    has_mean = (normal.reciprocal > 0).value
    places = b.add(exponent_of_count, i64(normalisation.COUNT_BITS - normalisation.MEAN_FRACTION_BITS))
    half = b.shl(i64(1), b.sub(places, i64(1)))
    whole = b.ashr(b.add(b.mul(total, normal.reciprocal.value), half), places)
    mean = b.sext(b.trunc(whole, ir.IntType(normalisation.MEAN_BITS)), I64)
    subtracted = b.select(has_mean, total, i64(0))
    spread = b.sub(b.mul(normal.count.value, squares), b.mul(subtracted, subtracted))
    spread = _not_negative(e, b.add(spread, normal.epsilon.value))
    mantissa, exponent = _reciprocal_root(e, spread)
    shift = b.add(b.sub(exponent, exponent_of_count), i64(normalisation.STANDARD_SHIFT))
    return mean, mantissa, _not_negative(e, shift)


def _reciprocal(e: InstructionEmitter, number: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return mantissa and exponent as `normalisation.reciprocal` does."""
    b = e.builder
    exponent = b.sub(_bit_length(e, number), i64(normalisation.MANTISSA_BITS))
    place = b.and_(b.shl(_shifted_by(e, number, exponent), i64(1)), i64(_PLACES - 1))
    return _of_positive(e, number, _interpolated(e, "reciprocals", place), exponent)


def _reciprocal_root(e: InstructionEmitter, number: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return mantissa and exponent as `normalisation.reciprocal_root` does."""
    b, half = e.builder, 1 << normalisation.MANTISSA_BITS - 1
    excess = b.sub(_bit_length(e, number), i64(normalisation.MANTISSA_BITS))
    exponent = b.ashr(b.add(excess, i64(1)), i64(1))
    mantissa = _shifted_by(e, number, b.shl(exponent, i64(1)))
    below = b.sub(b.shl(mantissa, i64(1)), i64(half))
    place = b.select(b.icmp_signed(">=", mantissa, i64(half)), mantissa, below)
    return _of_positive(e, number, _interpolated(e, "reciprocal_roots", place), exponent)


def _of_positive(
    e: InstructionEmitter, number: ir.Value, mantissa: ir.Value, exponent: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return 0 and 0 instead of mantissa and exponent where the number is 0."""
    b = e.builder
    is_zero = b.icmp_unsigned("==", number, i64(0))
    return b.select(is_zero, i64(0), mantissa), b.select(is_zero, i64(0), exponent)


def _interpolated(e: InstructionEmitter, name: str, place: ir.Value) -> ir.Value:
    """Return a function of `normalisation` at a place of 16 bits."""
    b, bits = e.builder, normalisation.INTERVAL_BITS
    place = b.and_(place, i64(_PLACES - 1))
    at = e.scaled(b.lshr(place, i64(bits)), len(Interval._fields) * _BYTES_OF_INTERVAL)
    interval = e.at(_intervals(e.function.module, name), at)
    value, fall = (
        b.zext(e.load(I16, e.at(interval, i64(number * _BYTES_OF_INTERVAL))), I64)
        for number in range(len(Interval._fields))
    )
    within = b.and_(place, i64((1 << bits) - 1))
    return b.sub(value, b.lshr(b.mul(fall, within), i64(bits)))


def _intervals(module: ir.Module, name: str) -> ir.Value:
    """Return the table of a function's intervals: values and falls of 16 bits."""
    if name in module.globals:
        return module.globals[name]
    numbers = [number for interval in getattr(normalisation, name)() for number in interval]
    kind = ir.ArrayType(I16, len(numbers))
    table = ir.GlobalVariable(module, kind, name)
    table.initializer, table.global_constant, table.linkage = ir.Constant(kind, numbers), True, "internal"
    return table


_BYTES_OF_INTERVAL = 2  # of its value, and of its fall
_PLACES = 1 << 2 * normalisation.INTERVAL_BITS


def _bit_length(e: InstructionEmitter, number: ir.Value) -> ir.Value:
    return e.builder.sub(i64(64), e.builder.ctlz(number, ir.Constant(ir.IntType(1), 0)))


def _shifted_by(e: InstructionEmitter, number: ir.Value, amount: ir.Value) -> ir.Value:
    """Return a number shifted right, or left if the amount is negative; both less than 64."""
    b = e.builder
    right = b.lshr(number, _not_negative(e, amount))
    return b.shl(right, _not_negative(e, b.neg(amount)))


def _not_negative(e: InstructionEmitter, value: ir.Value) -> ir.Value:
    return e.builder.select(e.builder.icmp_signed(">", value, i64(0)), value, i64(0))


def _saturated(e: InstructionEmitter, value: ir.Value, bits: int) -> ir.Value:
    b, least, greatest = e.builder, i64(-(1 << bits - 1)), i64((1 << bits - 1) - 1)
    value = b.select(b.icmp_signed(">", value, greatest), greatest, value)
    return b.select(b.icmp_signed("<", value, least), least, value)
