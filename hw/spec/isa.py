"""The instruction set, declared once: codec, assembler, hardware layouts and reference page derive from it.

Each instruction is a frozen dataclass whose fields, in order, are the fields of its encoding from bit 0
upward. `vdla.hw.spec.encoding` places them.

Source: `docs/isa.md`, generated from this file, for the reader.
"""

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import ClassVar, TypeAlias

from vdla.hw.spec.declared import ANY_INDEX, ROW_BITS, Depths, bits, code
from vdla.hw.spec.numerics import ENTRIES_OF_ELEMENT, TABLE_ENTRIES
from vdla.hw.spec.vocabulary import (
    DRAM_BASE_BITS,
    VTA_LOOP_BITS,
    AluOpcode,
    Extension,
    MemoryType,
    NormalParameter,
    Parameter,
    Statistic,
)

LOOP_BITS = VTA_LOOP_BITS
SIZE_BITS = 16
PARAMETER_SET_BITS = 6
PAD_VALUE_BITS = 8
"""Bits of a pad register."""
HALVINGS_BITS = 2
LONGEST_ROW = (1 << SIZE_BITS) - 1
"""Elements of a row of a transfer, rows of a transfer, and elements between rows, at most."""
MOST_PARAMETER_SETS = (1 << PARAMETER_SET_BITS) - 1
TABLE_NUMBER_BITS = 4
MOST_TABLES = (1 << TABLE_NUMBER_BITS) - 1
TABLE_ELEMENTS = TABLE_ENTRIES // ENTRIES_OF_ELEMENT
POWER_TABLE_ELEMENTS = 2 * TABLE_ELEMENTS
"""Elements of a table of powers, whose entries are of two bytes: the low byte first."""
RESIDUAL_BITS = 12
STATISTIC_BITS = 2
NORMAL_ROWS = 256
"""Rows of which the store unit holds statistics."""
GATHER_STEP_BITS = 8
MOST_GATHER_STEP = (1 << GATHER_STEP_BITS) - 1
"""Bytes from one element of a GATHER to the next, at most."""


