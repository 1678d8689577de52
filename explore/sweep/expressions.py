"""Arithmetic expressions over parameters, in Python's syntax, evaluated without Python's `eval`.

Numbers, names of parameters (`block_in`, `memory.latency`), `KiB` and `MiB`; + - * / // % **, comparisons,
`and`, `or`, `not`, `A if C else B`; min, max, abs, ceil, floor, round and log2.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vdla.explore.sweep.errors import SweepError
from vdla.hw.spec.python_text import expression_of
from vdla.hw.spec.showing import shown

Number = int | float
LONGEST = 1000
MOST_BITS = 128
"""Of a whole number: of a number in the text, of a parameter's value, and of a result."""
MOST_DIGITS = 40
"""To which a number is rounded, before or behind the point."""
CONSTANTS: Mapping[str, Number] = {"KiB": 1 << 10, "MiB": 1 << 20}


class _Refused(Exception):
    """An expression that cannot be evaluated, and why."""


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and abs(exponent) * max(base.bit_length(), 1) > MOST_BITS:
        raise _Refused(f"{base} ** {exponent} is too large")
    result: Number = base**exponent
    return result


def _round(value: Number, digits: Number = 0) -> Number:
    if not isinstance(digits, int) or abs(digits) > MOST_DIGITS:
        raise _Refused(f"round takes whole numbers of digits in -{MOST_DIGITS}..{MOST_DIGITS}, not {digits}")
    return round(value, digits) if digits else round(value)


def _least(*values: Number) -> Number:
    return min(_several("min", values))


def _greatest(*values: Number) -> Number:
    return max(_several("max", values))


def _several(name: str, values: tuple[Number, ...]) -> tuple[Number, ...]:
    if len(values) == 1:
        raise _Refused(f"{name} takes two or more values, not one")
    return values


BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
UNARY: Mapping[type[ast.unaryop], Callable[[Any], Number]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}
COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "min": _least,
    "max": _greatest,
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "round": _round,
    "log2": math.log2,
}


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was read.

    Attributes:
        text: as it was written.
        tree: its syntax tree.
        names: of the parameters that it reads.
        size: how many operations, numbers and names it has.
    """

    text: str
    tree: ast.expr
    names: frozenset[str]
    size: int

    def value(self, values: Mapping[str, Number | str]) -> Number:
        """Return its value.

        Args:
            values: of every parameter in `names`.

        Raises:
            SweepError: it has no value, as in a division by zero, or its value is beyond MOST_BITS.
        """
        try:
            value: Number = _value(self.tree, values)
        except (_Refused, ArithmeticError, TypeError, ValueError, RecursionError) as error:
            where = ", ".join(f"{name} = {shown(values[name])}" for name in sorted(self.names))
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise SweepError(
                f"expression {shown(self.text)} has no value{' for ' + where if where else ''}: {reason}"
            ) from error
        return value


def parse(text: str) -> Expression:
    """Read an expression.

    Raises:
        SweepError: it is too long, not an expression, or uses more than this module's docstring allows.
    """
    if len(text) > LONGEST:
        raise SweepError(f"expression {shown(text)} has {len(text)} characters; at most {LONGEST} are read")
    try:
        tree = expression_of(text.strip())
        names = frozenset(_names(tree))
    except _Refused as error:
        raise SweepError(f"expression {shown(text)}: {error}") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or "it is nested too deeply"
        raise SweepError(f"expression {shown(text)} cannot be read: {reason}") from None
    size = sum(isinstance(node, ast.expr) for node in ast.walk(tree))
    return Expression(text, tree, names, size)


def _names(node: ast.expr) -> set[str]:
    """Return the names of parameters that a tree reads; refuse what is not arithmetic."""
    match node:
        case ast.Constant(value=int() | float() as value):
            _bounded(value)
            return set()
        case ast.Name(id=name):
            return set() if name in CONSTANTS else {name}
        case ast.Attribute(value=ast.Name(id=table), attr=name):
            return {f"{table}.{name}"}
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as parts, keywords=[]) if name in FUNCTIONS:
            pass
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
            parts = [left, right]
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in UNARY:
            parts = [operand]
        case ast.BoolOp(values=parts):
            pass
        case ast.Compare(left=left, ops=ops, comparators=others) if all(
            type(op) in COMPARISONS for op in ops
        ):
            parts = [left, *others]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            parts = [test, body, orelse]
        case _:
            raise _Refused(
                f"{shown(ast.unparse(node))} is not allowed; there are numbers, names of parameters, "
                f"+ - * / // % **, comparisons, and, or, not, if else, {', '.join((*FUNCTIONS, *CONSTANTS))}"
            )
    return set().union(*map(_names, parts))


def _value(node: ast.expr, values: Mapping[str, Number | str]) -> Any:
    """Return the value of a tree that `_names` has allowed."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return CONSTANTS[name] if name in CONSTANTS else _number(name, values)
        case ast.Attribute(value=ast.Name(id=table), attr=name):
            return _number(f"{table}.{name}", values)
        case ast.Call(func=ast.Name(id=name), args=parts):
            return _bounded(FUNCTIONS[name](*(_value(part, values) for part in parts)))
        case ast.BinOp(left=left, op=op, right=right):
            return _bounded(BINARY[type(op)](_value(left, values), _value(right, values)))
        case ast.UnaryOp(op=sign, operand=operand):
            return UNARY[type(sign)](_value(operand, values))
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, values) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_value(part, values) for part in parts)
        case ast.Compare(left=left, ops=ops, comparators=others):
            operands = [_value(part, values) for part in (left, *others)]
            return all(
                COMPARISONS[type(op)](a, b) for op, a, b in zip(ops, operands[:-1], operands[1:], strict=True)
            )
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, values) else orelse, values)
    raise AssertionError(f"{ast.dump(node)} was allowed and has no meaning")


def _number(name: str, values: Mapping[str, Number | str]) -> Number:
    """Return the value of a parameter, which must be a number: Python repeats a text that is multiplied."""
    value = values[name]
    if isinstance(value, str):
        raise _Refused(f"{name} is text; expressions are over numbers")
    return _bounded(value)


def _bounded(value: Number) -> Number:
    if isinstance(value, complex) or (isinstance(value, float) and not math.isfinite(value)):
        raise _Refused(f"{value} is not a finite real number")
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise _Refused(f"a result needs more than {MOST_BITS} bits")
    return value
