"""The verifier: invariants of loop programs that hold after every pass."""

from collections.abc import Iterator
from contextlib import contextmanager

from vdla.compiler.ir.affine import Interval, bounds
from vdla.compiler.ir.calls import IMMEDIATE, Call, Intrinsic, is_tile
from vdla.compiler.ir.nodes import (
    ARITHMETIC,
    COMPARISONS,
    LOGICAL,
    Alloc,
    Binary,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Func,
    If,
    IrError,
    Let,
    Read,
    Select,
    Stmt,
    Var,
    Write,
)
from vdla.compiler.ir.rewrite import reads
from vdla.compiler.ir.text import print_expr, print_stmt
from vdla.compiler.ir.types import DTYPES, INDEX, wrap

KINDS = {
    "/": ("float",),
    "//": ("whole",),
    "%": ("whole",),
    ">>": ("whole",),
    "<<": ("whole",),
}  # all others in ARITHMETIC are for both
OPERATORS = frozenset(ARITHMETIC + COMPARISONS + LOGICAL)
ORIGIN = Const(0)


KIND_OF = {name: "float" if dtype.is_float else "whole" for name, dtype in DTYPES.items()} | {"bool": "truth"}


def verify(func: Func) -> None:
    """Check a program: names are declared and unique, types are equal, the number of subscripts is right, and
    subscripts that no condition guards are in range.

    The operands of a call must fit the parameters of its intrinsic. The program of an intrinsic is checked
    when it is declared.

    Raises:
        IrError: an invariant is violated; the message names the statement and the violation.
    """
    names = [buffer.name for buffer in func.params]
    if len(set(names)) < len(names):
        raise IrError(f"{func.name}: two parameters have the same name among {', '.join(names)}")
    _Checker({buffer.name: buffer for buffer in func.params}).statement(func.body)


