"""Walking and rewriting loop programs."""

from collections.abc import Callable, Iterator, Mapping
from operator import is_not

from vdla.compiler.ir.nodes import Expr, For, Func, Read, Stmt, Var

Node = Expr | Stmt
Change = Callable[[Node], Node | None]


def walk(node: Node) -> Iterator[Node]:
    """Yield `node` and everything below it, from the top down."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += part.below()[::-1]


def rewrite(node: Node, change: Change) -> Node:
    """Return `node` with `change` applied to every node, from the bottom up; None leaves a node as it is.

    What has nothing changed below it is the same node as before.
    """
    node = rewrite_below(node, lambda part: rewrite(part, change))
    changed = change(node)
    return node if changed is None else changed


def rewrite_below(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return `node` with `change` applied to the nodes directly below; the same node where that changes none of them."""
    below = node.below()
    if not below:
        return node
    changed = tuple(map(change, below))
    return node.rebuilt(changed) if any(map(is_not, changed, below)) else node


def substitute(node: Node, values: Mapping[str, Expr]) -> Node:
    """Return `node` with variables replaced by expressions, by name."""
    if isinstance(node, Var):
        return values.get(node.name, node)
    return rewrite_below(node, lambda part: substitute(part, values))


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
