"""The native GEMM, and the operand copies it reads.

Inputs are read as unsigned bytes (`inp + 128`) and weights in groups of 4 along k, interleaved over the
outputs, so that one instruction advances 4 products in every output lane; `wgt_bias` takes the 128s out
again.
"""

from llvmlite import ir

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import operands
from vdla.sim.native.dot import Dot, broadcast
from vdla.sim.native.emit import I8, I32, I64, POINTER, Emitter, i64, splat
from vdla.sim.native.steps import StepEmitter
from vdla.sim.scratchpads import K_GROUP, padded_block_in, padded_block_out

ROWS_AT_ONCE = 8


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
        own_source = e.at(source, e.scaled(index, config.block_out * config.block_in))
        own_target = e.at(target, e.scaled(index, groups * group_bytes))
        own_bias = e.at(bias, e.scaled(index, group_bytes))

        def move(g: ir.Value, o: ir.Value) -> None:
            place = e.sum(e.scaled(o, config.block_in), e.scaled(g, unit))
            read = e.load(ir.IntType(8 * unit), e.at(own_source, place))
            e.store(read, e.at(own_target, e.sum(e.scaled(g, group_bytes), e.scaled(o, K_GROUP))))

        def sum_up(part: ir.Value) -> None:
            total = e.variable(splat(0, vector))

            def add(g: ir.Value) -> None:
                weights = e.load(
                    vector, e.at(own_target, e.sum(e.scaled(g, group_bytes), e.scaled(part, 4 * lanes)))
                )
                total.set(dot.emit(e, total.get(), ir.Constant(I32, 0x80808080), weights))

            e.loop(i64(groups), add)
            e.store(e.builder.neg(total.get()), e.at(own_bias, e.scaled(part, 4 * lanes)))

        e.loop(i64(groups), lambda g: e.loop(i64(config.block_out), lambda o: move(g, o)))
        e.loop(i64(padded_block_out(config) // lanes), sum_up)

    e.loop(count, element)
    return e.finish()