class _Checker:
    """The checker, with the names in scope at the current statement.

    Attributes:
        buffers: buffers in scope, by name.
        ranges: ranges of the loop variables in scope, by name.
        intrinsics: intrinsics called so far, by name.
        guarded: an enclosing condition may keep subscripts in range, so their bounds are not checked.
    """

    def __init__(self, buffers: dict[str, Buffer]) -> None:
        self.buffers, self.guarded = buffers, False
        self.ranges: dict[str, Interval] = {}
        self.intrinsics: dict[str, Intrinsic] = {}

    @contextmanager
    def under_condition(self, holds: bool = True) -> Iterator[None]:
        """Set `guarded` inside the context, if `holds`."""
        before, self.guarded = self.guarded, self.guarded or holds
        yield
        self.guarded = before

    def statement(self, stmt: Stmt) -> None:
        """Check a statement and the statements below it. Raise IrError, as all methods do, for a fault."""
        match stmt:
            case Block(statements):
                for part in statements:
                    self.statement(part)
            case For(var, extent, body):
                if not isinstance(extent, int) or extent < 1:
                    text = f"loop {var.name} has extent {extent!r}; it must be at least 1"
                    raise IrError(f"{text}\n{print_stmt(stmt)}")
                self.with_variable("loop variable", var, Interval(0, extent - 1), body)
            case Let(var, value, body):
                self.expr(value)
                if value.dtype != INDEX:
                    raise IrError(f"variable {var.name} is {value.dtype}, not an index")
                self.with_variable("variable", var, bounds(value, self.ranges), body)
            case If(condition, body):
                self.condition(condition)
                with self.under_condition():
                    self.statement(body)
            case Alloc(buffer, body):
                if buffer.name in self.buffers:
                    raise IrError(f"buffer {buffer.name} is declared twice")
                self.buffers[buffer.name] = buffer
                self.statement(body)
                del self.buffers[buffer.name]
            case Write(buffer, indices, value):
                self.write(stmt, buffer, indices, value)
            case Call(intrinsic, operands):
                self.call(stmt, intrinsic, operands)

    def with_variable(self, what: str, var: Var, reach: Interval, body: Stmt) -> None:
        """Check statements in which a variable has a range of values."""
        if var.name in self.ranges or var.name in self.buffers:
            raise IrError(f"{what} {var.name} is declared twice")
        self.ranges[var.name] = reach
        self.statement(body)
        del self.ranges[var.name]

    def write(self, stmt: Write, buffer: Buffer, indices: tuple[Expr, ...], value: Expr) -> None:
        """Check subscripts and type of a value that is written."""
        self.subscripts(buffer, indices)
        self.expr(value)
        if value.dtype != buffer.dtype:
            raise IrError(
                f"{_text(stmt)}: the value is {value.dtype}, but {buffer.name} holds {buffer.dtype}"
            )

    # Calls

    def call(self, stmt: Call, intrinsic: Intrinsic, operands: tuple[Expr, ...]) -> None:
        """Check the number, the tiles and the types of operands of an intrinsic."""
        params = intrinsic.meaning.params
        if self.intrinsics.setdefault(intrinsic.name, intrinsic) != intrinsic:
            raise IrError(f"{_text(stmt)}: two intrinsics are called {intrinsic.name}")
        if len(operands) != len(params):
            raise IrError(
                f"{_text(stmt)}: {len(operands)} operands, but {intrinsic.name} takes "
                f"{', '.join(param.name for param in params)}"
            )
        for param, operand in zip(params, operands, strict=True):
            if is_tile(param):
                self.tile(stmt, param, operand)
            elif operand.dtype != param.dtype or (param.name == IMMEDIATE and not isinstance(operand, Const)):
                raise IrError(
                    f"{_text(stmt)}: {param.name} is {print_expr(operand)}, not a "
                    f"{'constant' if param.name == IMMEDIATE else 'condition'} "
                    f"of type {param.dtype}"
                )
            else:
                with self.under_condition():
                    self.expr(operand)

    def tile(self, stmt: Call, param: Buffer, operand: Expr) -> None:
        """Check the first element of a tile. It may be outside its buffer if the intrinsic accesses it only
        under a condition."""
        rank = len(param.shape)
        if not isinstance(operand, Read) or operand.indices[-rank:] != (ORIGIN,) * rank:
            raise IrError(
                f"{_text(stmt)}: {param.name} is {print_expr(operand)}, which is not the beginning of a tile"
            )
        buffer = operand.buffer
        if (buffer.dtype, buffer.shape[-rank:], buffer.scope) != (param.dtype, param.shape, param.scope):
            raise IrError(
                f"{_text(stmt)}: {buffer.name} holds {buffer.dtype}{list(buffer.shape[-rank:])} in "
                f"{buffer.scope.value}, "
                f"but {param.name} is {param.dtype}{list(param.shape)} in {param.scope.value}"
            )
        with self.under_condition(param.name not in stmt.intrinsic.certain):
            self.subscripts(buffer, operand.indices)

    # Expressions

    def condition(self, condition: Expr) -> None:
        """Check an expression that must be a truth value."""
        self.expr(condition)
        if condition.dtype != "bool":
            raise IrError(f"{print_expr(condition)} is {condition.dtype}, not a truth value")

    def expr(self, expr: Expr) -> None:
        """Check an expression: variables, subscripts and types."""
        match expr:
            case Const():
                return
            case Var(name):
                if name not in self.ranges:
                    raise IrError(f"variable {name} is used outside its loop")
            case Read(buffer, indices):
                self.subscripts(buffer, indices)
            case Select(condition, then, otherwise):
                self.condition(condition)
                with self.under_condition():
                    self.expr(then)
                    self.expr(otherwise)
            case Binary(op, left, right):
                self.operands(expr, op, left, right)
                self.expr(left)
                self.expr(right)
            case _:
                for part in expr.below():
                    self.expr(part)

    def operands(self, expr: Binary, op: str, left: Expr, right: Expr) -> None:
        """Check that an operator exists and takes operands of these types."""
        if op not in OPERATORS:
            raise IrError(f"{print_expr(expr)}: {op!r} is not an operator")
        if left.dtype != right.dtype or (op in LOGICAL and left.dtype != "bool"):
            raise IrError(f"{print_expr(expr)}: {op} has operands of types {left.dtype} and {right.dtype}")
        kinds = KINDS.get(op, ("whole", "float") if op in ARITHMETIC else ())
        if kinds and KIND_OF[left.dtype] not in kinds:
            raise IrError(
                f"{print_expr(expr)}: {op} is for {' and '.join(kinds)} numbers, not for {left.dtype}"
            )
        if op in ("//", "%") and isinstance(right, Const) and not wrap(right.value, right.dtype):
            raise IrError(f"{print_expr(expr)} divides by 0")

    def subscripts(self, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        """Check that a buffer is declared, and the number, types and ranges of its subscripts."""
        if self.buffers.get(buffer.name) != buffer:
            raise IrError(
                f"{_element(buffer, indices)}: buffer {buffer.name} is not declared here, or differently"
            )
        if len(indices) != len(buffer.shape):
            raise IrError(
                f"{_element(buffer, indices)} has {len(indices)} subscripts, but {buffer.name} has "
                f"{len(buffer.shape)} axes"
            )
        for axis, index in enumerate(indices):
            self.expr(index)
            if index.dtype != INDEX:
                raise IrError(f"{_element(buffer, indices)}: subscript {axis} is {index.dtype}, not an index")
            if not self.guarded:
                self.in_range(buffer, indices, axis)

    def in_range(self, buffer: Buffer, indices: tuple[Expr, ...], axis: int) -> None:
        """Check the range of a subscript. A subscript that depends on data has no known range."""
        index = indices[axis]
        if not isinstance(index, Const | Var) and reads(index):
            return
        reach = bounds(index, self.ranges)
        if reach.low < 0 or reach.high >= buffer.shape[axis]:
            raise IrError(
                f"{_element(buffer, indices)}: subscript {axis} runs from {reach.low} to {reach.high}, "
                f"but the axis has {buffer.shape[axis]} elements"
            )


def _text(stmt: Stmt) -> str:
    return print_stmt(stmt).strip()


def _element(buffer: Buffer, indices: tuple[Expr, ...]) -> str:
    return print_expr(Read(buffer, indices))
