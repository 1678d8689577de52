"""Sums start with their first product: accumulators are overwritten by it instead of being reset before.

`for y: reset(C[y])` and later `for k: for y: gemm(C[y], A[y, k], B[k])` become `for k: for y: gemm_from(C[y], A[y, k], B[k], k < 1)`,
which resets its accumulators where the condition holds. The hardware does both in one step.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from vdla.compiler.ir.nodes import Alloc, Block, Call, Const, Expr, For, Func, If, Read, Stmt, Var, block
from vdla.compiler.ir.rewrite import Node, rewrite, variables, walk

RESET, PRODUCT, STARTED = "reset", "gemm", "gemm_from"


@dataclass(frozen=True, slots=True)
class StartSums:
    """The pass."""

    def run(self, func: Func) -> Func:
        """Return `func` with every reset that a product can do for itself left out."""
        return Func(func.name, func.params, rewrite(func.body, _started))


def _started(part: Node) -> Node | None:
    if not isinstance(part, Block):
        return None
    for place, statement in enumerate(part.statements[:-1]):
        reset = _only_call(statement, RESET)
        following = part.statements[place + 1]
        if reset is not None and (changed := _with_start(following, statement, reset)) is not None:
            return block(*part.statements[:place], changed, *part.statements[place + 2:])
    return None


def _only_call(stmt: Stmt, name: str) -> Call | None:
    """Return the call of a nest of loops around `name`, without conditions; None where it is anything else."""
    while isinstance(stmt, For):
        stmt = stmt.body
    return stmt if isinstance(stmt, Call) and stmt.name == name else None


def _loops(stmt: Stmt) -> dict[str, int]:
    found = {}
    while isinstance(stmt, For):
        found[stmt.var.name] = stmt.extent
        stmt = stmt.body
    return found


def _with_start(stmt: Stmt, reset_nest: Stmt, reset: Call) -> Stmt | None:
    """Return `stmt` with its products starting the sums that `reset` would; None where they do not cover the same accumulators."""
    buffer = reset.operands[0].buffer
    calls = [part for part in walk(stmt) if isinstance(part, Call) and _touches(part, buffer.name)]
    if len(calls) != 1 or calls[0].name != PRODUCT or _guarded(stmt, calls[0]):
        return None
    loops, product = _all_loops(stmt, calls[0]), calls[0]
    target = product.operands[0]
    if target.indices != reset.operands[0].indices or not _covers(loops, _loops(reset_nest), target):
        return None
    steps = [Var(name) for name, extent in loops.items() if extent > 1 and name not in variables(target)]
    first: Expr = Const(0)
    for step in steps:
        first = first + step if steps.index(step) else step
    condition = first < 1

    def change(part: Node) -> Node | None:
        if part is product or part == product:
            return Call(STARTED, (*product.operands, condition), block(If(condition, reset.meaning), product.meaning))
        return None
    return rewrite(stmt, change)


def _touches(call: Call, name: str) -> bool:
    return any(isinstance(operand, Read) and operand.buffer.name == name for operand in call.operands)


def _covers(loops: dict[str, int], reset_loops: dict[str, int], target: Read) -> bool:
    """Whether product and reset walk the same accumulators: with loops of the same names and extents."""
    used = {name: extent for name, extent in loops.items() if name in variables(target)}
    return used == reset_loops


def _path(stmt: Stmt, call: Call) -> Iterator[Stmt]:
    """Yield the statements around `call`, from the outside in."""
    if stmt == call:
        return
    yield stmt
    parts = stmt.statements if isinstance(stmt, Block) else (stmt.body,) if isinstance(stmt, (For, If, Alloc)) else ()
    for part in parts:
        if any(other == call for other in walk(part)):
            yield from _path(part, call)
            return


def _guarded(stmt: Stmt, call: Call) -> bool:
    return any(isinstance(part, If) for part in _path(stmt, call))


def _all_loops(stmt: Stmt, call: Call) -> dict[str, int]:
    """Return the loops around `call`, by variable."""
    return {part.var.name: part.extent for part in _path(stmt, call) if isinstance(part, For)}
