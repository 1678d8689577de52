"""The native ALU. Steps run in order, each on a whole element, so overlapping operands mean what the ISA
says."""

from llvmlite import ir

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import operands
from vdla.hw.spec.vocabulary import AluOpcode
from vdla.sim.native.dot import broadcast
from vdla.sim.native.emit import DONE, InstructionEmitter, i64, splat
from vdla.sim.native.steps import StepEmitter

VECTOR_BITS = 512


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
