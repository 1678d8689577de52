"""Affine forms of index expressions: a constant and a coefficient for each variable."""

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.compiler.ir.nodes import Binary, Const, Expr, Select, Var
from vdla.compiler.ir.rewrite import Node, Part, with_below
from vdla.compiler.ir.types import INDEX


@dataclass(frozen=True, slots=True)
class Affine:
    """`constant + sum(coefficient * variable)`; `terms` has no coefficient 0.

    A term's variable is a loop variable, or an expression that is not affine itself (a division, say) and is
    treated as one.
    """

    terms: tuple[tuple[Expr, int], ...]
    constant: int

    def coefficient(self, name: str) -> int:
        """Return the coefficient of the loop variable `name`."""
        return next((factor for atom, factor in self.terms if isinstance(atom, Var) and atom.name == name), 0)

    @property
    def is_constant(self) -> bool:
        """Whether there are no terms."""
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


def affine(expr: Expr) -> Affine:
    """Return the affine form of an index expression; what is not affine becomes a variable of its own."""
    if isinstance(expr, Var):
        return Affine(((expr, 1),), 0)
    if isinstance(expr, Const):
        return Affine((), int(expr.value))
    terms: dict[Expr, int] = {}
    constant = _collect(expr, 1, terms)
    return Affine(tuple((atom, factor) for atom, factor in terms.items() if factor), constant)


def _collect(expr: Expr, factor: int, terms: dict[Expr, int]) -> int:
    """Add `factor * expr` to `terms`; return its constant part."""
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


def _collect_division(op: str, left: Affine, divisor: int, factor: int, terms: dict[Expr, int]) -> int:
    """Divide the part that `divisor` divides; the rest stays as it is, if anything is left of it."""
    whole = tuple((atom, coefficient) for atom, coefficient in left.terms if coefficient % divisor == 0)
    rest = Affine(tuple(term for term in left.terms if term not in whole), left.constant)
    quotient, remainder = divmod(rest.constant, divisor) if rest.is_constant else (0, 0)
    if op == "//":
        for atom, coefficient in whole:
            terms[atom] = terms.get(atom, 0) + factor * (coefficient // divisor)
    if rest.is_constant:
        return factor * (quotient if op == "//" else remainder)
    atom = Binary(op, rest.expr(), Const(divisor))
    terms[atom] = terms.get(atom, 0) + factor
    return 0


@dataclass(frozen=True, slots=True)
class Interval:
    """All whole numbers from `low` to `high`."""

    low: int
    high: int


def bounds(expr: Expr, ranges: Mapping[str, Interval]) -> Interval:
    """Return an interval that holds every value of an index expression whose variables lie in `ranges`."""
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
            one, other = bounds(left, ranges), bounds(right, ranges)
            choose = min if op == "min" else max
            return Interval(choose(one.low, other.low), choose(one.high, other.high))
        case Select(_, then, otherwise):
            one, other = bounds(then, ranges), bounds(otherwise, ranges)
            return Interval(min(one.low, other.low), max(one.high, other.high))
    return Interval(-(1 << 62), 1 << 62)


def simplify(node: Part) -> Part:
    """Return `node` with index arithmetic in affine form, constants folded and decided branches taken."""
    if isinstance(node, Binary) and _is_arithmetic(node):
        return _canonical(node).expr()
    below = node.below()
    return _folded(with_below(node, below, [simplify(part) for part in below])) if below else node


def _is_arithmetic(node: Node) -> bool:
    """Whether a node is arithmetic on indices, so that it has an affine form."""
    return isinstance(node, Binary) and node.op in ("+", "-", "*", "//", "%") and node.left.dtype == INDEX


def _canonical(expr: Expr) -> Affine:
    """Return the affine form of an index expression whose terms are simplified, positive ones first."""
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
            return _sorted(Affine(tuple(terms.items()), constant))
    return Affine(((Binary(expr.op, left.expr(), right.expr()), 1),), 0)


def _sum(left: Affine, right: Affine, factor: int) -> Affine:
    """Return `left + factor * right`."""
    terms = dict(left.terms)
    for atom, coefficient in right.terms:
        terms[atom] = terms.get(atom, 0) + factor * coefficient
    return Affine(tuple(term for term in terms.items() if term[1]), left.constant + factor * right.constant)


def _multiple(form: Affine, factor: int) -> Affine:
    """Return `factor * form`."""
    return Affine(
        tuple((atom, factor * coefficient) for atom, coefficient in form.terms if factor),
        factor * form.constant,
    )


def _sorted(form: Affine) -> Affine:
    """Return a form as its expression reads: positive terms first."""
    if len(form.terms) < 2:
        return form
    return Affine(tuple(sorted(form.terms, key=lambda term: term[1] < 0)), form.constant)


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
        case Binary("and", Const(True), other) | Binary("and", other, Const(True)):
            return other
        case Select(Const() as condition, then, otherwise):
            return then if condition.value else otherwise
    return part


def decided(condition: Expr, ranges: Mapping[str, Interval]) -> bool | None:
    """Return whether a comparison of indices always or never holds in `ranges`; None where that is open."""
    match condition:
        case Binary("<" | "<=" as op, left, right) if left.dtype == "index":
            gap = bounds(left - right, ranges)
            limit = -1 if op == "<" else 0
            return True if gap.high <= limit else False if gap.low > limit else None
        case Binary("and", left, right):
            one, other = decided(left, ranges), decided(right, ranges)
            return False if False in (one, other) else True if one and other else None
    return None
