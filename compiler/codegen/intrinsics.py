"""What the accelerator does in one go, each declared by the loop program it means.

Source: `docs/isa.md`.
"""

from dataclasses import dataclass
from functools import lru_cache

from vdla.compiler.ir.nodes import IrError, Scope
from vdla.compiler.te.tensorize import AnyOf, Intrinsic
from vdla.hw.spec import numerics
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode

ALU_TEXT = {AluOpcode.MIN: "min({}, {})", AluOpcode.MAX: "max({}, {})", AluOpcode.ADD: "{} + {}", AluOpcode.SHR: "{} >> {}", AluOpcode.MUL: "{} * {}"}
NARROW = 8  # bits of inputs, weights and outputs that programs can name
NARROW_NAME = "narrow_"  # with the control word of the operation behind it


@dataclass(frozen=True)
class Accelerator:
    """The intrinsics of one configuration.

    Attributes:
        gemm: a product added to accumulators, or accumulators set to 0.
        load_inp, load_wgt, load_acc: an element of each memory, for `load_inp` also one that may lie outside its tensor.
        store: an element of accumulators, narrowed.
        alu: an operation with a constant or with other accumulators.
    """

    config: AcceleratorConfig
    gemm: AnyOf
    load_inp: AnyOf
    load_wgt: Intrinsic
    load_acc: AnyOf
    store: Intrinsic
    alu: AnyOf

    def requantise(self, shift: int, *, rectifies: bool = False) -> Intrinsic:
        """Return the intrinsic that shifts right, rounding to nearest with halves up, and clips to outputs, or to their positive half.

        Raises:
            IrError: the configuration's ALU has no NARROW.
        """
        if AluOpcode.NARROW not in self.config.alu_opcodes:
            raise IrError(f"requantisation in one pass needs the ALU operation NARROW; {self.config.name} has "
                          f"{', '.join(opcode.name for opcode in self.config.alu_opcodes)}")
        b, o, acc = self.config.batch, self.config.block_out, f"int{self.config.acc_bits}"
        control = shift | numerics.NARROW_ROUNDS | (numerics.NARROW_RECTIFIES if rectifies else 0)
        moved = f"(left[i, j] >> {acc}({shift - 1})) + {acc}(1) >> {acc}(1)" if shift else "left[i, j]"
        value = f"min(max({moved}, {acc}({0 if rectifies else -128})), {acc}(127))"
        return _tile(f"{NARROW_NAME}{control}", f"dst: {acc}[{b}, {o}], left: {acc}[{b}, {o}]", value, b, o,
                     dst=Scope.ACCUMULATOR, left=Scope.ACCUMULATOR)


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
    return Accelerator(
        config,
        gemm=AnyOf((_gemm(b, i, o, acc), _tile("reset", f"dst: {acc}[{b}, {o}]", f"{acc}(0)", b, o, dst=Scope.ACCUMULATOR))),
        load_inp=AnyOf((
            _tile("load_inp", f"dst: int8[{b}, {i}], src: int8[{b}, {i}]", "src[i, j]", b, i, dst=Scope.INPUT),
            _tile("load_inp_padded", f"dst: int8[{b}, {i}], src: int8[{b}, {i}], inside: bool[1]", "select(inside[0], src[i, j], int8(0))",
                  b, i, dst=Scope.INPUT))),
        load_wgt=_tile("load_wgt", f"dst: int8[{o}, {i}], src: int8[{o}, {i}]", "src[i, j]", o, i, dst=Scope.WEIGHT),
        load_acc=AnyOf((
            _tile("load_acc", f"dst: {acc}[{b}, {o}], src: {acc}[{b}, {o}]", "src[i, j]", b, o, dst=Scope.ACCUMULATOR),
            _tile("load_acc8", f"dst: {acc}[{b}, {o}], src: int8[{b}, {o}]", f"{acc}(src[i, j])", b, o, dst=Scope.ACCUMULATOR))),
        store=_tile("store", f"dst: int8[{b}, {o}], src: {acc}[{b}, {o}]", "int8(src[i, j])", b, o, src=Scope.ACCUMULATOR),
        alu=AnyOf(tuple(_alu(opcode, b, o, acc, constant) for opcode in config.alu_opcodes if opcode in ALU_TEXT for constant in (True, False))),
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


def _alu(opcode: AluOpcode, b: int, o: int, acc: str, constant: bool) -> Intrinsic:
    right, params = ("imm[0]", f"imm: {acc}[1]") if constant else ("right[i, j]", f"right: {acc}[{b}, {o}]")
    scopes = {"dst": Scope.ACCUMULATOR, "left": Scope.ACCUMULATOR} | ({} if constant else {"right": Scope.ACCUMULATOR})
    return _tile(f"{opcode.name.lower()}{'_imm' if constant else ''}", f"dst: {acc}[{b}, {o}], left: {acc}[{b}, {o}], {params}",
                 ALU_TEXT[opcode].format("left[i, j]", right), b, o, **scopes)
