"""The native LOAD, and what it shares with the native STORE."""

from collections.abc import Mapping
from dataclasses import dataclass

from llvmlite import ir

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import chip_access, dram_access
from vdla.hw.spec.memories import MEMORIES, loadable_in, scratchpad_of
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.sim.native.compute import emit_pack_wgt
from vdla.sim.native.dot import Dot
from vdla.sim.native.emit import DONE, I8, I64, POINTER, Emitter, InstructionEmitter, i64
from vdla.sim.scratchpads import K_GROUP, padded_block_in, padded_block_out


@dataclass(frozen=True, slots=True)
class Shape:
    """How one element of a loadable memory stands on chip and in DRAM.

    Attributes:
        array: the scratchpad's name in `STATE`.
        values: values of an element.
        chip_bits: width of a value on chip.
        dram_bits: width of a value in DRAM.
    """

    array: str
    values: int
    chip_bits: int
    dram_bits: int

    @property
    def chip_bytes(self) -> int:
        """Bytes of an element on chip."""
        return self.values * self.chip_bits // 8

    @property
    def dram_bytes(self) -> int:
        """Bytes of an element in DRAM."""
        return self.values * self.dram_bits // 8


def shape_of(memory: MemoryType, config: AcceleratorConfig, halvings: int = 0) -> Shape:
    """Return the shape of an element that a LOAD of `memory` with `halvings` moves, or a STORE of OUT."""
    pad, bits = scratchpad_of(memory), config.value_bits(memory, halvings)
    chip_bits = config.value_bits(pad) if pad in (MemoryType.UOP, MemoryType.ACC) else 8
    return Shape(pad.name.lower(), config.values(memory), chip_bits, bits)


def emit_loads(
    module: ir.Module, config: AcceleratorConfig, dot: Dot, pack_inp: ir.Function
) -> dict[isa.Opcode, ir.Function]:
    """Emit `load(state, row)` and, where the configuration has it, `gather(state, row)`; `pack_inp`: what
    prepares inputs for the array."""
    packers = {MemoryType.INP: pack_inp, MemoryType.WGT: emit_pack_wgt(module, config, dot)}
    functions = {isa.Opcode.LOAD: _emit_load(module, config, packers)}
    if config.has(Extension.GATHER):
        e = InstructionEmitter(module, "gather", isa.Gather, config)
        functions[isa.Opcode.GATHER] = _emit_load_of(e, MemoryType.INP, pack_inp)
    return functions


def _emit_load(
    module: ir.Module, config: AcceleratorConfig, packers: Mapping[MemoryType, ir.Function]
) -> ir.Function:
    """Emit `load(state, row)`: it hands over to one function per memory and width of its values in DRAM."""
    e = InstructionEmitter(module, "load", isa.Load, config)
    default = e.builder.append_basic_block("none")
    switch = e.builder.switch(e.field("memory_type"), default)
    for memory in loadable_in(config):
        block = e.builder.append_basic_block(memory.name)
        e.builder.position_at_end(block)
        for halvings in reversed(config.halvings(memory)):
            name = f"load_{memory.name}_halved_{halvings}" if halvings else f"load_{memory.name}"
            emitter = InstructionEmitter(module, name, isa.Load, config)
            function = _emit_load_of(emitter, memory, packers.get(memory), halvings)
            if halvings:
                with e.when(e.builder.icmp_unsigned("==", e.field("halvings"), i64(halvings))):
                    e.builder.ret(e.builder.call(function, [e.state, e.row]))
            else:
                e.builder.ret(e.builder.call(function, [e.state, e.row]))
        switch.add_case(i64(memory), block)
    e.builder.position_at_end(default)
    return e.finish(DONE)


