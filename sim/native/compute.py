"""The native GEMM, ALU and DEPTHWISE, and the operand copies that the GEMM reads.

The GEMM reads inputs as unsigned bytes (`inp + 128`), and weights in groups of 4 along k, interleaved over
the outputs. An instruction of the host then adds 4 products in every output lane. `wgt_bias` subtracts the
contribution of the 128s. Steps of the ALU run in order, each on a whole element, so overlapping operands mean
what the ISA says. DEPTHWISE computes rows of sums, of which each column of the array adds the products of a
window.
"""

from collections.abc import Sequence
from dataclasses import fields
from itertools import product
from typing import NamedTuple

from llvmlite import ir

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import operands
from vdla.hw.spec.vocabulary import AluOpcode
from vdla.hw.spec.window import Window, row_distance, window_columns
from vdla.sim.native.dot import Dot, broadcast
from vdla.sim.native.emit import DONE, I8, I32, I64, POINTER, Emitter, InstructionEmitter, i64, splat
from vdla.sim.native.steps import StepEmitter
from vdla.sim.scratchpads import K_GROUP, padded_block_in, padded_block_out

ROWS_AT_ONCE = 8  # of a GEMM
VECTOR_BITS = 512  # of the ALU
LANES = 16  # of DEPTHWISE
UOP_FIELDS = len(fields(isa.MicroOp))


def emit_gemm(module: ir.Module, config: AcceleratorConfig, dot: Dot) -> ir.Function:
    """Emit `gemm(state, row)`."""
    e = StepEmitter(module, "gemm", isa.Gemm, config)
    e.begin()
    reset = e.builder.icmp_unsigned("!=", e.field("reset"), i64(0))
    with e.builder.if_else(reset) as (then, otherwise):
        with then:
            _emit_reset(e)
        with otherwise:
            _emit_products(e, dot, e.kept_bits("overwrite"))
    return e.finish()


