"""Whether the iterations of a loop may run in any order, or at once: no element that one writes is touched by another."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vdla.compiler.ir.affine import Affine, Interval, affine, bounds
from vdla.compiler.ir.nodes import Alloc, Binary, Buffer, Call, Expr, For, Read, Var, Write
from vdla.compiler.ir.rewrite import Node, children, has_reads, variables, walk
from vdla.compiler.ir.text import print_expr

OTHER = {"//": "%", "%": "//"}


def conflict(loop: For, ranges: Mapping[str, Interval], concerns: Callable[[Buffer], bool] = lambda buffer: True) -> str | None:
    """Return where two iterations may meet, or None where it is proved that none do. Conditions are taken to hold.

    Args:
        ranges: of the variables of the loops around.
        concerns: which buffers matter; those allocated inside never do.
    """
    if loop.extent == 1:
        return None
    inner = _ranges(loop)
    proof = _Proof({**ranges, **inner}, frozenset(inner))
    found = list(_accesses(loop.body))
    own = {part.buffer for part in walk(loop.body) if isinstance(part, Alloc)}
    for buffer in dict.fromkeys(part.buffer for part in found if isinstance(part, Write)):
        places = [part.indices for part in found if part.buffer == buffer]
        if buffer not in own and concerns(buffer) and not proof.tells(loop.var, places):
            return f"its iterations may meet in {_texts(buffer, places)}"
    return None


def _ranges(loop: For) -> dict[str, Interval]:
    """Return the range of every loop variable from `loop` inwards, the widest where loops beside each other share a name."""
    found: dict[str, Interval] = {}
    for part in walk(loop):
        if isinstance(part, For):
            found[part.var.name] = Interval(0, max(part.extent - 1, found.get(part.var.name, Interval(0, 0)).high))
    return found


def _accesses(node: Node) -> Iterator[Read | Write]:
    """Yield every access; operands of a call are none, its meaning has them."""
    if isinstance(node, (Read, Write)):
        yield node
    for child in (node.meaning,) if isinstance(node, Call) else children(node):
        yield from _accesses(child)


def _texts(buffer: Buffer, places: Sequence[tuple[Expr, ...]]) -> str:
    return ", ".join(dict.fromkeys(f"{buffer.name}[{', '.join(map(print_expr, place))}]" for place in places))


@dataclass(frozen=True)
class _Proof:
    """That an element tells in which iteration it is touched.

    Attributes:
        ranges: of all variables.
        moving: those that may differ between two iterations.
    """

    ranges: Mapping[str, Interval]
    moving: frozenset[str]

    def tells(self, var: Var, places: Sequence[tuple[Expr, ...]]) -> bool:
        """Whether equal subscripts, wherever among `places`, mean equal values of `var`: `x // 4` and `x % 4` together tell x."""
        pending = [[affine(index) for index in axis] for axis in zip(*places, strict=True)]
        told: set[Expr] = set()
        while pending:
            for atom in self._told_by(pending.pop()):
                whole = isinstance(atom, Binary) and atom.op in OTHER and Binary(OTHER[atom.op], atom.left, atom.right) in told
                if whole and atom not in told:
                    pending.append([affine(atom.left)])
                told.add(atom)
        return var in told

    def _told_by(self, forms: Sequence[Affine]) -> Iterator[Expr]:
        """Yield the terms whose values follow from that of a subscript, in whichever of `forms` it was written."""
        shared = set.intersection(*(set(form.terms) for form in forms))
        fixed = {(atom, step) for atom, step in shared if not variables(atom) & self.moving and not has_reads(atom)}
        for atom, step in shared - fixed:
            if self._stands_out(atom, step, [Affine(tuple(term for term in form.terms if term not in fixed), form.constant) for form in forms]):
                yield atom

    def _stands_out(self, atom: Expr, step: int, forms: Sequence[Affine]) -> bool:
        """Whether `step * atom` is a digit of its own: the other terms are multiples of all its range, or less than a step together."""
        reach = bounds(atom, self.ranges)
        period = step * (reach.high - reach.low + 1)
        less = [Affine(tuple(term for term in form.terms if term[0] != atom and term[1] % period), form.constant) for form in forms]
        rest = [bounds(form.expr(), self.ranges) for form in less]
        return max(one.high for one in rest) - min(one.low for one in rest) < abs(step)
