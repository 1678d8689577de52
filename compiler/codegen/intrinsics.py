"""What the accelerator does in one go, each declared by the loop program it means.

Source: `docs/isa.md`.
"""

from dataclasses import dataclass
from functools import lru_cache

from vdla.compiler.ir.nodes import Buffer, Const, Expr, IrError, Read, Scope, Var
from vdla.compiler.ir.text import print_expr
from vdla.compiler.te.operators.narrowing import LEAST, requantised
from vdla.compiler.te.tensorize import AnyOf, Intrinsic
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType, Parameter

ALU_TEXT = {AluOpcode.MIN: "min({}, {})", AluOpcode.MAX: "max({}, {})", AluOpcode.ADD: "{} + {}", AluOpcode.SHR: "{} >> {}", AluOpcode.MUL: "{} * {}"}
NARROW = 8  # bits of inputs, weights and outputs that programs can name
PADDED, LEAST_PADDED = "_padded", "_padded_least"  # endings of the names of loads with a border of 0, and of the least value
STORE, SCALED_STORE, FILL = "store", "store_scaled", "fill"
LOADS = {"load_inp": MemoryType.INP, "load_wgt": MemoryType.WGT, "load_acc": MemoryType.ACC, "load_acc8": MemoryType.ACC_8BIT,
         "load_parameters": MemoryType.ACC}


@dataclass(frozen=True)
class Accelerator:
    """The intrinsics of one configuration.

    Attributes:
        gemm: a product added to accumulators, or accumulators set to 0.
        load_inp, load_wgt, load_acc: an element of each memory; inputs and narrow accumulators may also lie outside their tensor.
        load_parameters: one of the parameters of a block of channels.
        store: an element of accumulators, cut to its low bits or requantised.
        alu: an operation with a constant or with other accumulators, or accumulators set to a constant.
    """

    config: AcceleratorConfig
    gemm: AnyOf
    load_inp: AnyOf
    load_wgt: Intrinsic
    load_acc: AnyOf
    load_parameters: Intrinsic
    store: AnyOf
    alu: AnyOf


@lru_cache(maxsize=64)
def accelerator(config: AcceleratorConfig) -> Accelerator:
    """Return the intrinsics of `config`.

    Raises:
        IrError: its values have a width that programs cannot name.
    """
    if (config.inp_bits, config.wgt_bits) != (NARROW, NARROW):
        raise IrError(f"inp_bits = {config.inp_bits} and wgt_bits = {config.wgt_bits}: "
                      f"programs are compiled for {NARROW}-bit inputs and weights only")
    b, i, o, acc = config.batch, config.block_in, config.block_out, f"int{config.acc_bits}"
    on_chip = {"dst": Scope.ACCUMULATOR}
    return Accelerator(
        config,
        gemm=AnyOf((_gemm(b, i, o, acc), _tile("reset", f"dst: {acc}[{b}, {o}]", f"{acc}(0)", b, o, **on_chip))),
        load_inp=AnyOf(_loads("load_inp", "int8", "int8", b, i, config, dst=Scope.INPUT)),
        load_wgt=_tile("load_wgt", f"dst: int8[{o}, {i}], src: int8[{o}, {i}]", "src[i, j]", o, i, dst=Scope.WEIGHT),
        load_acc=AnyOf((_tile("load_acc", f"dst: {acc}[{b}, {o}], src: {acc}[{b}, {o}]", "src[i, j]", b, o, **on_chip),
                        *_loads("load_acc8", acc, "int8", b, o, config, **on_chip))),
        load_parameters=_tile("load_parameters", f"dst: {acc}[{b}, {o}], src: {acc}[{b}, {o}]", "src[i, j]", b, o, dst=Scope.PARAMETERS),
        store=AnyOf(tuple(_stores(config))),
        alu=AnyOf((_tile(FILL, f"dst: {acc}[{b}, {o}], imm: {acc}[1]", "imm[0]", b, o, **on_chip),
                   *(_alu(opcode, b, o, acc, constant) for opcode in config.alu_opcodes for constant in (True, False)))),
    )


def _gemm(b: int, i: int, o: int, acc: str) -> Intrinsic:
    return Intrinsic.declare(f"""\
def gemm(acc: {acc}[{b}, {o}], inp: int8[{b}, {i}], wgt: int8[{o}, {i}]):
    for i in range({b}):
        for j in range({o}):
            for k in range({i}):
                acc[i, j] = acc[i, j] + {acc}(inp[i, k]) * {acc}(wgt[j, k])
""", acc=Scope.ACCUMULATOR, inp=Scope.INPUT, wgt=Scope.WEIGHT)


def _tile(name: str, params: str, value: str, rows: int, columns: int, **scopes: Scope) -> Intrinsic:
    """Return an intrinsic that writes a tile `dst` element by element."""
    return Intrinsic.declare(f"""\
def {name}({params}):
    for i in range({rows}):
        for j in range({columns}):
            dst[i, j] = {value}
""", **scopes)


def _loads(name: str, dtype: str, source: str, rows: int, columns: int, config: AcceleratorConfig, **scopes: Scope) -> tuple[Intrinsic, ...]:
    """Return the load of an element, and those of one that may lie outside its tensor."""
    params = f"dst: {dtype}[{rows}, {columns}], src: {source}[{rows}, {columns}]"
    value = "src[i, j]" if dtype == source else f"{dtype}(src[i, j])"
    borders = {PADDED: 0} | ({LEAST_PADDED: LEAST} if config.has(Extension.PAD_MINIMUM) else {})
    return (_tile(name, params, value, rows, columns, **scopes),
            *(_tile(name + ending, f"{params}, inside: bool[1]", f"select(inside[0], {value}, {dtype}({border}))", rows, columns, **scopes)
              for ending, border in borders.items()))


def _stores(config: AcceleratorConfig):
    """Yield the store of an element as it is, and requantised."""
    b, o, acc = config.batch, config.block_out, f"int{config.acc_bits}"
    params = f"dst: int8[{b}, {o}], src: {acc}[{b}, {o}]"
    yield _tile(STORE, params, "int8(src[i, j])", b, o, src=Scope.ACCUMULATOR)
    if config.has(Extension.REQUANTISE):
        src, kept = Buffer("src", (b, o), acc), Buffer("kept", (len(Parameter), b, o), acc)
        place: tuple[Expr, ...] = (Var("i"), Var("j"))
        value = requantised(Read(src, place), lambda row: Read(kept, (Const(int(row)), *place)))
        yield _tile(SCALED_STORE, f"{params}, kept: {acc}[{len(Parameter)}, {b}, {o}]", print_expr(value), b, o,
                    src=Scope.ACCUMULATOR, kept=Scope.PARAMETERS)


def _alu(opcode: AluOpcode, b: int, o: int, acc: str, constant: bool) -> Intrinsic:
    right, params = ("imm[0]", f"imm: {acc}[1]") if constant else ("right[i, j]", f"right: {acc}[{b}, {o}]")
    scopes = {"dst": Scope.ACCUMULATOR, "left": Scope.ACCUMULATOR} | ({} if constant else {"right": Scope.ACCUMULATOR})
    return _tile(f"{opcode.name.lower()}{'_imm' if constant else ''}", f"dst: {acc}[{b}, {o}], left: {acc}[{b}, {o}], {params}",
                 ALU_TEXT[opcode].format("left[i, j]", right), b, o, **scopes)
