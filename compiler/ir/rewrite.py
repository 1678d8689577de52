"""Walking and rewriting loop programs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache

from vdla.compiler.ir.nodes import Expr, For, Func, Read, Stmt, Var

Node = Expr | Stmt
BOUND = ("var", "axes")  # fields that declare variables and do not use them


@cache
def _names(kind: type) -> tuple[str, ...]:
    """Return the fields in which a kind of node can have others."""
    return tuple(field.name for field in fields(kind) if field.name not in BOUND)


def children(node: Node) -> Iterator[Node]:
    """Yield the nodes directly below `node`, in order."""
    for name in _names(type(node)):
        yield from _nodes(getattr(node, name))


def _nodes(value: object) -> Iterator[Node]:
    if isinstance(value, (Expr, Stmt)):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _nodes(item)


def walk(node: Node) -> Iterator[Node]:
    """Yield `node` and everything below it, from the top down."""
    yield node
    for child in children(node):
        yield from walk(child)


def rewrite(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """Return `node` with `change` applied to every node, from the bottom up; None leaves a node as it is."""
    below = {name: _rewritten(value, change) for name in _names(type(node)) if _has_nodes(value := getattr(node, name))}
    new = replace(node, **below) if below else node
    changed = change(new)
    return new if changed is None else changed


def _has_nodes(value: object) -> bool:
    return isinstance(value, (Expr, Stmt)) or (isinstance(value, tuple) and any(isinstance(item, (Expr, Stmt)) for item in value))


def _rewritten(value: object, change: Callable) -> object:
    if isinstance(value, tuple):
        return tuple(rewrite(item, change) for item in value)
    return rewrite(value, change)


def substitute(node: Node, values: Mapping[str, Expr]) -> Node:
    """Return `node` with variables replaced by expressions, by name."""
    return rewrite(node, lambda part: values.get(part.name) if isinstance(part, Var) else None)


def reads(node: Node) -> list[Read]:
    """Return every read below `node`."""
    return [part for part in walk(node) if isinstance(part, Read)]


def variables(node: Node) -> set[str]:
    """Return the names of all variables used below `node`."""
    return {part.name for part in walk(node) if isinstance(part, Var)}


def has_reads(node: Node) -> bool:
    """Whether `node`, or anything below it, reads a buffer."""
    return any(isinstance(part, Read) for part in walk(node))


def loops_of(func: Func) -> list[For]:
    """Return every loop of `func`, from the top down."""
    return [part for part in walk(func.body) if isinstance(part, For)]
