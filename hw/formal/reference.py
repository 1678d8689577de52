"""`vdla.hw.spec.numerics` over signals: the same source text, evaluated on numbers that are signals.

The reference of a proof is therefore the definition itself. A `Number` is exact, as Python's integers are: it
knows the range of its values, and a result has as many bits as its range needs. What Python decides at run
time becomes a choice of two values: a conditional expression, and an `if` that returns before a `return`.
"""

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from types import SimpleNamespace
from typing import Any, Union

from amaranth.hdl import Const, Mux, Value, signed, unsigned

from vdla.hw.spec import numerics

Operand = Union["Number", int]

HALF = 16
"""Factors of more bits than that are split into their low bits and the others: x * y is low * y plus high * y
moved by HALF, because multiplication distributes over addition."""


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A signal as an integer.

    Attributes:
        value: the signal.
        low, high: its least and its greatest value.
    """

    value: Value
    low: int
    high: int

    def __add__(self, other: Operand) -> "Number":
        other = number(other)
        return _fitted(self.value + other.value, self.low + other.low, self.high + other.high)

    __radd__ = __add__

    def __neg__(self) -> "Number":
        return _fitted(-self.value, -self.high, -self.low)

    def __sub__(self, other: Operand) -> "Number":
        return self + -number(other)

    def __mul__(self, other: Operand) -> "Number":
        other = number(other)
        if len(self.value) > HALF + 1:
            upper = _fitted(self.value[HALF:].as_signed(), self.low >> HALF, self.high >> HALF)
            lower = _fitted(self.value[:HALF], 0, (1 << HALF) - 1)
            return lower * other + (upper * other << HALF)
        corners = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return _fitted(self.value * other.value, min(corners), max(corners))

    def __and__(self, other: Operand) -> "Number":
        other = number(other)
        tops = [one.high for one in (self, other) if one.low >= 0]
        if not tops:
            return _bitwise(self, other, self.value & other.value)
        return _fitted(self.value & other.value, 0, min(tops))

    def __or__(self, other: Operand) -> "Number":
        return _bitwise(self, number(other), self.value | number(other).value)

    def __xor__(self, other: Operand) -> "Number":
        return _bitwise(self, number(other), self.value ^ number(other).value)

    def __rshift__(self, amount: Operand) -> "Number":
        amount, ends = _amount(amount)
        results = [end >> by for end in (self.low, self.high) for by in ends]
        return _fitted(self.value >> amount, min(results), max(results))

    def __lshift__(self, amount: Operand) -> "Number":
        amount, ends = _amount(amount)
        results = [end << by for end in (self.low, self.high) for by in ends]
        return _fitted(self.value << amount, min(results), max(results))

    def __rlshift__(self, other: int) -> "Number":
        return number(other) << self

    def __ge__(self, other: Operand) -> "Number":
        return Number(self.value >= number(other).value, 0, 1)


def number(value: Operand | Value) -> Number:
    """Return an integer or a signal, which may have any value of its shape, as a number."""
    if isinstance(value, Number):
        return value
    if isinstance(value, int):
        return Number(Const(value), value, value)
    value = Value.cast(value)
    bits, is_signed = value.shape().width, value.shape().signed
    return Number(value, -(1 << bits - 1) if is_signed else 0, (1 << bits - is_signed) - 1)


def choose(condition: Operand, one: Operand, other: Operand) -> Number:
    """Return `one` where `condition` is not 0, else `other`."""
    one, other = number(one), number(other)
    chosen = Mux(number(condition).value.bool(), one.value, other.value)
    return _fitted(chosen, min(one.low, other.low), max(one.high, other.high))


def least(*numbers: Operand) -> Number:
    """Return the least number."""

    def lesser(one: Number, other: Number) -> Number:
        chosen = Mux(one.value < other.value, one.value, other.value)
        return _fitted(chosen, min(one.low, other.low), min(one.high, other.high))

    return reduce(lesser, map(number, numbers))


def greatest(*numbers: Operand) -> Number:
    """Return the greatest number."""

    def greater(one: Number, other: Number) -> Number:
        chosen = Mux(one.value > other.value, one.value, other.value)
        return _fitted(chosen, max(one.low, other.low), max(one.high, other.high))

    return reduce(greater, map(number, numbers))


def _fitted(value: Value, low: int, high: int) -> Number:
    """Return a value of a range, with as many bits as the range needs."""
    bits = max(high.bit_length(), (~low).bit_length() if low < 0 else 0)
    shape = signed(bits + 1) if low < 0 else unsigned(bits)
    if len(value) < shape.width:
        value = value | Const(0, shape) if shape.signed else (value | Const(0, shape.width))
    cut = value[: shape.width]
    return Number(cut.as_signed() if shape.signed else cut.as_unsigned(), low, high)


def _bitwise(one: Number, other: Number, value: Value) -> Number:
    """Return the result of an operation on bits, which has the range of its bits."""
    bits = max(abs(end).bit_length() for end in (one.low, one.high, other.low, other.high))
    return _fitted(value, -(1 << bits) if min(one.low, other.low) < 0 else 0, (1 << bits) - 1)


def _amount(amount: Operand) -> tuple[Value, tuple[int, int]]:
    """Return how far to shift, and its least and greatest value.

    A shift by a negative number is an error in Python, and never chosen. The bits that numbers from 0 on have
    are taken.
    """
    amount = number(amount)
    ends = max(0, amount.low), max(0, amount.high)
    return amount.value[: max(1, ends[1].bit_length())].as_unsigned(), ends


class _Choices(ast.NodeTransformer):
    """Turns decisions into calls of `choose`."""

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        return _call(node.test, node.body, node.orelse)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        while len(node.body) > 1 and isinstance(branch := node.body[-2], ast.If):
            (early,), last = branch.body, node.body[-1]
            assert isinstance(early, ast.Return)
            assert isinstance(last, ast.Return)
            assert not branch.orelse
            assert early.value
            assert last.value
            node.body[-2:] = [ast.Return(_call(branch.test, early.value, last.value))]
        return node


def _call(test: ast.expr, one: ast.expr, other: ast.expr) -> ast.Call:
    return ast.Call(ast.Name("choose", ast.Load()), [test, one, other], [])


def _same(value: Any) -> Any:
    return value


def evaluated(text: str) -> SimpleNamespace:
    """Return what a source text like the text of `numerics` defines, over numbers."""
    tree = ast.fix_missing_locations(_Choices().visit(ast.parse(text)))
    names: dict[str, Callable[..., Any]] = {"choose": choose, "min": least, "max": greatest, "int": _same}
    namespace: dict[str, Any] = {"__name__": numerics.__name__, **names}
    exec(compile(tree, str(numerics.__file__), "exec"), namespace)
    return SimpleNamespace(**namespace)


def symbolic(fits: list[Value]) -> SimpleNamespace:
    """Return the definitions of `numerics` over numbers.

    Ranges alone do not tell that what `wrap` returns has as many bits as it is asked for. The reference takes
    it with so many bits, so that multipliers have the widths of the hardware's.

    Args:
        fits: takes the claims that this changes no result.
    """
    names = evaluated(inspect.getsource(numerics))
    whole = names.wrap

    def wrap(value: Number, bits: int) -> Number:
        result: Number = whole(value, bits)
        cut = _fitted(result.value, -(1 << bits - 1), (1 << bits - 1) - 1)
        fits.append(cut.value == result.value)
        return cut

    names.alu.__globals__["wrap"] = wrap
    return names
