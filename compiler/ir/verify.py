"""What every loop program must keep, whatever pass has made it."""

from collections.abc import Mapping

from vdla.compiler.ir.affine import Interval, bounds
from vdla.compiler.ir.nodes import (
    ARITHMETIC,
    COMPARISONS,
    LOGICAL,
    Alloc,
    Binary,
    Block,
    Buffer,
    Call,
    Const,
    Expr,
    For,
    Func,
    If,
    IrError,
    Read,
    Select,
    Stmt,
    Var,
    Write,
)
from vdla.compiler.ir.rewrite import children, has_reads
from vdla.compiler.ir.text import print_expr, print_stmt
from vdla.compiler.ir.types import DTYPES, INDEX, wrap

KINDS = {"/": ("float",), "//": ("whole",), "%": ("whole",), ">>": ("whole",), "<<": ("whole",)}  # all others in ARITHMETIC are for both


def _kind(dtype: str) -> str:
    return "truth" if dtype == "bool" else "float" if DTYPES[dtype].is_float else "whole"


def verify(func: Func) -> None:
    """Check a program: names declared and unique, types equal, subscripts of the right number and, without conditions, in range.

    Raises:
        IrError: naming the statement and what is wrong with it.
    """
    names = [buffer.name for buffer in func.params]
    if len(set(names)) < len(names):
        raise IrError(f"{func.name}: two parameters have one name among {', '.join(names)}")
    _Checker({buffer.name: buffer for buffer in func.params}, {}, False).statement(func.body)


class _Checker:
    """What is in sight at one place of the program.

    Attributes:
        buffers, ranges: declared so far.
        guarded: a condition stands around, so that subscripts may look out of range without being so.
    """

    def __init__(self, buffers: Mapping[str, Buffer], ranges: Mapping[str, Interval], guarded: bool) -> None:
        self.buffers, self.ranges, self.guarded = buffers, ranges, guarded

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case Block(statements):
                for part in statements:
                    self.statement(part)
            case For(var, extent, body):
                self.loop(stmt, var, extent)
                _Checker(self.buffers, {**self.ranges, var.name: Interval(0, extent - 1)}, self.guarded).statement(body)
            case If(condition, body):
                self.condition(condition)
                _Checker(self.buffers, self.ranges, True).statement(body)
            case Alloc(buffer, body):
                if buffer.name in self.buffers:
                    raise IrError(f"buffer {buffer.name} is declared twice")
                _Checker({**self.buffers, buffer.name: buffer}, self.ranges, self.guarded).statement(body)
            case Write(buffer, indices, value):
                self.write(stmt, buffer, indices, value)
            case Call(_, operands, meaning):
                for operand in operands:
                    _Checker(self.buffers, self.ranges, True).expr(operand)  # a tile outside is read only where the meaning reads it
                self.statement(meaning)

    def loop(self, stmt: For, var: Var, extent: int) -> None:
        if var.name in self.ranges or var.name in self.buffers:
            raise IrError(f"loop variable {var.name} is declared twice")
        if not isinstance(extent, int) or extent < 1:
            raise IrError(f"loop {var.name} has extent {extent!r}; it must be at least 1\n{print_stmt(stmt)}")

    def write(self, stmt: Write, buffer: Buffer, indices: tuple[Expr, ...], value: Expr) -> None:
        self.subscripts(buffer, indices)
        self.expr(value)
        if value.dtype != buffer.dtype:
            raise IrError(f"{print_stmt(stmt).strip()}: the value is {value.dtype}, but {buffer.name} holds {buffer.dtype}")

    def condition(self, condition: Expr) -> None:
        self.expr(condition)
        if condition.dtype != "bool":
            raise IrError(f"{print_expr(condition)} is {condition.dtype}, not a truth value")

    def expr(self, expr: Expr) -> None:
        match expr:
            case Var(name) if name not in self.ranges:
                raise IrError(f"variable {name} stands outside its loop")
            case Read(buffer, indices):
                self.subscripts(buffer, indices)
                return
            case Select(condition, then, otherwise):
                self.condition(condition)
                inner = _Checker(self.buffers, self.ranges, True)
                inner.expr(then)
                inner.expr(otherwise)
                return
            case Binary(op, left, right):
                self.operands(expr, op, left, right)
        for child in children(expr):
            self.expr(child)

    def operands(self, expr: Binary, op: str, left: Expr, right: Expr) -> None:
        if op not in ARITHMETIC + COMPARISONS + LOGICAL:
            raise IrError(f"{print_expr(expr)}: {op!r} is no operator")
        if left.dtype != right.dtype or (op in LOGICAL and left.dtype != "bool"):
            raise IrError(f"{print_expr(expr)}: {op} has operands of types {left.dtype} and {right.dtype}")
        kinds = KINDS.get(op, ("whole", "float") if op in ARITHMETIC else ())
        if kinds and _kind(left.dtype) not in kinds:
            raise IrError(f"{print_expr(expr)}: {op} is for {' and '.join(kinds)} numbers, not for {left.dtype}")
        if op in ("//", "%") and isinstance(right, Const) and not wrap(right.value, right.dtype):
            raise IrError(f"{print_expr(expr)} divides by 0")

    def subscripts(self, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        text = f"{buffer.name}[{', '.join(print_expr(index) for index in indices)}]"
        if self.buffers.get(buffer.name) != buffer:
            raise IrError(f"{text}: buffer {buffer.name} is not declared here, or differently")
        if len(indices) != len(buffer.shape):
            raise IrError(f"{text} has {len(indices)} subscripts, but {buffer.name} has {len(buffer.shape)} axes")
        for axis, (index, extent) in enumerate(zip(indices, buffer.shape, strict=True)):
            self.expr(index)
            if index.dtype != INDEX:
                raise IrError(f"{text}: subscript {axis} is {index.dtype}, not an index")
            self.in_range(text, axis, index, extent)

    def in_range(self, text: str, axis: int, index: Expr, extent: int) -> None:
        if self.guarded or has_reads(index):
            return
        reach = bounds(index, self.ranges)
        if reach.low < 0 or reach.high >= extent:
            raise IrError(f"{text}: subscript {axis} runs from {reach.low} to {reach.high}, but the axis has {extent} elements")