class Opcode(IntEnum):
    """Task instructions; the value is the encoding."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4
    DEPTHWISE = 5
    GATHER = 6
    NORMALISE = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """The fields that all task instructions share: four dependency-token flags."""

    opcode: ClassVar[Opcode]
    extension: ClassVar[Extension | None] = None
    """The extension that adds the whole instruction; None: every configuration has it."""

    pop_prev: int = bits(1, "before the start, pop a token from the previous unit")
    pop_next: int = bits(1, "before the start, pop a token from the next unit")
    push_prev: int = bits(1, "at retirement, push a token to the previous unit")
    push_next: int = bits(1, "at retirement, push a token to the next unit")


FLAGS = tuple(flag.name for flag in fields(Instruction))


def field_names(form: type[Instruction]) -> tuple[str, ...]:
    """Return the fields that a form of instruction has besides FLAGS, in order of declaration."""
    return tuple(declared.name for declared in fields(form) if declared.name not in FLAGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows(Instruction):
    memory_type: MemoryType = code(3, "on-chip memory that is read or written", MemoryType)
    sram_base: int = bits(ANY_INDEX, "first element in the on-chip memory")
    dram_base: int = bits(DRAM_BASE_BITS, "first element in DRAM: byte address / element bytes")
    y_size: int = bits(SIZE_BITS, "rows")
    x_size: int = bits(SIZE_BITS, "elements per row; 0: the instruction only pops and pushes tokens")
    x_stride: int = bits(SIZE_BITS, "elements from one row to the next in DRAM")
    y_pad_0: int = bits(4, "rows of padding before the first row")
    y_pad_1: int = bits(4, "rows of padding after the last row")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Transfer(_Rows):
    x_pad_0: int = bits(4, "elements of padding before each row")
    x_pad_1: int = bits(4, "elements of padding after each row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(_Transfer):
    """Copy a strided, padded 2-D block from DRAM into a scratchpad.

    LOAD writes rows of `x_pad_0 + x_size + x_pad_1` elements, densely from `sram_base`. The first `y_pad_0`
    rows are padding. Then each row y has `x_pad_0` padding elements, `x_size` elements read from
    `dram_base + y * x_stride`, and `x_pad_1` padding elements. The last `y_pad_1` rows are padding. ACC_8BIT
    reads narrow elements and sign-extends each value into ACC.

    A LOAD of WGT with `halvings` = h reads narrow weights. Values then have `wgt_bits` / 2^h bits in DRAM, in
    two's complement. They fill each byte from its low bits upward, in the order of the values. Each value is
    sign-extended to `wgt_bits` in WGT. An element has 2^h times fewer bytes in DRAM, and `dram_base` and
    `x_stride` count such narrow elements. Values must keep at least 2 bits, and elements whole bytes: a LOAD
    of WGT with more `halvings` is invalid. For other memories, `halvings` has no effect.

    Padding is 0 by default. With `pad_minimum`, it is the least value that an element's values can have in
    DRAM. Otherwise, with `pad_value`, it is the pad register, wrapped to the width of these values. ACC_8BIT
    and LOADs of narrow weights sign-extend either. UOP is always padded with 0.

    The flag `beside` of a LOAD of ACC or ACC_8BIT is a promise. The last GEMM, ALU or DEPTHWISE before this
    LOAD touches no accumulator in a half of ACC that the LOAD writes. If the LOAD pushes no token, it may run
    while that instruction runs. The verifier refuses a stream that breaks such a promise; what the hardware
    writes is then undefined. For other memories, or if the LOAD pushes a token, the flag has no effect.

    Each unit that executes LOADs has a pad register: 8 bits, signed, 0 when a run starts. A LOAD with
    `pad_value` and an `x_size` of 0 writes the low 8 bits of its `sram_base` into the register of its unit.
    Later LOADs of that unit with `pad_value` pad with its contents.
    """

    opcode: ClassVar[Opcode] = Opcode.LOAD

    pad_minimum: int = bits(
        1,
        "pad with the least value of the element's type instead of zero "
        "(ACC_8BIT, narrow weights: the least value of the narrow type; UOP: no effect)",
        extension=Extension.PAD_MINIMUM,
    )
    pad_value: int = bits(
        1,
        "pad with the pad register of the unit instead of zero (with `pad_minimum`, and for UOP: no effect); "
        "if `x_size` is 0: write `sram_base` into that register",
        extension=Extension.PAD_VALUE,
    )
    beside: int = bits(
        1,
        "run in parallel with the preceding GEMM, ALU or DEPTHWISE, which uses the other half of ACC "
        "(ACC and ACC_8BIT; else no effect)",
        extension=Extension.ACC_HALVES,
    )
    halvings: int = bits(
        HALVINGS_BITS,
        "how often the width of a weight in DRAM is half of the width before, beginning with `wgt_bits` "
        "(WGT; else no effect)",
        extension=Extension.NARROW_WEIGHTS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Store(_Transfer):
    """Copy a block of accumulators, narrowed to their low output bits or requantised, into DRAM or into INP.

    STORE reads element `sram_base + y * x_size + x` and writes element `dram_base + y * x_stride + x`.
    Narrowing to the low bits does not saturate. `memory_type` is OUT or INP (any type if `x_size` is 0).
    Padding fields have no effect.

    With `memory_type` OUT, the elements that are written stand in DRAM. INP needs the extension FEEDBACK. The
    elements that are then written are those of the input scratchpad: `dram_base` and `x_stride` count them,
    and the STORE accesses no DRAM. Everything else is the same. Output o of row b becomes input o of row b.

    The compute unit reads INP, and the load unit writes it, too. Tokens order these accesses like all others.
    No edge joins the load unit and the store unit. An instruction of the compute unit stands between them: it
    pops a token that one of them pushed, and pushes a token that the other pops.

    If `parameters` is not 0, every value is requantised with the parameters of its own row and column. They
    are in the four accumulator elements from 4 * (parameters - 1) on: bias; multiplier; shift and zero point;
    clip. `vdla.hw.spec.numerics.requantise` is the definition. If the STORE names a table, the result is then
    looked up in it. If the STORE names a residual, that is added last. Without `parameters`, `table` and
    `residual` have no effect.

    `table` = n selects the entries in TABLE from element 64 * (n - 1) on. Each value is replaced by its entry
    (`numerics.look_up`). `residual` = n adds element RES[n - 1 + y * x_size + x], scaled by the parameters in
    the first four accumulator elements (`numerics.add_residual`).

    A STORE must not write any byte of the running stream, nor any byte that a LOAD of UOP of the same stream
    reads. Every device and the verifier refuse such a stream before it runs. The hardware does not check;
    what it would execute is undefined.
    """

    opcode: ClassVar[Opcode] = Opcode.STORE

    memory_type: MemoryType = code(
        3, "where outputs go: OUT, into DRAM; INP, into that scratchpad", MemoryType
    )
    sram_base: int = bits(ANY_INDEX, "first accumulator element")
    dram_base: int = bits(
        DRAM_BASE_BITS, "first element that is written: byte address in DRAM / element bytes; index in INP"
    )
    x_stride: int = bits(SIZE_BITS, "elements from one row to the next where they are written")
    parameters: int = bits(
        PARAMETER_SET_BITS,
        "requantise with this set of parameters, counted from 1; 0: keep the low bits",
        extension=Extension.REQUANTISE,
    )
    y_pad_0: int = bits(4, "no effect", gives_way_to=Extension.TABLE)
    y_pad_1: int = bits(4, "no effect", gives_way_to=Extension.RESIDUAL)
    x_pad_0: int = bits(4, "no effect", gives_way_to=Extension.RESIDUAL)
    x_pad_1: int = bits(4, "no effect", gives_way_to=Extension.RESIDUAL)
    table: int = bits(
        TABLE_NUMBER_BITS,
        "replace requantised values by their entries in this table, counted from 1; 0: no table",
        extension=Extension.TABLE,
        instead_of=("y_pad_0",),
    )
    residual: int = bits(
        RESIDUAL_BITS,
        "add elements of RES to requantised values, from this element on, counted from 1; 0: add nothing",
        extension=Extension.RESIDUAL,
        instead_of=("y_pad_1", "x_pad_0", "x_pad_1"),
    )

    @property
    def parameters_base(self) -> int:
        """The accumulator element at which the set of parameters begins."""
        return (self.parameters - 1) * len(Parameter)

    @property
    def table_base(self) -> int:
        """The element of TABLE at which the table begins."""
        return (self.table - 1) * TABLE_ELEMENTS


def _uop_begin() -> int:
    return bits("U", "first micro-op")


def _uop_end() -> int:
    return bits("U+1", "one past the last micro-op")


def _trips(loop: str) -> int:
    return bits(LOOP_BITS, f"trips of the {loop} loop")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loop(Instruction):
    reset: int = bits(1, "GEMM: write zero instead of accumulating; ALU: no effect")
    uop_begin: int = _uop_begin()
    uop_end: int = _uop_end()
    iter_out: int = _trips("outer")
    iter_in: int = _trips("inner")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm(_Loop):
    """Multiply-accumulate (or reset) over two loops and a range of micro-ops.

    For i < iter_out, j < iter_in, u in uops[uop_begin:uop_end], let d = u.dst + i * dst_factor_out
    + j * dst_factor_in, and s, w likewise. With reset, acc[d] = 0. Else acc[d][b][o] += sum over k of
    inp[s][b][k] * wgt[w][o][k], or = instead of += with overwrite. Sums wrap at the accumulator's width.
    """

    opcode: ClassVar[Opcode] = Opcode.GEMM

    dst_factor_out: int = bits("A", "accumulator step of the outer loop")
    dst_factor_in: int = bits("A", "accumulator step of the inner loop")
    src_factor_out: int = bits("I", "input step of the outer loop")
    src_factor_in: int = bits("I", "input step of the inner loop")
    wgt_factor_out: int = bits("W", "weight step of the outer loop")
    wgt_factor_in: int = bits("W", "weight step of the inner loop")
    overwrite: int = bits(1, "write the product instead of adding it", extension=Extension.OVERWRITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Instruction):
    """End the run once every unit is idle. The remaining bits have no effect."""

    opcode: ClassVar[Opcode] = Opcode.FINISH


@dataclass(frozen=True, slots=True, kw_only=True)
class Alu(_Loop):
    """Element-wise operation over the same loops as GEMM.

    acc[d] = op(acc[d], imm if use_imm else acc[s]). SHR by a negative amount shifts left; a shift by the
    accumulator's width or more gives the sign fill (right) or 0 (left); ADD and MUL wrap.
    """

    opcode: ClassVar[Opcode] = Opcode.ALU

    dst_factor_out: int = bits("A", "accumulator step of the outer loop")
    dst_factor_in: int = bits("A", "accumulator step of the inner loop")
    src_factor_out: int = bits("A", "source step of the outer loop")
    src_factor_in: int = bits("A", "source step of the inner loop")
    alu_opcode: AluOpcode = code(3, "operation", AluOpcode)
    use_imm: int = bits(1, "take `imm` as the second operand instead of acc[s]")
    imm: int = bits(16, "immediate operand", signed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Depthwise(Instruction):
    """Slide a window along rows of inputs, and accumulate its products with a part of a kernel.

    The window has 1 + more_rows rows of c = 3 + 2 * wide columns. Its rows are e = 2 * row_step + 1 elements
    apart. For i < iter_out, u in uops[uop_begin:uop_end], j < iter_in, in this order, let d = u.dst
    + i * dst_factor_out + j * dst_factor_in, w = u.wgt + i * wgt_factor_out, and s = u.src
    + i * src_factor_out + j * (1 + stride_2) * src_factor_in. Then acc[d][b][o] += sum over
    r < 1 + more_rows, h < H, t < c of inp[s + r * e + t * src_factor_in][b][H * (o // H) + h]
    * wgt[w][o][(r * H + h) * T + T - c + t], or = instead of += with overwrite. Other weights have no effect.
    Sums wrap at the accumulator's width.

    Without the extension `depthwise_rows`, windows have one row of T = 3 columns, and H = 2: a channel sums
    its own taps and those of its neighbour. In a depthwise convolution the neighbour's weights are 0.

    With the extension, H is 2 if the configuration has `packed` multipliers, and else 1. The array has inputs
    for R rows of T columns: the first of 4 x 5, 3 x 5 and 2 x 3 for which R * T * H is at most `block_in`.
    Rows from number R on, and columns before the last T, have no effect, but are read.
    """

    opcode: ClassVar[Opcode] = Opcode.DEPTHWISE
    extension: ClassVar[Extension | None] = Extension.DEPTHWISE

    stride_2: int = bits(1, "the window moves on by two inputs instead of one")
    uop_begin: int = _uop_begin()
    uop_end: int = _uop_end()
    iter_out: int = _trips("outer")
    iter_in: int = bits(ROW_BITS, "sums of a row", room=LOOP_BITS)
    dst_factor_out: int = bits("A", "accumulator step of the outer loop")
    dst_factor_in: int = bits("A", "accumulator step from one sum to the next")
    src_factor_out: int = bits("I", "input step of the outer loop")
    src_factor_in: int = bits("I", "input step from one column of the window to the next")
    wgt_factor_out: int = bits("W", "weight step of the outer loop")
    more_rows: int = bits(2, "rows of the window beyond the first", extension=Extension.DEPTHWISE_ROWS)
    wide: int = bits(1, "the window has five columns instead of three", extension=Extension.DEPTHWISE_ROWS)
    row_step: int = bits(
        "I-1",
        "half the input step from one row of the window to the next, which is odd: 2 * row_step + 1",
        extension=Extension.DEPTHWISE_ROWS,
    )
    overwrite: int = bits(1, "write the sum instead of adding it", extension=Extension.OVERWRITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather(_Rows):
    """Load rows of elements that begin at any byte, and may overlap or leave gaps in DRAM.

    GATHER writes `y_pad_0` rows of padding, `y_size` rows and `y_pad_1` rows of padding, each of `x_size`
    elements, densely from `sram_base` of INP. Element x of row y is the `element_bytes` consecutive bytes of
    DRAM from byte `dram_base + y * x_stride + x * step` on, in the layout that LOAD reads.

    A row reads the bytes from the first byte of its first element to the last byte of its last element. It
    reads each of these bytes once, including gaps, and no others. Padding is that of a LOAD; LOADs of the
    load unit write the pad register. `memory_type` is INP.
    """

    opcode: ClassVar[Opcode] = Opcode.GATHER
    extension: ClassVar[Extension | None] = Extension.GATHER

    memory_type: MemoryType = code(3, "on-chip memory that is written", MemoryType)
    dram_base: int = bits(DRAM_BASE_BITS, "first byte of the first row in DRAM")
    x_stride: int = bits(SIZE_BITS, "bytes from one row to the next in DRAM")
    step: int = bits(GATHER_STEP_BITS, "bytes from one element of a row to the next in DRAM")
    pad_minimum: int = bits(
        1,
        "pad with the least value of the element's type instead of zero",
        extension=Extension.PAD_MINIMUM,
    )
    pad_value: int = bits(
        1,
        "pad with the pad register of the unit instead of zero (with `pad_minimum`: no effect)",
        extension=Extension.PAD_VALUE,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalise(Instruction):
    """Gather statistics of rows of accumulators, or normalise rows by them and write outputs like a STORE.

    NORMALISE reads element `sram_base + y * x_size + x`. Each element belongs to another row: element number
    i = y * x_size + x belongs to row i modulo 256. The store unit holds the statistics of these rows. A row
    is longer than an element. It is read by as many NORMALISEs as it has elements.

    The values of an element are requantised with set `parameters`, as a STORE does it; without `parameters`,
    they are the low bits of accumulators. A value is left out if bit 16 of its CLIP parameter is set (not
    without `parameters`). A value's power is the entry for `greatest` - value of the table of powers, which
    has 256 entries of 16 bits, in TABLE from element 64 * (table - 1) on. Without `table`, the power is that
    difference.

    If `normal` is 0, NORMALISE writes nothing, and gathers a statistic of each row. With `anew`, the values
    of the element replace those of earlier elements; else they join them. If `normal` is not 0, NORMALISE
    writes outputs to the place where a STORE writes them, normalised by the parameters in the four
    accumulator elements from 4 * (normal - 1) on.

    | `statistic` | gathers the | writes, times a factor and plus an addend |
    | --- | --- | --- |
    | GREATEST | greatest value | powers |
    | POWERS | sum of powers | powers, divided by their sum (softmax) |
    | MOMENTS | sums of values and squares | values minus their mean, divided by their standard deviation |

    `vdla.hw.spec.normalisation` defines the arithmetic. A row's greatest value must be there before POWERS
    are gathered. Statistics that were not gathered in the run are undefined; the verifier refuses a stream
    that uses them.
    """

    opcode: ClassVar[Opcode] = Opcode.NORMALISE
    extension: ClassVar[Extension | None] = Extension.NORMALISE

    memory_type: MemoryType = code(
        3, "where outputs go: OUT, into DRAM; INP, into that scratchpad", MemoryType
    )
    sram_base: int = bits(ANY_INDEX, "first accumulator element")
    dram_base: int = bits(
        DRAM_BASE_BITS, "first element that is written: byte address in DRAM / element bytes; index in INP"
    )
    parameters: int = bits(
        PARAMETER_SET_BITS, "requantise with this set of parameters, counted from 1; 0: take the low bits"
    )
    y_size: int = bits(SIZE_BITS, "rows of elements")
    x_size: int = bits(
        SIZE_BITS, "elements per row of elements; 0: the instruction only pops and pushes tokens"
    )
    x_stride: int = bits(SIZE_BITS, "elements from one row of elements to the next where they are written")
    table: int = bits(
        TABLE_NUMBER_BITS, "the table of powers, which takes the place of two tables, counted from 1"
    )
    normal: int = bits(
        PARAMETER_SET_BITS, "write outputs, normalised by this set of parameters, counted from 1; 0: gather"
    )
    statistic: Statistic = code(STATISTIC_BITS, "what is gathered, or divides outputs", Statistic)
    anew: int = bits(1, "statistics begin anew (with `normal`: no effect)")

    @property
    def parameters_base(self) -> int:
        """The accumulator element at which the parameters of requantisation begin."""
        return (self.parameters - 1) * len(Parameter)

    @property
    def normal_base(self) -> int:
        """The accumulator element at which the parameters of normalisation begin."""
        return (self.normal - 1) * len(NormalParameter)

    @property
    def table_base(self) -> int:
        """The element of TABLE at which the table of powers begins."""
        return (self.table - 1) * TABLE_ELEMENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroOp:
    """One step of a GEMM or ALU instruction, a row of a DEPTHWISE: element indices to which the loops add
    their offsets."""

    dst: int = bits("A", "accumulator element")
    src: int = bits("max(A,I)", "input element (GEMM, DEPTHWISE) or accumulator element (ALU)")
    wgt: int = bits("W", "weight element (GEMM, DEPTHWISE)")


Form: TypeAlias = type[Instruction] | type[MicroOp]

INSTRUCTIONS: tuple[type[Instruction], ...] = (
    Load,
    Store,
    Gemm,
    Finish,
    Alu,
    Depthwise,
    Gather,
    Normalise,
)
BY_OPCODE = {form.opcode: form for form in INSTRUCTIONS}


def instructions_of(config: Depths) -> tuple[type[Instruction], ...]:
    """Return the forms of instructions that a configuration has."""
    return tuple(form for form in INSTRUCTIONS if form.extension is None or config.has(form.extension))
