"""The interpreter: what a loop program means, one operation after another."""

from collections.abc import Callable, Mapping

import numpy as np

from vdla.compiler.ir.nodes import (
    Alloc,
    Binary,
    Block,
    Call,
    Cast,
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
from vdla.compiler.ir.types import DTYPES, wrap

Arrays = dict[str, np.ndarray]
Values = dict[str, int]


def interpret(func: Func, arguments: Mapping[str, np.ndarray]) -> None:
    """Run a program on arrays, one for each parameter, which it changes in place.

    Elements of its own buffers start as 0.

    Raises:
        IrError: an array is missing or has another shape or type, or a subscript is out of range.
    """
    execute(func.body, bound_arrays(func, arguments), {})


def bound_arrays(func: Func, arguments: Mapping[str, np.ndarray], *, contiguous: bool = False) -> Arrays:
    """Return the array of each parameter.

    Raises:
        IrError: one is missing, has another shape or type, or is not contiguous where that is needed.
    """
    arrays: Arrays = {}
    for buffer in func.params:
        array = arguments.get(buffer.name)
        if array is None:
            raise IrError(f"{func.name} needs an array {buffer.name}; it was given {', '.join(arguments) or 'none'}")
        if array.shape != buffer.shape or array.dtype != DTYPES[buffer.dtype].numpy:
            raise IrError(f"{func.name}: {buffer.name} is {array.dtype}{list(array.shape)}, not {buffer.dtype}{list(buffer.shape)}")
        if contiguous and not array.flags.c_contiguous:
            raise IrError(f"{func.name}: {buffer.name} is not contiguous; pass np.ascontiguousarray of it")
        arrays[buffer.name] = array
    return arrays


def execute(stmt: Stmt, arrays: Arrays, values: Values) -> None:
    """Run a statement with the given arrays and loop variables."""
    match stmt:
        case Block(statements):
            for part in statements:
                execute(part, arrays, values)
        case For(var, extent, body):
            for value in range(extent):
                execute(body, arrays, {**values, var.name: value})
        case If(condition, body):
            if evaluate(condition, arrays, values):
                execute(body, arrays, values)
        case Alloc(buffer, body):
            execute(body, {**arrays, buffer.name: np.zeros(buffer.shape, DTYPES[buffer.dtype].numpy)}, values)
        case Call(_, _, meaning):
            execute(meaning, arrays, values)
        case Write(buffer, indices, value):
            arrays[buffer.name][_place(buffer, indices, arrays, values)] = evaluate(value, arrays, values)


def evaluate(expr: Expr, arrays: Arrays, values: Values) -> int | float | bool:
    """Return the value of an expression."""
    match expr:
        case Const(value, dtype):
            return wrap(value, dtype)
        case Var(name):
            return values[name]
        case Read(buffer, indices):
            return arrays[buffer.name][_place(buffer, indices, arrays, values)].item()
        case Cast(dtype, value):
            return convert(evaluate(value, arrays, values), dtype)
        case Select(condition, then, otherwise):
            return evaluate(then if evaluate(condition, arrays, values) else otherwise, arrays, values)
        case Binary(op, left, right):
            return operate(op, evaluate(left, arrays, values), evaluate(right, arrays, values), left.dtype)
    raise AssertionError(expr)


def _place(buffer, indices: tuple[Expr, ...], arrays: Arrays, values: Values) -> tuple[int, ...]:
    place = tuple(evaluate(index, arrays, values) for index in indices)
    for axis, (index, extent) in enumerate(zip(place, buffer.shape, strict=True)):
        if not 0 <= index < extent:
            raise IrError(f"{buffer.name}[{', '.join(map(str, place))}] is out of range: axis {axis} has {extent} elements")
    return place


def convert(value: int | float | bool, dtype: str) -> int | float | bool:
    """Return `value` as `dtype`: what Cast does."""
    if isinstance(value, float) and not DTYPES[dtype].is_float and dtype != "bool":
        value = int(np.rint(value))
    return wrap(value, dtype)


OPERATIONS: dict[str, Callable] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": lambda a, b: a // b, "%": lambda a, b: a % b,
    "/": lambda a, b: a / b, "min": min, "max": max, "and": lambda a, b: a and b, "or": lambda a, b: a or b,
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, "==": lambda a, b: a == b,
    ">>": lambda a, b: a >> b if b >= 0 else a << -b, "<<": lambda a, b: a << b if b >= 0 else a >> -b,
}


def operate(op: str, left: int | float | bool, right: int | float | bool, dtype: str) -> int | float | bool:
    """Return `left op right` for operands of `dtype`; a shift by a negative amount shifts the other way."""
    result = OPERATIONS[op](left, right)
    return result if isinstance(result, bool) else wrap(result, dtype)
