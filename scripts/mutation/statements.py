"""Statements that a function can lose without a name becoming unbound, so that what remains still runs."""

import ast
from collections.abc import Iterator

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def droppable(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.stmt]:
    """Yield such statements of bodies of several statements, but not those of functions inside."""
    bound = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    for body in _bodies(function):
        body = body[1:] if is_docstring(body[0]) else body
        for statement in body:
            if len(body) > 1 and _can_go(statement, bound):
                yield statement
            bound |= _stored(statement)


def is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement is a constant that stands by itself."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if isinstance(body, list) and body:
            yield body
            for statement in body:
                if not isinstance(statement, DEFINITIONS):
                    yield from _bodies(statement)
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
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
