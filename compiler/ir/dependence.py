"""Whether the iterations of a loop may run in any order, or at once: no element that one writes is touched by
another."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vdla.compiler.ir.affine import Affine, Interval, affine, bounds
from vdla.compiler.ir.calls import expanded
from vdla.compiler.ir.nodes import Alloc, Binary, Buffer, Const, Expr, For, If, Read, Var, Write
from vdla.compiler.ir.rewrite import Node, has_reads, variables, walk
from vdla.compiler.ir.text import print_expr

OTHER = {"//": "%", "%": "//"}
Guards = frozenset[tuple[Expr, int]]  # expressions, and the most that each can be


def conflict(
    loop: For, ranges: Mapping[str, Interval], concerns: Callable[[Buffer], bool] = lambda buffer: True
) -> str | None:
    """Return where two iterations may meet, or None where it is proved that none do.

    Args:
        ranges: of the variables of the loops around.
        concerns: which buffers matter; those allocated inside never do.
    """
    if loop.extent == 1:
        return None
    loop = expanded(loop)
    inner = _ranges(loop)
    found = list(_accesses(loop.body, frozenset()))
    own = {part.buffer for part in walk(loop.body) if isinstance(part, Alloc)}
    for buffer in dict.fromkeys(part.buffer for part, _ in found if isinstance(part, Write)):
        touching = [(part.indices, guards) for part, guards in found if part.buffer == buffer]
        places, guards = (
            [place for place, _ in touching],
            frozenset.intersection(*(guards for _, guards in touching)),
        )
        if (
            buffer not in own
            and concerns(buffer)
            and not _Proof({**ranges, **inner}, frozenset(inner), guards).tells(loop.var, places)
        ):
            return f"its iterations may meet in {_texts(buffer, places)}"
    return None


def _ranges(loop: For) -> dict[str, Interval]:
    """Return the range of every loop variable from `loop` inwards, the widest where loops beside each other
    share a name."""
    found: dict[str, Interval] = {}
    for part in walk(loop):
        if isinstance(part, For):
            found[part.var.name] = Interval(
                0, max(part.extent - 1, found.get(part.var.name, Interval(0, 0)).high)
            )
    return found


def _accesses(node: Node, guards: Guards) -> Iterator[tuple[Read | Write, Guards]]:
    """Yield every access and what is sure around it."""
    if isinstance(node, (Read, Write)):
        yield node, guards
    for child in node.below():
        yield from _accesses(
            child, guards | _guards(node.condition) if isinstance(node, If) and child is node.body else guards
        )


def _guards(condition: Expr) -> Guards:
    match condition:
        case Binary("and", left, right):
            return _guards(left) | _guards(right)
        case Binary("<", left, Const(end, "index")) if not has_reads(left):
            return frozenset({(left, end - 1)})
    return frozenset()


def _texts(buffer: Buffer, places: Sequence[tuple[Expr, ...]]) -> str:
    return ", ".join(dict.fromkeys(f"{buffer.name}[{', '.join(map(print_expr, place))}]" for place in places))


@dataclass(frozen=True)
class _Proof:
    """That an element tells in which iteration it is touched.

    Attributes:
        ranges: of all variables.
        moving: those that may differ between two iterations.
        guards: what holds wherever the buffer is touched.
    """

    ranges: Mapping[str, Interval]
    moving: frozenset[str]
    guards: Guards

    def tells(self, var: Var, places: Sequence[tuple[Expr, ...]]) -> bool:
        """Whether equal subscripts, wherever among `places`, mean equal values of `var`: `x // 4` and `x % 4`
        together tell x."""
        pending = [
            form
            for axis in zip(*places, strict=True)
            for form in self._views([affine(index) for index in axis])
        ]
        told: set[Expr] = set()
        while pending:
            for atom in set(self._told_by(pending.pop())) - told:
                told.add(atom)
                if any(atom == guarded for guarded, _ in self.guards):
                    pending.extend(self._views([affine(atom)]))
                if (
                    isinstance(atom, Binary)
                    and atom.op in OTHER
                    and Binary(OTHER[atom.op], atom.left, atom.right) in told
                ):
                    pending.extend(self._views([affine(atom.left)]))
        return var in told

    def _views(self, forms: list[Affine]) -> Iterator[list[Affine]]:
        """Yield the forms as they are, and with an expression that a condition bounds as one term."""
        yield forms
        for guarded, _ in self.guards:
            grouped = [_grouped(form, guarded) for form in forms]
            if None not in grouped:
                yield grouped

    def _told_by(self, forms: Sequence[Affine]) -> Iterator[Expr]:
        """Yield the terms whose values follow from that of a subscript, in whichever of `forms` it was
        written."""
        shared = set.intersection(*(set(form.terms) for form in forms))
        fixed = {
            (atom, step) for atom, step in shared if not variables(atom) & self.moving and not has_reads(atom)
        }
        for atom, step in shared - fixed:
            if self._stands_out(
                atom,
                step,
                [
                    Affine(tuple(term for term in form.terms if term not in fixed), form.constant)
                    for form in forms
                ],
            ):
                yield atom

    def _stands_out(self, atom: Expr, step: int, forms: Sequence[Affine]) -> bool:
        """Whether `step * atom` is a digit of its own: the other terms are multiples of all its range, or
        less than a step together."""
        reach = self._reach(atom)
        period = step * (reach.high - reach.low + 1)
        less = [
            Affine(tuple(term for term in form.terms if term[0] != atom and term[1] % period), form.constant)
            for form in forms
        ]
        rest = [bounds(form.expr(), self.ranges) for form in less]
        return max(one.high for one in rest) - min(one.low for one in rest) < abs(step)

    def _reach(self, atom: Expr) -> Interval:
        reach = bounds(atom, self.ranges)
        return Interval(
            reach.low,
            max(reach.low, min([reach.high, *(top for guarded, top in self.guards if guarded == atom)])),
        )


def _grouped(form: Affine, expr: Expr) -> Affine | None:
    """Return a form with a multiple of `expr` as one term; None where it holds none, or where that is all
    there is to `expr`."""
    parts, terms = affine(expr), dict(form.terms)
    if len(parts.terms) < 2:
        return None
    atom, factor = parts.terms[0]
    times = terms.get(atom, 0) // factor
    if not times or any(terms.pop(other, 0) != times * own for other, own in parts.terms):
        return None
    return Affine((*terms.items(), (expr, times)), form.constant - times * parts.constant)
