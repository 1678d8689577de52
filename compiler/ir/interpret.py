"""The interpreter, which defines the semantics of loop programs."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vdla.compiler.ir.calls import Call, meaning_of
from vdla.compiler.ir.nodes import (
    Alloc,
    Binary,
    Block,
    Buffer,
    Cast,
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
from vdla.compiler.ir.text import print_expr
from vdla.compiler.ir.types import DTYPES, wrap

Arrays = dict[str, np.ndarray]
Values = dict[str, int]


def interpret(func: Func, arguments: Mapping[str, np.ndarray]) -> None:
    """Run a program on an array per parameter; arrays are changed in place.

    Elements of allocated buffers are initially 0.

    Raises:
        IrError: an array is missing or has another shape or type, a subscript is out of range, or an integer
            is divided by 0.
    """
    execute(func.body, _bound_arrays(func, arguments), {})


def _bound_arrays(func: Func, arguments: Mapping[str, np.ndarray]) -> Arrays:
    """Return the array of each parameter.

    Raises:
        IrError: an array is missing, or has another shape or type.
    """
    arrays: Arrays = {}
    for buffer in func.params:
        array = arguments.get(buffer.name)
        if array is None:
            raise IrError(
                f"{func.name} needs an array {buffer.name}; it was given {', '.join(arguments) or 'none'}"
            )
        if array.shape != buffer.shape or array.dtype != DTYPES[buffer.dtype].numpy:
            raise IrError(
                f"{func.name}: {buffer.name} is {array.dtype}{list(array.shape)}, not "
                f"{buffer.dtype}{list(buffer.shape)}"
            )
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
        case Let(var, value, body):
            execute(body, arrays, {**values, var.name: int(evaluate(value, arrays, values))})
        case If(condition, body):
            if evaluate(condition, arrays, values):
                execute(body, arrays, values)
        case Alloc(buffer, body):
            execute(body, {**arrays, buffer.name: np.zeros(buffer.shape, DTYPES[buffer.dtype].numpy)}, values)
        case Call():
            execute(meaning_of(stmt), arrays, values)
        case Write(buffer, indices, value):
            arrays[buffer.name][_place(buffer, indices, arrays, values)] = evaluate(value, arrays, values)


def evaluate(expr: Expr, arrays: Arrays, values: Values) -> int | float | bool:
    """Return the value of an expression.

    Raises:
        IrError: a subscript is out of range, or an integer is divided by 0.
    """
    match expr:
        case Const(value, dtype):
            return wrap(value, dtype)
        case Var(name):
            return values[name]
        case Read(buffer, indices):
            element: int | float | bool = arrays[buffer.name][_place(buffer, indices, arrays, values)].item()
            return element
        case Cast(dtype, value):
            return wrap(evaluate(value, arrays, values), dtype)
        case Select(condition, then, otherwise):
            return evaluate(then if evaluate(condition, arrays, values) else otherwise, arrays, values)
        case Binary("//" | "%", left, right):
            return _divided(expr, evaluate(left, arrays, values), evaluate(right, arrays, values), values)
        case Binary(op, left, right):
            return operate(op, evaluate(left, arrays, values), evaluate(right, arrays, values), left.dtype)
    raise AssertionError(expr)


def _place(buffer: Buffer, indices: tuple[Expr, ...], arrays: Arrays, values: Values) -> tuple[int, ...]:
    place = tuple(int(evaluate(index, arrays, values)) for index in indices)
    for axis, (index, extent) in enumerate(zip(place, buffer.shape, strict=True)):
        if not 0 <= index < extent:
            raise IrError(
                f"{buffer.name}[{', '.join(map(str, place))}] is out of range: axis {axis} has {extent} "
                "elements"
            )
    return place


def _divided(expr: Binary, left: int | float, right: int | float, values: Values) -> int | float | bool:
    """Return `left // right` or `left % right`.

    Raises:
        IrError: `right` is 0.
    """
    if not right:
        where = ", ".join(f"{name} = {value}" for name, value in values.items())
        raise IrError(f"{print_expr(expr)} divides {left} by 0" + (f" at {where}" if where else ""))
    return operate(expr.op, left, right, expr.left.dtype)


def _quotient(left: float, right: float) -> float:
    """Return `left / right` by IEEE 754: infinite or NaN if `right` is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return float(np.float64(left) / np.float64(right))


def _shifted(value: int, places: int) -> int:
    """Return `value` shifted left by `places`, or right if `places` is negative. A shift by more than 64
    places is computed as a shift by 64."""
    return value << min(places, 64) if places >= 0 else value >> min(-places, 64)


OPERATIONS: dict[str, Callable[[Any, Any], int | float | bool]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "/": _quotient,
    "min": min,
    "max": max,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    ">>": lambda a, b: _shifted(a, -b),
    "<<": _shifted,
}


def operate(op: str, left: int | float | bool, right: int | float | bool, dtype: str) -> int | float | bool:
    """Return `left op right` for operands of `dtype`; a negative shift amount reverses the direction."""
    result = OPERATIONS[op](left, right)
    return result if isinstance(result, bool) else wrap(result, dtype)
