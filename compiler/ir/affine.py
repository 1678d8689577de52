"""Affine forms of index expressions: a constant and a coefficient per variable."""

from collections.abc import Mapping
from typing import NamedTuple

from vdla.compiler.ir.nodes import Binary, Const, Expr, Select, Var
from vdla.compiler.ir.rewrite import Node, Part, with_below
from vdla.compiler.ir.types import INDEX


class AffineForm(NamedTuple):
    """`constant + sum(coefficient * variable)`; no coefficient in `terms` is 0.

    The variable of a term is a loop variable, or a non-affine expression (a division, for example) that is
    treated as a variable.
    """

    terms: tuple[tuple[Expr, int], ...]
    constant: int

    def coefficient(self, name: str) -> int:
        """Return the coefficient of the loop variable `name`."""
        return next((factor for atom, factor in self.terms if isinstance(atom, Var) and atom.name == name), 0)

    @property
    def is_constant(self) -> bool:
        """Whether the form has no terms."""
        return not self.terms

    def expr(self) -> Expr:
        """Return the form as an expression, positive terms first."""
        result: Expr | None = None
        for atom, factor in sorted(self.terms, key=lambda term: term[1] < 0):
            part = atom if abs(factor) == 1 else Binary("*", atom, Const(abs(factor)))
            if result is None:
                result = part if factor > 0 else Binary("-", Const(0), part)
            else:
                result = Binary("+" if factor > 0 else "-", result, part)
        if result is None:
            return Const(self.constant)
        if self.constant:
            result = Binary("+" if self.constant > 0 else "-", result, Const(abs(self.constant)))
        return result


def affine(expr: Expr) -> AffineForm:
    """Return the affine form of an index expression; non-affine parts become variables."""
    if isinstance(expr, Var):
        return AffineForm(((expr, 1),), 0)
    if isinstance(expr, Const):
        return AffineForm((), int(expr.value))
    terms: dict[Expr, int] = {}
    constant = _collect(expr, 1, terms)
    return AffineForm(tuple((atom, factor) for atom, factor in terms.items() if factor), constant)


def _collect(expr: Expr, factor: int, terms: dict[Expr, int]) -> int:
    """Add the terms of `factor * expr` to `terms`; return the constant of `factor * expr`."""
    match expr:
        case Const():
            return factor * int(expr.value)
        case Binary("+" | "-" as op, left, right):
            return _collect(left, factor, terms) + _collect(right, factor if op == "+" else -factor, terms)
        case Binary("*", left, Const() as right) | Binary("*", Const() as right, left):
            return _collect(left, factor * int(right.value), terms)
        case Binary("//" | "%" as op, left, Const() as right) if right.value > 0:
            return _collect_division(op, affine(left), int(right.value), factor, terms)
    terms[expr] = terms.get(expr, 0) + factor
    return 0


