"""Traversal and rewriting of loop programs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_not
from typing import TypeVar, overload

from vdla.compiler.ir.nodes import Expr, Read, Stmt, Var

Node = Expr | Stmt
Change = Callable[[Node], Node | None]  # an expression to an expression, a statement to a statement
Part = TypeVar("Part", Expr, Stmt, Expr | Stmt)


def walk(node: Node) -> Iterator[Node]:
    """Yield `node` and all nodes below it in pre-order."""
    waiting: list[Node] = [node]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += part.below()[::-1]


@overload
def rewrite(node: Expr, change: Change) -> Expr: ...


@overload
def rewrite(node: Stmt, change: Change) -> Stmt: ...


@overload
def rewrite(node: Node, change: Change) -> Node: ...


def rewrite(node: Node, change: Change) -> Node:
    """Return `node` with `change` applied to every node, bottom-up.

    `change` returns None to keep a node. Unchanged subtrees are shared, not copied.
    """
    below = node.below()
    if below:
        node = with_below(node, below, [rewrite(part, change) for part in below])
    changed = change(node)
    return node if changed is None else changed


def with_below(node: Part, before: tuple[Node, ...], below: Sequence[Node]) -> Part:
    """Return `node` with the children `below` instead of `before`; the same node if no child changed."""
    return node.rebuilt(tuple(below)) if any(map(is_not, below, before)) else node


def substitute(node: Part, values: Mapping[str, Expr]) -> Part:
    """Return `node` with variables replaced by expressions, by name."""
    if isinstance(node, Var):
        return values.get(node.name, node)
    below = node.below()
    return with_below(node, below, [substitute(part, values) for part in below]) if below else node


def walk_statements(stmt: Stmt) -> Iterator[Stmt]:
    """Yield `stmt` and all statements below it in pre-order."""
    waiting = [stmt]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += [inner for inner in part.below()[::-1] if isinstance(inner, Stmt)]


def rewrite_statements(stmt: Stmt, change: Callable[[Stmt], Stmt | None]) -> Stmt:
    """Return `stmt` with `change` applied to every statement, bottom-up; see `rewrite`."""
    below = stmt.below()
    stmt = with_below(
        stmt, below, [rewrite_statements(part, change) if isinstance(part, Stmt) else part for part in below]
    )
    changed = change(stmt)
    return stmt if changed is None else changed


def reads(node: Node) -> list[Read]:
    """Return all reads in `node`, in pre-order."""
    return [part for part in walk(node) if isinstance(part, Read)]


def variables(node: Node) -> set[str]:
    """Return the names of all variables that `node` uses."""
    return {part.name for part in walk(node) if isinstance(part, Var)}
