"""The accelerator's intrinsics. Each is declared by a loop program, its semantics, and by its emitter.

Source: `docs/isa.md`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from textwrap import indent

import numpy as np

from vdla.compiler.codegen import compute, transfers
from vdla.compiler.codegen.emission import Emit, HardwareIntrinsic
from vdla.compiler.ir.calls import IMMEDIATE
from vdla.compiler.ir.nodes import Buffer, Const, Expr, IrError, Read, Scope, Var
from vdla.compiler.ir.parse import parse_intrinsic
from vdla.compiler.ir.text import print_expr, print_param
from vdla.compiler.te.operators.convolution import window_place
from vdla.compiler.te.operators.narrowing import LEAST, requantised
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.numerics import ALU_OPERATIONS
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType, Parameter
from vdla.hw.spec.window import TAPS, WIDE_TAPS

NARROW = 8  # bits of inputs, weights and outputs in programs
Instructions = tuple[HardwareIntrinsic, ...]


@dataclass(frozen=True)
class Accelerator:
    """The intrinsics of a configuration, as candidates for tensorization: the first match is used.

    Attributes:
        gemm: accumulation of a product; reset of accumulators.
        gemm_from: product that resets its sum under a condition; empty without the extension OVERWRITE.
        slide, slide_from: the same for sums over windows of each shape; empty without the extension
            DEPTHWISE.
        load_inp, load_wgt, load_acc: load of an element into each memory; inputs and narrow accumulators
            also with padding.
        load_parameters: load of a parameter of a block of channels.
        store: store of an element of accumulators, truncated to its low bits or requantised.
        feed: store of a requantised element into inputs; empty without the extension FEEDBACK.
        alu: ALU operations with a constant or with other accumulators; fill with a constant.
    """

    config: AcceleratorConfig
    gemm: Instructions
    gemm_from: Instructions
    slide: Instructions
    slide_from: Instructions
    load_inp: Instructions
    load_wgt: Instructions
    load_acc: Instructions
    load_parameters: Instructions
    store: Instructions
    feed: Instructions
    alu: Instructions

    @property
    def every(self) -> Instructions:
        """All intrinsics."""
        return tuple(
            instruction
            for group in fields(self)
            if group.name != "config"
            for instruction in getattr(self, group.name)
        )


@lru_cache(maxsize=64)
def accelerator(config: AcceleratorConfig) -> Accelerator:
    """Return the intrinsics of `config`.

    Raises:
        IrError: inputs or weights do not have 8 bits.
    """
    if (config.inp_bits, config.wgt_bits) != (NARROW, NARROW):
        raise IrError(
            f"inp_bits = {config.inp_bits} and wgt_bits = {config.wgt_bits}: "
            f"programs are compiled for {NARROW}-bit inputs and weights only"
        )
    inp, wgt, acc, out = element_shapes(config)
    dst = acc("dst", Scope.ACCUMULATOR)
    reset = _tile("reset", (dst,), f"{dst.dtype}(0)", compute.reset)
    starts, slides = config.has(Extension.OVERWRITE), config.has(Extension.DEPTHWISE)
    return Accelerator(
        config,
        gemm=(_gemm(config), reset),
        gemm_from=(_gemm(config, starts=True),) if starts else (),
        slide=(*_slides(config), reset) if slides else (),
        slide_from=tuple(_slides(config, starts=True)) if starts and slides else (),
        load_inp=tuple(_loads("load_inp", inp("dst", Scope.INPUT), inp("src"), MemoryType.INP, config)),
        load_wgt=(_load("load_wgt", wgt("dst", Scope.WEIGHT), wgt("src"), MemoryType.WGT),),
        load_acc=(
            _load("load_acc", dst, acc("src"), MemoryType.ACC),
            *_loads("load_acc8", dst, out("src"), MemoryType.ACC_8BIT, config),
        ),
        load_parameters=(_load("load_parameters", acc("dst", Scope.PARAMETERS), acc("src"), MemoryType.ACC),),
        store=tuple(_stores(config, out("dst"), acc("src", Scope.ACCUMULATOR))),
        feed=_feeds(config, inp("dst", Scope.INPUT), acc("src", Scope.ACCUMULATOR)),
        alu=(
            _tile("fill", (dst, Buffer(IMMEDIATE, (1,), dst.dtype)), "imm[0]", compute.fill),
            *(operation for opcode in config.alu_opcodes for operation in _alu(opcode, dst)),
        ),
    )


Shape = Callable[..., Buffer]  # from a name, and a scope (default DRAM), to a buffer


def element_shapes(config: AcceleratorConfig) -> tuple[Shape, Shape, Shape, Shape]:
    """Return the constructors of tiles that hold an element of inputs, weights, accumulators and outputs."""

    def shape(rows: int, columns: int, bits: int) -> Shape:
        return lambda name, scope=Scope.DRAM: Buffer(name, (rows, columns), f"int{bits}", scope)

    b, i, o = config.batch, config.block_in, config.block_out
    return shape(b, i, NARROW), shape(o, i, NARROW), shape(b, o, config.acc_bits), shape(b, o, NARROW)


def _declared(name: str, params: Sequence[Buffer], body: str, emit: Emit) -> HardwareIntrinsic:
    """Return an intrinsic that executes the statements `body` for each element [i, j] of its first tile."""
    rows, columns = params[0].shape
    return HardwareIntrinsic(
        parse_intrinsic(
            f"def {name}({', '.join(map(print_param, params))}):\n"
            f"    for i in range({rows}):\n        for j in range({columns}):\n{indent(body, ' ' * 12)}\n"
        ).meaning,
        emit,
    )


def _tile(name: str, params: Sequence[Buffer], value: str, emit: Emit) -> HardwareIntrinsic:
    """Return an intrinsic that writes the expression `value` to each element of its first tile, `dst`."""
    return _declared(name, params, f"dst[i, j] = {value}", emit)


def _gemm(config: AcceleratorConfig, *, starts: bool = False) -> HardwareIntrinsic:
    """Return the product; with `starts`, the product that resets accumulators under a condition."""
    wide = f"int{config.acc_bits}"
    term = f"acc[i, j] = acc[i, j] + {wide}(inp[i, k]) * {wide}(wgt[j, k])"
    body = f"for k in range({config.block_in}):\n    {term}"
    return _sum("gemm", ("inp",), body, compute.product, config, starts)


def _slides(config: AcceleratorConfig, *, starts: bool = False) -> Iterator[HardwareIntrinsic]:
    """Yield the sums over windows of each shape; with `starts`, the sums that reset accumulators under a
    condition."""
    for columns in (TAPS, WIDE_TAPS):
        for rows in range(1, config.window.rows + 1) if columns <= config.window.columns else ():
            yield _slide(config, rows, columns, starts)


def _slide(config: AcceleratorConfig, rows: int, columns: int, starts: bool) -> HardwareIntrinsic:
    """Return the sum over windows of a shape."""
    wide, inputs = f"int{config.acc_bits}", {at: "inp_{}_{}".format(*at) for at in np.ndindex(rows, columns)}
    terms = (
        f"{wide}({inp}[i, j]) * {wide}(wgt[j, {print_expr(window_place(Var('j'), at, columns, config))}])"
        for at, inp in inputs.items()
    )
    body = f"acc[i, j] = acc[i, j] + ({' + '.join(terms)})"
    emit = partial(compute.window_sum, columns)
    return _sum(f"slide_{rows}x{columns}", inputs.values(), body, emit, config, starts)


def _sum(
    name: str, inputs: Iterable[str], body: str, emit: Emit, config: AcceleratorConfig, starts: bool
) -> HardwareIntrinsic:
    """Return the intrinsic `name`, which adds to each accumulator by the statements `body`.

    Args:
        inputs: names of the tiles of inputs.
        starts: the intrinsic resets accumulators first if its last parameter holds; `_from` is added to its
            name.
    """
    inp, wgt, acc, _ = element_shapes(config)
    columns = (inp(column, Scope.INPUT) for column in inputs)
    params = [acc("acc", Scope.ACCUMULATOR), *columns, wgt("wgt", Scope.WEIGHT)]
    if not starts:
        return _declared(name, params, body, emit)
    reset = f"if first[0]:\n    acc[i, j] = int{config.acc_bits}(0)"
    return _declared(f"{name}_from", [*params, Buffer("first", (1,), "bool")], f"{reset}\n{body}", emit)


def _widened(dst: Buffer, src: Buffer) -> str:
    return "src[i, j]" if dst.dtype == src.dtype else f"{dst.dtype}(src[i, j])"


def _load(name: str, dst: Buffer, src: Buffer, memory: MemoryType) -> HardwareIntrinsic:
    return _tile(name, (dst, src), _widened(dst, src), partial(transfers.load, memory))


def _loads(
    name: str, dst: Buffer, src: Buffer, memory: MemoryType, config: AcceleratorConfig
) -> Iterator[HardwareIntrinsic]:
    """Yield the load of an element, and the loads with padding of 0, of the least value, or of a constant."""
    yield _load(name, dst, src, memory)
    params = (dst, src, Buffer("inside", (1,), "bool"))
    value = f"select(inside[0], {_widened(dst, src)}, {dst.dtype}({{}}))"
    yield _tile(f"{name}_padded", params, value.format(0), partial(transfers.load, memory))
    if config.has(Extension.PAD_MINIMUM):
        yield _tile(
            f"{name}_padded_least",
            params,
            value.format(LEAST),
            partial(transfers.load, memory, pad_minimum=True),
        )
    if config.has(Extension.PAD_VALUE):
        constant = Buffer(IMMEDIATE, (1,), dst.dtype)
        yield _tile(
            f"{name}_padded_imm",
            (*params, constant),
            f"select(inside[0], {_widened(dst, src)}, {IMMEDIATE}[0])",
            partial(transfers.load, memory),
        )


def _stores(config: AcceleratorConfig, dst: Buffer, src: Buffer) -> Iterator[HardwareIntrinsic]:
    """Yield the store of an element without requantisation, and with it."""
    yield _tile("store", (dst, src), "int8(src[i, j])", transfers.store)
    if config.has(Extension.REQUANTISE):
        yield _requantising("store_scaled", dst, src)


def _feeds(config: AcceleratorConfig, dst: Buffer, src: Buffer) -> Instructions:
    """Return the store of a requantised element into inputs, if `config` has it."""
    feeds = config.has(Extension.FEEDBACK) and config.has(Extension.REQUANTISE)
    return (_requantising("feed_scaled", dst, src),) if feeds else ()


def _requantising(name: str, dst: Buffer, src: Buffer) -> HardwareIntrinsic:
    """Return the store `name`, which requantises with the parameters `kept`."""
    kept = Buffer("kept", (len(Parameter), *src.shape), src.dtype, Scope.PARAMETERS)
    place: tuple[Expr, ...] = (Var("i"), Var("j"))
    value = requantised(Read(src, place), lambda row: Read(kept, (Const(int(row)), *place)))
    return _tile(name, (dst, src, kept), print_expr(value), transfers.scaled_store)


def _alu(opcode: AluOpcode, dst: Buffer) -> Iterator[HardwareIntrinsic]:
    """Yield the operation with a constant, and with other accumulators."""
    left, text = replace(dst, name="left"), ALU_OPERATIONS[opcode].text
    for suffix, right, index in (
        ("_imm", Buffer(IMMEDIATE, (1,), dst.dtype), "0"),
        ("", replace(dst, name="right"), "i, j"),
    ):
        value = text.format(left="left[i, j]", right=f"{right.name}[{index}]")
        yield _tile(opcode.name.lower() + suffix, (dst, left, right), value, partial(compute.alu, opcode))
