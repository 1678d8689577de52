"""The native DEPTHWISE: rows of sums, of which each column of the array adds six products."""

from itertools import product

from llvmlite import ir

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import operands
from vdla.hw.spec.isa import PAIR, TAPS
from vdla.sim.native.dot import broadcast
from vdla.sim.native.emit import I8, I32, i64
from vdla.sim.native.steps import StepEmitter

LANES = 16


def emit_depthwise(module: ir.Module, config: AcceleratorConfig) -> ir.Function:
    """Emit `depthwise(state, row)`."""
    e = StepEmitter(module, "depthwise", isa.Depthwise, config)
    e.begin()
    found = operands(isa.Depthwise)
    e.check(found)
    kept = e.kept_bits("overwrite")
    sums, stride = e.field("iter_in"), e.sum(e.field("stride_2"), i64(1))
    dst_step, src_step = e.field("dst_factor_in"), e.field("src_factor_in")

    def row(d: ir.Value, s: ir.Value, w: ir.Value) -> None:
        def columns(part: ir.Value) -> None:
            first = e.scaled(part, _lanes(config))
            weights = _weights(e, config, w, first)

            def window(j: ir.Value) -> None:
                begin = e.sum(s, e.builder.mul(e.builder.mul(j, stride), src_step))
                inputs = [e.sum(begin, e.scaled(src_step, tap)) for tap in range(TAPS)]
                target = e.sum(d, e.builder.mul(j, dst_step))
                for b in range(config.batch):
                    _add_sums(e, config, (target, inputs), (b, first), weights, kept)

            e.loop(sums, window)

        e.repeat(config.block_out // _lanes(config), columns, unroll=1)

    e.rows(found, row)
    return e.finish()


def _lanes(config: AcceleratorConfig) -> int:
    """Return the columns that are computed at once."""
    return min(config.block_out, LANES)


def _weights(e: StepEmitter, config: AcceleratorConfig, element: ir.Value, first: ir.Value) -> list[ir.Value]:
    """Return <lanes x i32> for each neighbour and tap: the weights of the columns from `first` on."""
    lanes, size = _lanes(config), config.block_out * config.block_in
    base = e.at(e.memory("wgt"), e.sum(e.scaled(element, size), e.scaled(first, config.block_in)))
    found = []
    for place in range(PAIR * TAPS):
        vector: ir.Value = ir.Constant(ir.VectorType(I32, lanes), ir.Undefined)
        for lane in range(lanes):
            value = e.builder.sext(e.load(I8, e.at(base, i64(lane * config.block_in + place))), I32)
            vector = e.builder.insert_element(vector, value, ir.Constant(I32, lane))
        found.append(vector)
    return found


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
    for neighbour, tap in product(range(PAIR), range(TAPS)):
        own = [lane - lane % PAIR + neighbour for lane in range(lanes)]
        taken = b.shuffle_vector(columns[tap], ir.Constant(wide, ir.Undefined), ir.Constant(wide, own))
        total = b.add(total, b.mul(taken, weights[neighbour * TAPS + tap]))
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
