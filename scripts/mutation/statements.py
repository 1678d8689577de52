"""Statements that a function can lose without a name becoming unbound, so that what remains still runs."""

import ast
from collections.abc import Iterator

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def droppable(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.stmt]:
    """Yield such statements of bodies of several statements, but not of functions inside."""
    arguments = {part.arg for part in ast.walk(function.args) if isinstance(part, ast.arg)}
    yield from _droppable(function.body, arguments)


def _droppable(body: list[ast.stmt], bound: set[str]) -> Iterator[ast.stmt]:
    """Yield such statements of a body that begins with the names `bound`; it adds the names that it binds."""
    several = len(body) - is_docstring(body[0]) > 1
    for statement in body:
        if several and _can_go(statement, bound):
            yield statement
        if not isinstance(statement, DEFINITIONS):
            parts = ast.iter_child_nodes(statement)
            bound |= _stored(*(part for part in parts if not isinstance(part, ast.stmt)))
            for inner in _bodies(statement):
                yield from _droppable(inner, bound)


def is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement is a constant that stands by itself."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _bodies(statement: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield from filter(None, [getattr(statement, name, None)])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield from _bodies(part)


def _can_go(statement: ast.stmt, bound: set[str]) -> bool:
    match statement:
        case ast.Expr():
            return not is_docstring(statement)
        case ast.Assign(targets=targets):
            return _stored(*targets) <= bound
    return isinstance(statement, ast.AugAssign | ast.Continue | ast.Break)


def _stored(*nodes: ast.AST) -> set[str]:
    """Return the names that are bound anywhere in `nodes`."""
    names = (part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}
