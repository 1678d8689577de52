"""The printer of loop programs: text in a subset of Python, from which `vdla.compiler.ir.parse` restores an
equal program."""

from collections.abc import Iterator

from vdla.compiler.ir.calls import Call, intrinsics_of
from vdla.compiler.ir.nodes import (
    Alloc,
    Binary,
    Block,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Func,
    If,
    Let,
    Read,
    Scope,
    Select,
    Stmt,
    Var,
    Write,
)
from vdla.compiler.ir.types import INDEX

STRENGTH = {
    "or": 1,
    "and": 2,
    "<": 3,
    "<=": 3,
    "==": 3,
    "<<": 4,
    ">>": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "//": 6,
    "%": 6,
}
FUNCTIONS = ("min", "max")
INDENT = "    "


def print_func(func: Func) -> str:
    """Return the text of a program, preceded by the declarations of the intrinsics that it calls."""
    declared = [
        f"@intrinsic\n{print_calls(intrinsic.meaning)}\n" for intrinsic in intrinsics_of(func).values()
    ]
    return "".join(declared) + print_calls(func)


def print_calls(func: Func) -> str:
    """Return the text of a program without declarations of intrinsics; `parse_func` then needs them as
    arguments."""
    return (
        "\n".join(
            [f"def {func.name}({', '.join(map(print_param, func.params))}):", *print_lines(func.body, 1)]
        )
        + "\n"
    )


def print_stmt(stmt: Stmt) -> str:
    """Return the text of a statement."""
    return "\n".join(print_lines(stmt, 0)) + "\n"


def buffer_type(buffer: Buffer) -> str:
    """Return `dtype[extents]`."""
    return f"{buffer.dtype}[{', '.join(map(str, buffer.shape))}]"


def print_param(buffer: Buffer) -> str:
    """Return `name: dtype[extents]`, followed by ` @ scope` for an on-chip tile of an intrinsic."""
    place = "" if buffer.scope is Scope.DRAM else f" @ {buffer.scope.value}"
    return f"{buffer.name}: {buffer_type(buffer)}{place}"


def print_lines(stmt: Stmt, depth: int) -> Iterator[str]:
    """Yield the lines of a statement."""
    pad = INDENT * depth
    match stmt:
        case Block(statements):
            for part in statements:
                yield from print_lines(part, depth)
        case For(var, extent, body, kind):
            yield f"{pad}for {var.name} in {kind.value}({extent}):"
            yield from print_lines(body, depth + 1)
        case Let(var, value, body):
            yield f"{pad}{var.name} = {print_expr(value)}"
            yield from print_lines(body, depth)
        case If(condition, body):
            yield f"{pad}if {print_expr(condition)}:"
            yield from print_lines(body, depth + 1)
        case Alloc(buffer, body):
            scope = "" if buffer.scope is Scope.DRAM else f', "{buffer.scope.value}"'
            yield f"{pad}{buffer.name} = alloc({buffer_type(buffer)}{scope})"
            yield from print_lines(body, depth)
        case Write(buffer, indices, value):
            yield f"{pad}{buffer.name}[{_indices(indices)}] = {print_expr(value)}"
        case Call(intrinsic, operands):
            yield f"{pad}{intrinsic.name}({_indices(operands)})"


def print_expr(expr: Expr, strength: int = 0) -> str:
    """Return the text of an expression, in parentheses if the enclosing operator, of precedence `strength`,
    binds tighter."""
    match expr:
        case Var(name):
            return name
        case Const(value, dtype):
            return _number(value, dtype)
        case Read(buffer, indices):
            return f"{buffer.name}[{_indices(indices)}]"
        case Cast(dtype, value):
            return f"{dtype}({print_expr(value)})"
        case Select(condition, then, otherwise):
            return f"select({print_expr(condition)}, {print_expr(then)}, {print_expr(otherwise)})"
        case Binary(op, left, right) if op in FUNCTIONS:
            return f"{op}({print_expr(left)}, {print_expr(right)})"
        case Binary(op, left, right):
            precedence = STRENGTH[op]
            loose = precedence + (op in ("<", "<=", "=="))  # Python chains comparisons
            text = f"{print_expr(left, loose)} {op} {print_expr(right, precedence + 1)}"
            return f"({text})" if precedence < strength else text
    raise AssertionError(expr)


def _indices(indices: tuple[Expr, ...]) -> str:
    return ", ".join(print_expr(index) for index in indices)


def _number(value: int | float | bool, dtype: str) -> str:
    """Return a number with its type, unless its type is index or bool."""
    if dtype == "bool":
        return str(bool(value))
    text = f'"{value!r}"' if isinstance(value, float) and value - value != 0 else repr(value)  # infinite
    return text if dtype == INDEX else f"{dtype}({text})"