def _emit_load_of(
    e: InstructionEmitter, memory: MemoryType, packer: ir.Function | None, halvings: int = 0
) -> ir.Function:
    """Emit a LOAD with `halvings` or a GATHER of one memory type; `packer`: what prepares its elements for
    the array."""
    b, shape = e.builder, shape_of(memory, e.config, halvings)
    size, above, below = e.field("x_size"), e.field("y_pad_0"), e.field("y_pad_1")
    left, right, trips = e.field("x_pad_0"), e.field("x_pad_1"), e.field("y_size")
    width = e.sum(left, size, right)
    elements = b.mul(width, e.sum(above, trips, below))
    if e.form is isa.Load and e.config.has(Extension.PAD_VALUE):
        _emit_pad_register(e, memory)
    e.done_if_nothing()
    e.done_if(b.icmp_unsigned("==", elements, i64(0)))
    _refuse_outside(e, memory, halvings, trips)
    e.spend(elements)

    padding = _padding(e, shape, memory, halvings)
    source, stride = dram_start(e, shape)
    first = e.at(e.memory(shape.array), e.scaled(e.field("sram_base"), shape.chip_bytes))
    target = e.variable(first)

    def pad(count: ir.Value) -> None:
        values, start = e.scaled(count, shape.values), target.get()
        e.loop(values, lambda v: e.store(padding, e.at(start, e.scaled(v, shape.chip_bits // 8))))
        target.set(e.at(start, e.scaled(count, shape.chip_bytes)))

    def row(y: ir.Value) -> None:
        pad(left)
        _emit_row(e, shape, e.at(source, b.mul(y, stride)), target.get(), size)
        target.set(e.at(target.get(), e.scaled(size, shape.chip_bytes)))
        pad(right)

    pad(b.mul(above, width))
    e.loop(trips, row)
    pad(b.mul(below, width))
    if packer:
        _emit_packing(e, memory, packer, first, elements)
    return e.finish()


def _is_set(e: InstructionEmitter, flag: str) -> ir.Value:
    return e.builder.icmp_unsigned("!=", e.field(flag), i64(0))


def _pad_register(e: InstructionEmitter, memory: MemoryType) -> ir.Value:
    """Return the address of the pad register of the unit that loads `memory`."""
    unit = MEMORIES[memory].loaded_by
    assert unit is not None, f"{memory.name} cannot be loaded"
    return e.at(e.memory("pad_registers"), i64(unit))


def _emit_pad_register(e: InstructionEmitter, memory: MemoryType) -> None:
    """Write the pad register where a LOAD says so."""
    b = e.builder
    with e.when(b.and_(_is_set(e, "pad_value"), b.icmp_unsigned("==", e.field("x_size"), i64(0)))):
        e.store(b.trunc(e.field("sram_base"), I8), _pad_register(e, memory))


def _padding(e: InstructionEmitter, shape: Shape, memory: MemoryType, halvings: int) -> ir.Value:
    """Return the value that a LOAD of `memory` with `halvings` pads with."""
    b, kind = e.builder, ir.IntType(shape.chip_bits)
    value: ir.Value = ir.Constant(kind, 0)
    if memory is not MemoryType.UOP and e.config.has(Extension.PAD_VALUE):
        unused = ir.Constant(I8, max(0, isa.PAD_VALUE_BITS - shape.dram_bits))
        register = b.ashr(b.shl(e.load(I8, _pad_register(e, memory)), unused), unused)
        register = b.sext(register, kind) if shape.chip_bits > isa.PAD_VALUE_BITS else register
        value = b.select(_is_set(e, "pad_value"), register, value)
    least = ir.Constant(kind, e.config.least_value(memory, halvings))
    return b.select(_is_set(e, "pad_minimum"), least, value)


def _refuse_outside(e: InstructionEmitter, memory: MemoryType, halvings: int, trips: ir.Value) -> None:
    """Refuse a transfer of `memory` that leaves its scratchpad or, where it has rows, DRAM."""
    e.refuse_beyond(chip_access(e.form), memory)
    with e.when(e.builder.icmp_unsigned("!=", trips, i64(0))):
        e.refuse_beyond(dram_access(e.form), memory, halvings=halvings)


def dram_start(e: InstructionEmitter, shape: Shape) -> tuple[ir.Value, ir.Value]:
    """Return the address of the first row and the bytes from one row to the next."""
    unit = 1 if dram_access(e.form).in_bytes else shape.dram_bytes
    start = e.at(e.memory("dram"), e.scaled(e.field("dram_base"), unit))
    return start, e.scaled(e.field("x_stride"), unit)


def _emit_row(
    e: InstructionEmitter, shape: Shape, source: ir.Value, target: ir.Value, elements: ir.Value
) -> None:
    """Copy the elements of a row."""
    if e.form is isa.Load:
        _emit_widen(e, shape, source, target, e.scaled(elements, shape.dram_bytes))
        return
    step = e.field("step")

    def element(x: ir.Value) -> None:
        begin, place = e.at(source, e.builder.mul(x, step)), e.at(target, e.scaled(x, shape.chip_bytes))
        _emit_widen(e, shape, begin, place, i64(shape.dram_bytes))

    e.loop(elements, element)


def _emit_widen(e: Emitter, shape: Shape, source: ir.Value, target: ir.Value, dram_bytes: ir.Value) -> None:
    """Copy values from DRAM, sign-extended to their width on chip."""
    b = e.builder
    if shape.dram_bits == shape.chip_bits:
        _copy(e, target, source, dram_bytes)
        return
    per_byte, chip = 8 // shape.dram_bits, ir.IntType(shape.chip_bits)

    def byte(index: ir.Value) -> None:
        read = e.load(I8, e.at(source, index))
        for place in range(per_byte):
            raised = b.shl(read, ir.Constant(I8, 8 - shape.dram_bits * (place + 1)))
            value = b.ashr(raised, ir.Constant(I8, 8 - shape.dram_bits))
            value = b.sext(value, chip) if shape.chip_bits > 8 else value
            at = e.sum(e.scaled(index, per_byte), i64(place))
            e.store(value, e.at(target, e.scaled(at, shape.chip_bits // 8)))

    e.loop(dram_bytes, byte)


def _copy(e: Emitter, target: ir.Value, source: ir.Value, size: ir.Value) -> None:
    copy = e.function.module.declare_intrinsic("llvm.memcpy", [POINTER, POINTER, I64])
    e.builder.call(copy, [target, source, size, ir.Constant(ir.IntType(1), 0)])


def _emit_packing(
    e: InstructionEmitter, memory: MemoryType, packer: ir.Function, first: ir.Value, elements: ir.Value
) -> None:
    c, base = e.config, e.field("sram_base")
    if memory is MemoryType.INP:
        operand = e.at(e.memory("inp_operand"), e.scaled(base, c.batch * padded_block_in(c)))
        e.builder.call(packer, [first, operand, elements])
        return
    row_bytes = K_GROUP * padded_block_out(c)
    operand = e.at(e.memory("wgt_operand"), e.scaled(base, row_bytes * padded_block_in(c) // K_GROUP))
    e.builder.call(packer, [first, operand, e.at(e.memory("wgt_bias"), e.scaled(base, row_bytes)), elements])