def _emit_reset(e: StepEmitter) -> None:
    bits = e.config.acc_bits
    values = e.config.batch * e.config.block_out
    lanes = min(values, 512 // bits)
    vector = ir.VectorType(ir.IntType(bits), lanes)
    acc = e.memory("acc")

    def step(d: ir.Value) -> None:
        target = e.at(acc, e.scaled(d, values * bits // 8))

        def clear(part: ir.Value) -> None:
            e.store(splat(0, vector), e.at(target, e.scaled(part, lanes * bits // 8)))

        e.repeat(values // lanes, clear)

    e.checked_steps(operands(isa.Gemm, "reset"), step)


def _emit_products(e: StepEmitter, dot: Dot, kept: ir.Value) -> None:
    c = e.config
    lanes = min(padded_block_out(c), dot.lanes)
    rows = min(c.batch, ROWS_AT_ONCE)
    inp, wgt, bias, acc = (e.memory(name) for name in ("inp_operand", "wgt_operand", "wgt_bias", "acc"))
    inp_bytes, group_bytes = c.batch * padded_block_in(c), K_GROUP * padded_block_out(c)
    wgt_bytes = group_bytes * padded_block_in(c) // K_GROUP

    def step(d: ir.Value, s: ir.Value, w: ir.Value) -> None:
        acc_element = e.at(acc, e.scaled(d, c.batch * c.block_out * c.acc_bits // 8))
        inp_element, wgt_element = e.at(inp, e.scaled(s, inp_bytes)), e.at(wgt, e.scaled(w, wgt_bytes))
        bias_element = e.at(bias, e.scaled(w, group_bytes))

        def columns(part: ir.Value) -> None:
            start = e.scaled(part, 4 * lanes)

            def block(first_row: ir.Value) -> None:
                first = e.scaled(first_row, rows)
                sums = _emit_block(
                    e,
                    dot,
                    lanes,
                    rows,
                    e.at(bias_element, start),
                    e.at(inp_element, e.scaled(first, padded_block_in(c))),
                    e.at(wgt_element, start),
                )
                for row, total in enumerate(sums):
                    place = e.sum(e.scaled(e.sum(first, i64(row)), c.block_out), e.scaled(part, lanes))
                    _add_to(e, total, e.at(acc_element, e.scaled(place, c.acc_bits // 8)), kept)

            e.repeat(c.batch // rows, block, unroll=1)

        e.repeat(padded_block_out(c) // lanes, columns, unroll=4)

    e.checked_steps(operands(isa.Gemm), step)


def _emit_block(
    e: StepEmitter, dot: Dot, lanes: int, rows: int, bias: ir.Value, inp: ir.Value, wgt: ir.Value
) -> list[ir.Value]:
    """Return `rows` vectors of sums over k; `inp` is the first row, `wgt` the first lane."""
    c = e.config
    vector = ir.VectorType(I32, lanes)
    start = e.load(vector, bias)
    sums = [e.variable(start) for _ in range(rows)]

    def group(g: ir.Value) -> None:
        weights = e.load(vector, e.at(wgt, e.scaled(g, K_GROUP * padded_block_out(c))))
        for row, total in enumerate(sums):
            offset = e.sum(e.scaled(g, K_GROUP), i64(row * padded_block_in(c)))
            total.set(dot.emit(e, total.get(), e.load(I32, e.at(inp, offset)), weights))

    e.repeat(padded_block_in(c) // K_GROUP, group, unroll=8)
    return [total.get() for total in sums]


def _add_to(e: StepEmitter, total: ir.Value, address: ir.Value, kept: ir.Value) -> None:
    """Add <lanes x i32> to the `kept` bits of the accumulators at `address`, wrapping; lanes beyond block_out
    are dropped."""
    b = e.builder
    lanes = min(total.type.count, e.config.block_out)
    if lanes < total.type.count:
        places = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
        total = b.shuffle_vector(total, ir.Constant(total.type, ir.Undefined), places)
    vector = ir.VectorType(ir.IntType(e.config.acc_bits), lanes)
    if e.config.acc_bits < 32:
        total = b.trunc(total, vector)
    before = b.and_(e.load(vector, address), broadcast(e, kept, lanes))
    e.store(b.add(before, total), address)


def emit_pack_inp(module: ir.Module, config: AcceleratorConfig) -> ir.Function:
    """Emit `pack_inp(inp element, inp_operand element, elements)`."""
    e = Emitter(module, "pack_inp", [POINTER, POINTER, I64])
    source, target, count = e.arguments
    width, padded = config.block_in, padded_block_in(config)

    def row(index: ir.Value) -> None:
        def value(k: ir.Value) -> None:
            read = e.load(I8, e.at(source, e.sum(e.scaled(index, width), k)))
            e.store(
                e.builder.xor(read, ir.Constant(I8, 128)), e.at(target, e.sum(e.scaled(index, padded), k))
            )

        e.loop(i64(width), value)

    e.loop(e.scaled(count, config.batch), row)
    return e.finish()


def emit_pack_wgt(module: ir.Module, config: AcceleratorConfig, dot: Dot) -> ir.Function:
    """Emit `pack_wgt(wgt element, wgt_operand element, wgt_bias element, elements)`."""
    e = Emitter(module, "pack_wgt", [POINTER, POINTER, POINTER, I64])
    source, target, bias, count = e.arguments
    groups, group_bytes = padded_block_in(config) // K_GROUP, K_GROUP * padded_block_out(config)
    unit = min(config.block_in, K_GROUP)  # bytes that move together
    lanes = min(padded_block_out(config), dot.lanes)
    vector = ir.VectorType(I32, lanes)

    def element(index: ir.Value) -> None:
        element_source = e.at(source, e.scaled(index, config.block_out * config.block_in))
        element_target = e.at(target, e.scaled(index, groups * group_bytes))
        element_bias = e.at(bias, e.scaled(index, group_bytes))

        def move(g: ir.Value, o: ir.Value) -> None:
            place = e.sum(e.scaled(o, config.block_in), e.scaled(g, unit))
            read = e.load(ir.IntType(8 * unit), e.at(element_source, place))
            e.store(read, e.at(element_target, e.sum(e.scaled(g, group_bytes), e.scaled(o, K_GROUP))))

        def sum_up(part: ir.Value) -> None:
            total = e.variable(splat(0, vector))

            def add(g: ir.Value) -> None:
                weights = e.load(
                    vector, e.at(element_target, e.sum(e.scaled(g, group_bytes), e.scaled(part, 4 * lanes)))
                )
                total.set(dot.emit(e, total.get(), ir.Constant(I32, 0x80808080), weights))

            e.loop(i64(groups), add)
            e.store(e.builder.neg(total.get()), e.at(element_bias, e.scaled(part, 4 * lanes)))

        e.loop(i64(groups), lambda g: e.loop(i64(config.block_out), lambda o: move(g, o)))
        e.loop(i64(padded_block_out(config) // lanes), sum_up)

    e.loop(count, element)
    return e.finish()


def emit_alu(module: ir.Module, config: AcceleratorConfig) -> ir.Function:
    """Emit `alu(state, row)`: it hands over to one function per operation and kind of operand."""
    e = InstructionEmitter(module, "alu", isa.Alu, config)
    variant = e.sum(e.scaled(e.field("alu_opcode"), 2), e.field("use_imm"))
    default = e.builder.append_basic_block("none")
    switch = e.builder.switch(variant, default)
    for operation in config.alu_opcodes:
        for use_imm in (False, True):
            block = e.builder.append_basic_block()
            e.builder.position_at_end(block)
            e.builder.ret(e.builder.call(_emit_variant(module, config, operation, use_imm), [e.state, e.row]))
            switch.add_case(i64(2 * operation + use_imm), block)
    e.builder.position_at_end(default)
    return e.finish(DONE)


def _emit_variant(
    module: ir.Module, config: AcceleratorConfig, operation: AluOpcode, use_imm: bool
) -> ir.Function:
    e = StepEmitter(module, f"alu_{operation.name}_{'imm' if use_imm else 'acc'}", isa.Alu, config)
    e.begin()
    values = config.batch * config.block_out
    lanes = min(values, VECTOR_BITS // config.acc_bits)
    kind = ir.IntType(config.acc_bits)
    vector = ir.VectorType(kind, lanes)
    element_bytes, part_bytes = values * config.acc_bits // 8, lanes * config.acc_bits // 8
    acc = e.memory("acc")
    immediate = broadcast(e, e.builder.trunc(e.field("imm"), kind), lanes) if use_imm else None

    def step(d: ir.Value, s: ir.Value | None = None) -> None:
        def part(index: ir.Value) -> None:
            def place_in(element: ir.Value) -> ir.Value:
                return e.at(acc, e.sum(e.scaled(element, element_bytes), e.scaled(index, part_bytes)))

            place = place_in(d)
            right = immediate or e.load(vector, place_in(s))
            e.store(_emit_operation(e.builder, operation, e.load(vector, place), right), place)

        e.repeat(values // lanes, part)

    e.checked_steps(operands(isa.Alu, *["use_imm"] * use_imm), step)
    return e.finish()


def _emit_operation(b: ir.IRBuilder, operation: AluOpcode, left: ir.Value, right: ir.Value) -> ir.Value:
    match operation:
        case AluOpcode.MIN:
            return b.select(b.icmp_signed("<", left, right), left, right)
        case AluOpcode.MAX:
            return b.select(b.icmp_signed(">", left, right), left, right)
        case AluOpcode.ADD:
            return b.add(left, right)
        case AluOpcode.MUL:
            return b.mul(left, right)
        case AluOpcode.SHR:
            return _emit_shift(b, left, right)


def _emit_shift(b: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    """Shift right, or left where `right` is negative; amounts are held below the width, where IR defines
    them."""
    bits = left.type.element.width
    zero, last = splat(0, left.type), splat(bits - 1, left.type)
    down = b.ashr(left, b.select(b.icmp_unsigned("<", right, last), right, last))
    amount = b.neg(right)
    fits = b.icmp_unsigned("<=", amount, last)
    up = b.select(fits, b.shl(left, b.select(fits, amount, zero)), zero)
    return b.select(b.icmp_signed("<", right, zero), up, down)


def emit_depthwise(module: ir.Module, config: AcceleratorConfig) -> ir.Function:
    """Emit `depthwise(state, row)`."""
    e = StepEmitter(module, "depthwise", isa.Depthwise, config)
    e.begin()
    e.check(operands(isa.Depthwise))
    kept, taps = e.kept_bits("overwrite"), _taps(e, config.window)
    sums, stride = e.field("iter_in"), e.sum(e.field("stride_2"), i64(1))
    dst_step, src_step = e.field("dst_factor_in"), e.field("src_factor_in")

    def row(d: ir.Value, s: ir.Value, w: ir.Value) -> None:
        def columns(part: ir.Value) -> None:
            first = e.scaled(part, _lanes(config))
            weights = _weights(e, config, w, first, taps)

            def window(j: ir.Value) -> None:
                begin = e.sum(s, e.builder.mul(e.builder.mul(j, stride), src_step))
                inputs = [e.sum(begin, tap.distance) for tap in taps]
                target = e.sum(d, e.builder.mul(j, dst_step))
                for b in range(config.batch):
                    _add_sums(e, config, (target, inputs), (b, first), weights, kept)

            e.loop(sums, window)

        e.repeat(config.block_out // _lanes(config), columns, unroll=1)

    e.rows(operands(isa.Depthwise)[:UOP_FIELDS], row)
    return e.finish()


class Tap(NamedTuple):
    """An element of a window: its distance from the first, and whether the instruction's window has it."""

    distance: ir.Value
    used: ir.Value


def _taps(e: StepEmitter, window: Window) -> list[Tap]:
    """Return the elements that the array has inputs for, row by row. The distance of an element that the
    window does not have is 0."""
    b, columns = e.builder, window_columns(e.word_of("wide"))
    distance, src_step = row_distance(e.word_of("row_step")), e.word_of("src_factor_in")
    elements = []
    for row, place in product(range(window.rows), range(window.columns)):
        column = columns - (window.columns - place)
        used = b.and_((e.word_of("more_rows") > row - 1).value, (column > -1).value)
        apart = distance * row + src_step * column
        elements.append(Tap(b.select(used, apart.value, i64(0)), used))
    return elements


def _lanes(config: AcceleratorConfig) -> int:
    """Return the columns that are computed at once."""
    return min(config.block_out, LANES)


def _weights(
    e: StepEmitter, config: AcceleratorConfig, element: ir.Value, first: ir.Value, taps: Sequence[Tap]
) -> list[ir.Value]:
    """Return <lanes x i32> for each input of the window: the weights of the columns from `first` on; 0 where
    the instruction's window has no such element."""
    lanes, size = _lanes(config), config.block_out * config.block_in
    base = e.at(e.memory("wgt"), e.sum(e.scaled(element, size), e.scaled(first, config.block_in)))
    window, vectors = config.window, []
    for place in range(window.inputs):
        used = taps[_tap(window, place)].used
        vector: ir.Value = ir.Constant(ir.VectorType(I32, lanes), ir.Undefined)
        for lane in range(lanes):
            value = e.builder.sext(e.load(I8, e.at(base, i64(lane * config.block_in + place))), I32)
            vector = e.builder.insert_element(vector, value, ir.Constant(I32, lane))
        vectors.append(e.builder.select(used, vector, ir.Constant(vector.type, [0] * lanes)))
    return vectors


def _tap(window: Window, place: int) -> int:
    """Return the number of the window's element which input `place` of a column of the array is from."""
    row, within = divmod(place, window.channels * window.columns)
    return row * window.columns + within % window.columns


def _add_sums(
    e: StepEmitter,
    config: AcceleratorConfig,
    elements: tuple[ir.Value, list[ir.Value]],
    place: tuple[int, ir.Value],
    weights: list[ir.Value],
    kept: ir.Value,
) -> None:
    """Add the products of a window with weights to the `kept` bits of accumulators of one batch row."""
    b, lanes, (target, inputs), (row, first) = e.builder, _lanes(config), elements, place
    wide, narrow = ir.VectorType(I32, lanes), ir.VectorType(I8, lanes)
    vector = ir.VectorType(ir.IntType(config.acc_bits), lanes)
    columns = [
        b.sext(e.load(narrow, _place(e, config, "inp", config.block_in, (element, row, first))), wide)
        for element in inputs
    ]
    total: ir.Value = ir.Constant(wide, [0] * lanes)
    window = config.window
    for number, factors in enumerate(weights):
        channel = number // window.columns % window.channels
        sources = [lane - lane % window.channels + channel for lane in range(lanes)]
        column = columns[_tap(window, number)]
        taken = b.shuffle_vector(column, ir.Constant(wide, ir.Undefined), ir.Constant(wide, sources))
        total = b.add(total, b.mul(taken, factors))
    address = _place(e, config, "acc", config.block_out * config.acc_bits // 8, (target, row, first))
    before = b.and_(e.load(vector, address), broadcast(e, kept, lanes))
    e.store(b.add(before, total if config.acc_bits == I32.width else b.trunc(total, vector)), address)


def _place(
    e: StepEmitter,
    config: AcceleratorConfig,
    memory: str,
    row_bytes: int,
    place: tuple[ir.Value, int, ir.Value],
) -> ir.Value:
    """Return the address of a column of a row of an element; rows of both memories hold a block of values."""
    element, row, column = place
    offset = e.sum(e.scaled(element, config.batch * row_bytes), i64(row * row_bytes))
    return e.at(e.memory(memory), e.sum(offset, e.scaled(column, row_bytes // config.block_out)))