def _collect_division(op: str, left: AffineForm, divisor: int, factor: int, terms: dict[Expr, int]) -> int:
    """Add the terms of `factor * (left op divisor)` to `terms`; return its constant.

    Terms with a coefficient that `divisor` divides are divided; the remaining terms stay below a division.
    """
    whole = tuple((atom, coefficient) for atom, coefficient in left.terms if coefficient % divisor == 0)
    rest = AffineForm(tuple(term for term in left.terms if term not in whole), left.constant)
    quotient, remainder = divmod(rest.constant, divisor) if rest.is_constant else (0, 0)
    if op == "//":
        for atom, coefficient in whole:
            terms[atom] = terms.get(atom, 0) + factor * (coefficient // divisor)
    if rest.is_constant:
        return factor * (quotient if op == "//" else remainder)
    atom = Binary(op, rest.expr(), Const(divisor))
    terms[atom] = terms.get(atom, 0) + factor
    return 0


class Interval(NamedTuple):
    """All whole numbers from `low` to `high`, inclusive."""

    low: int
    high: int


def bounds(expr: Expr, ranges: Mapping[str, Interval]) -> Interval:
    """Return an interval that contains every value of an index expression with variables in `ranges`."""
    if isinstance(expr, Var):
        return ranges[expr.name]
    form = affine(expr)
    low = high = form.constant
    for atom, factor in form.terms:
        inner = _atom_bounds(atom, ranges)
        least, greatest = (inner.low, inner.high) if factor > 0 else (inner.high, inner.low)
        low, high = low + factor * least, high + factor * greatest
    return Interval(low, high)


def _atom_bounds(atom: Expr, ranges: Mapping[str, Interval]) -> Interval:
    match atom:
        case Var():
            return ranges[atom.name]
        case Binary("//", left, Const() as divisor) if divisor.value > 0:
            inner = bounds(left, ranges)
            return Interval(inner.low // int(divisor.value), inner.high // int(divisor.value))
        case Binary("%", left, Const() as divisor) if divisor.value > 0:
            inner, size = bounds(left, ranges), int(divisor.value)
            fits = inner.low // size == inner.high // size
            return Interval(inner.low % size, inner.high % size) if fits else Interval(0, size - 1)
        case Binary("min" | "max" as op, left, right):
            first, second = bounds(left, ranges), bounds(right, ranges)
            choose = min if op == "min" else max
            return Interval(choose(first.low, second.low), choose(first.high, second.high))
        case Select(_, then, otherwise):
            first, second = bounds(then, ranges), bounds(otherwise, ranges)
            return Interval(min(first.low, second.low), max(first.high, second.high))
    return Interval(-(1 << 62), 1 << 62)


def simplify(node: Part) -> Part:
    """Return `node` with index arithmetic in affine form, and constants and constant conditions folded."""
    if isinstance(node, Binary) and _is_arithmetic(node):
        return _canonical(node).expr()
    below = node.below()
    return _folded(with_below(node, below, [simplify(part) for part in below])) if below else node


def _is_arithmetic(node: Node) -> bool:
    """Whether a node is arithmetic on indices, which has an affine form."""
    return isinstance(node, Binary) and node.op in ("+", "-", "*", "//", "%") and node.left.dtype == INDEX


def _canonical(expr: Expr) -> AffineForm:
    """Return the affine form of an index expression with simplified terms, positive terms first."""
    if isinstance(expr, (Var, Const)):
        return affine(expr)
    if not _is_arithmetic(expr):
        return _sorted(affine(simplify(expr)))
    assert isinstance(expr, Binary)
    left, right = _canonical(expr.left), _canonical(expr.right)
    match expr.op:
        case "+" | "-" as op:
            return _sorted(_sum(left, right, 1 if op == "+" else -1))
        case "*" if right.is_constant:
            return _sorted(_multiple(left, right.constant))
        case "*" if left.is_constant:
            return _sorted(_multiple(right, left.constant))
        case "//" | "%" as op if right.is_constant and right.constant > 0:
            terms: dict[Expr, int] = {}
            constant = _collect_division(op, left, right.constant, 1, terms)
            return _sorted(AffineForm(tuple(terms.items()), constant))
    return AffineForm(((Binary(expr.op, left.expr(), right.expr()), 1),), 0)


def _sum(left: AffineForm, right: AffineForm, factor: int) -> AffineForm:
    """Return `left + factor * right`."""
    if right.is_constant:
        return AffineForm(left.terms, left.constant + factor * right.constant)
    terms = dict(left.terms)
    for atom, coefficient in right.terms:
        terms[atom] = terms.get(atom, 0) + factor * coefficient
    return AffineForm(
        tuple(term for term in terms.items() if term[1]), left.constant + factor * right.constant
    )


def _multiple(form: AffineForm, factor: int) -> AffineForm:
    """Return `factor * form`."""
    return AffineForm(
        tuple((atom, factor * coefficient) for atom, coefficient in form.terms if factor),
        factor * form.constant,
    )


def _sorted(form: AffineForm) -> AffineForm:
    """Return a form in the order of its printed expression: positive terms first."""
    if len(form.terms) < 2:
        return form
    return AffineForm(tuple(sorted(form.terms, key=lambda term: term[1] < 0)), form.constant)


def _folded(part: Part) -> Part:
    match part:
        case Binary("<" | "<=" | "==" as op, Const() as left, Const() as right):
            return Const(
                {
                    "<": left.value < right.value,
                    "<=": left.value <= right.value,
                    "==": left.value == right.value,
                }[op],
                "bool",
            )
        case Binary("and", Const(True), operand) | Binary("and", operand, Const(True)):
            return operand
        case Select(Const() as condition, then, otherwise):
            return then if condition.value else otherwise
    return part


def decide(condition: Expr, ranges: Mapping[str, Interval]) -> bool | None:
    """Return whether a comparison of indices always (True) or never (False) holds in `ranges`; None if it
    depends on the variables."""
    match condition:
        case Binary("<" | "<=" as op, left, right) if left.dtype == "index":
            gap = bounds(left - right, ranges)
            limit = -1 if op == "<" else 0
            return True if gap.high <= limit else False if gap.low > limit else None
        case Binary("and", left, right):
            first, second = decide(left, ranges), decide(right, ranges)
            return False if False in (first, second) else True if first and second else None
    return None
