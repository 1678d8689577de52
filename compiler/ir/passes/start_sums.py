"""The first product of a sum overwrites the accumulators, which are then not reset.

`for y: reset(C[y])` followed by `for k: for y: gemm(C[y], A[y, k], B[k])` becomes
`for k: for y: gemm_from(C[y], A[y, k], B[k], k < 1)`, which resets its accumulators if the condition holds.
The hardware does both in a single step.
"""

from dataclasses import dataclass
from functools import reduce
from operator import add

from vdla.compiler.ir.nodes import Block, Call, Const, Expr, For, Func, If, Intrinsic, Read, Stmt, Var, block
from vdla.compiler.ir.rewrite import rewrite_statements, variables, walk_statements


@dataclass(frozen=True, slots=True)
class StartSums:
    """The pass.

    Attributes:
        product: intrinsic that adds a product to accumulators.
        reset: intrinsic that sets accumulators to 0.
        started: intrinsic equivalent to `reset` and `product` if the condition in its last operand holds,
            else to `product`.
    """

    product: Intrinsic
    reset: Intrinsic
    started: Intrinsic

    def run(self, func: Func) -> Func:
        """Return `func` with every reset merged into the product that follows it, where possible."""
        return Func(func.name, func.params, rewrite_statements(func.body, self._joined))

    def _joined(self, part: Stmt) -> Stmt | None:
        if not isinstance(part, Block):
            return None
        for place, statement in enumerate(part.statements[:-1]):
            reset = _only_call(statement, self.reset)
            following = part.statements[place + 1]
            if reset is not None and (changed := self._with_start(following, statement, reset)) is not None:
                return block(*part.statements[:place], changed, *part.statements[place + 2 :])
        return None

    def _with_start(self, stmt: Stmt, reset_nest: Stmt, reset: Call) -> Stmt | None:
        """Return `stmt` with products that start their sums, which makes `reset` redundant; None if products
        and resets cover different accumulators."""
        name = _tile(reset).buffer.name
        calls = [part for part in walk_statements(stmt) if isinstance(part, Call) and _touches(part, name)]
        if len(calls) != 1 or calls[0].intrinsic != self.product:
            return None
        product, around = calls[0], _enclosing(stmt, calls[0])
        loops = {part.var.name: part.extent for part in around if isinstance(part, For)}
        target = _tile(product)
        if (
            any(isinstance(part, If) for part in around)
            or target != _tile(reset)
            or not _covers(loops, _loop_extents(reset_nest), target)
        ):
            return None
        started = Call(self.started, (*product.operands, _first_step(loops, target)))
        return rewrite_statements(stmt, lambda part: started if part is product else None)


def _tile(call: Call) -> Read:
    """Return the accumulators that a call writes."""
    target = call.operands[0]
    assert isinstance(target, Read), "the verifier lets only tiles be changed"
    return target


def _first_step(loops: dict[str, int], target: Read) -> Expr:
    """Return the condition of the first step of each sum: all loops that `target` does not depend on are at
    0."""
    steps = [Var(name) for name, extent in loops.items() if extent > 1 and name not in variables(target)]
    position: Expr = reduce(add, steps) if steps else Const(0)
    return position < 1


def _only_call(stmt: Stmt, intrinsic: Intrinsic) -> Call | None:
    """Return the call if `stmt` is a nest of unconditional loops around a call of `intrinsic`, else None."""
    while isinstance(stmt, For):
        stmt = stmt.body
    return stmt if isinstance(stmt, Call) and stmt.intrinsic == intrinsic else None


def _loop_extents(stmt: Stmt) -> dict[str, int]:
    extents = {}
    while isinstance(stmt, For):
        extents[stmt.var.name] = stmt.extent
        stmt = stmt.body
    return extents


def _touches(call: Call, name: str) -> bool:
    return any(isinstance(operand, Read) and operand.buffer.name == name for operand in call.operands)


def _covers(loops: dict[str, int], reset_loops: dict[str, int], target: Read) -> bool:
    """Whether product and reset iterate over the same accumulators, by loops of equal names and extents."""
    used = {name: extent for name, extent in loops.items() if name in variables(target)}
    return used == reset_loops


def _enclosing(stmt: Stmt, call: Call) -> list[Stmt]:
    """Return the statements that enclose `call`, outermost first."""
    for part in stmt.below():
        if isinstance(part, Stmt) and any(other is call for other in walk_statements(part)):
            return [stmt, *_enclosing(part, call)]
    return []
