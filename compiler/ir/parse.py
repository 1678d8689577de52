"""The parser of loop programs. It uses Python's own parser, so positions in errors are exact."""

import ast
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from vdla.compiler.ir.calls import Call, Intrinsic
from vdla.compiler.ir.nodes import (
    Alloc,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Func,
    If,
    IrError,
    Let,
    LoopKind,
    Read,
    Scope,
    Select,
    Stmt,
    Var,
    Write,
    block,
)
from vdla.compiler.ir.text import FUNCTIONS, print_calls
from vdla.compiler.ir.types import DTYPES
from vdla.compiler.ir.verify import verify
from vdla.hw.spec.python_text import statements_of

Placed: TypeAlias = ast.stmt | ast.expr | ast.arg  # nodes with a position in the text

OPERATORS: Mapping[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Div: "/",
    ast.RShift: ">>",
    ast.LShift: "<<",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Eq: "==",
    ast.And: "and",
    ast.Or: "or",
}


def parse_func(text: str, intrinsics: Iterable[Intrinsic] = ()) -> Func:
    """Parse a program. It may call the given `intrinsics`, and intrinsics that the text declares before the
    program, marked by `@intrinsic`.

    Raises:
        IrError: the text is not a program; the message shows the position.
    """
    *declared, last = _functions(text)
    known = {intrinsic.name: intrinsic for intrinsic in intrinsics}
    for head in declared:
        intrinsic = _ProgramParser(text, {}).intrinsic(head)
        if known.setdefault(intrinsic.name, intrinsic).meaning != intrinsic.meaning:
            raise IrError(
                f"line {head.lineno}: {intrinsic.name} is declared differently from the given intrinsic of "
                f"that name:\n{print_calls(known[intrinsic.name].meaning)}"
            )
    return _ProgramParser(text, known).func(last)


def parse_intrinsic(text: str) -> Intrinsic:
    """Parse the program that declares an intrinsic. The scope of an on-chip tile follows its type:
    `acc: int32[1, 16] @ accumulator`.

    Raises:
        IrError: the text is not a program, or the program is ill-formed.
    """
    meaning = parse_func(text)
    verify(meaning)
    return Intrinsic(meaning)


def _functions(text: str) -> list[ast.FunctionDef]:
    """Return the functions of a text: declarations of intrinsics, then a single program.

    Raises:
        IrError: the text has a syntax error or another structure.
    """
    try:
        body = statements_of(text).body
    except SyntaxError as error:
        raise IrError(
            f"line {error.lineno}: "
            f"{error.msg}\n{(error.text or '').rstrip()}\n{' ' * ((error.offset or 1) - 1)}^"
        ) from error
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    if (
        not functions
        or len(functions) < len(body)
        or functions[-1].decorator_list
        or not all(map(_is_intrinsic, functions[:-1]))
    ):
        raise IrError(
            "line 1: a program is one function: def name(buffers): body; declarations of intrinsics may "
            "precede it, each marked by @intrinsic"
        )
    return functions


def _is_intrinsic(function: ast.FunctionDef) -> bool:
    return [ast.unparse(mark) for mark in function.decorator_list] == ["intrinsic"]


class _ProgramParser:
    """A parser with the intrinsics, buffers and variables in scope."""

    def __init__(self, text: str, intrinsics: Mapping[str, Intrinsic]) -> None:
        self.lines, self.intrinsics = text.splitlines(), intrinsics
        self.buffers: dict[str, Buffer] = {}
        self.variables: set[str] = set()

    def fail(self, node: Placed, problem: str) -> IrError:
        """Return the error that points at `node`."""
        line = self.lines[node.lineno - 1]
        return IrError(f"line {node.lineno}: {problem}\n{line}\n{' ' * node.col_offset}^")

    def func(self, head: ast.FunctionDef) -> Func:
        """Return the program of a function."""
        params = tuple(self.param(arg) for arg in head.args.args)
        return Func(head.name, params, self.statements(head.body))

    def intrinsic(self, head: ast.FunctionDef) -> Intrinsic:
        """Return the intrinsic of a function, which says what it means. Raise IrError if the meaning is
        ill-formed."""
        meaning = self.func(head)
        try:
            verify(meaning)
        except IrError as error:
            raise self.fail(head, f"intrinsic {head.name}: {error}") from error
        return Intrinsic(meaning)

    def param(self, arg: ast.arg) -> Buffer:
        """Return a parameter of a program as a buffer, in DRAM unless its annotation names another scope."""
        match arg.annotation:
            case ast.BinOp(kind, ast.MatMult(), ast.Name(scope) as place):
                return self.declare(arg.arg, kind, self.scope(scope, place), arg)
        return self.declare(arg.arg, arg.annotation, Scope.DRAM, arg)

    def declare(self, name: str, annotation: ast.expr | None, scope: Scope, node: Placed) -> Buffer:
        """Return a buffer of the type that an annotation gives, and note its name."""
        match annotation:
            case ast.Subscript(ast.Name(dtype), extents):
                shape = tuple(
                    self.integer(extent)
                    for extent in (extents.elts if isinstance(extents, ast.Tuple) else [extents])
                )
                self.buffers[name] = Buffer(name, shape, dtype, scope)
                return self.buffers[name]
        raise self.fail(node, f"buffer {name} needs a type such as int8[4, 16]")

    def integer(self, node: ast.expr) -> int:
        """Return the value of a whole number."""
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        raise self.fail(node, "a whole number is needed here")

    def statements(self, nodes: list[ast.stmt]) -> Stmt:
        """Return consecutive statements. An allocation or a variable lasts for all statements behind it."""
        for position, node in enumerate(nodes):
            match node:
                case ast.Assign([ast.Name(name)], ast.Call(ast.Name("alloc"), [kind, *scope])):
                    buffer = self.declare(name, kind, self.scope_of(scope), node)
                    alloc = Alloc(buffer, self.statements(nodes[position + 1 :]))
                    return block(*(self.statement(before) for before in nodes[:position]), alloc)
                case ast.Assign([ast.Name(name)], value):
                    before = [self.statement(before) for before in nodes[:position]]
                    given = self.expr(value)
                    self.variables.add(name)
                    return block(*before, Let(Var(name), given, self.statements(nodes[position + 1 :])))
        return block(*(self.statement(node) for node in nodes))

    def scope_of(self, nodes: list[ast.expr]) -> Scope:
        """Return the scope among the arguments of an allocation behind its type; DRAM without an argument."""
        if not nodes:
            return Scope.DRAM
        return self.scope(nodes[0].value if isinstance(nodes[0], ast.Constant) else None, nodes[0])

    def scope(self, value: object, node: ast.expr) -> Scope:
        """Return the scope of a name."""
        if not isinstance(value, str) or value not in tuple(Scope):
            raise self.fail(node, f"scope {value!r} is none of {', '.join(Scope)}")
        return Scope(value)

    def statement(self, node: ast.stmt) -> Stmt:
        """Return a statement that declares nothing for the statements behind it."""
        match node:
            case ast.For(ast.Name(name), ast.Call(ast.Name(kind), [extent]), body) if kind in tuple(LoopKind):
                self.variables.add(name)
                return For(Var(name), self.integer(extent), self.statements(body), LoopKind(kind))
            case ast.If(test, body, []):
                return If(self.expr(test), self.statements(body))
            case ast.Assign([ast.Subscript() as target], value):
                place = self.read(target)
                return Write(place.buffer, place.indices, self.expr(value))
            case ast.Expr(ast.Call(ast.Name(name), operands, [])):
                return self.called(node, name, operands)
        raise self.fail(
            node,
            "this is not a statement of a loop program: for, if, an intrinsic, an assignment to an element "
            "or a variable, or alloc",
        )

    def called(self, node: ast.stmt, name: str, operands: list[ast.expr]) -> Call:
        """Return the call of an intrinsic."""
        intrinsic = self.intrinsics.get(name)
        if intrinsic is None:
            raise self.fail(
                node,
                f"no intrinsic is called {name}; there are {', '.join(self.intrinsics) or 'none'}. "
                "Declare it before the program: "
                f"@intrinsic def {name}(tiles): loops",
            )
        return Call(intrinsic, tuple(self.expr(operand) for operand in operands))

    def read(self, node: ast.expr) -> Read:
        """Return the read of an element."""
        match node:
            case ast.Subscript(ast.Name(name), indices) if name in self.buffers:
                items = indices.elts if isinstance(indices, ast.Tuple) else [indices]
                return Read(self.buffers[name], tuple(self.expr(item) for item in items))
        raise self.fail(node, "an element of a known buffer is needed here")

    def expr(self, node: ast.expr) -> Expr:
        """Return an expression."""
        match node:
            case ast.Name(name) if name in self.variables:
                return Var(name)
            case ast.Constant(bool() | int() | float() as value):
                return Const(value, "bool" if isinstance(value, bool) else "index")
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                return Const(-value)
            case ast.Subscript():
                return self.read(node)
            case ast.BinOp(left, op, right) if type(op) in OPERATORS:
                return Binary(OPERATORS[type(op)], self.expr(left), self.expr(right))
            case ast.Compare(left, [op], [right]) if type(op) in OPERATORS:
                return Binary(OPERATORS[type(op)], self.expr(left), self.expr(right))
            case ast.BoolOp(op, values):
                return self.logical(OPERATORS[type(op)], values)
            case ast.Call(ast.Name(name), arguments, []):
                return self.call(node, name, arguments)
        raise self.fail(node, "this is not an expression of a loop program")

    def logical(self, op: str, values: list[ast.expr]) -> Expr:
        """Return conditions joined by an operator, from left to right."""
        result = self.expr(values[0])
        for value in values[1:]:
            result = Binary(op, result, self.expr(value))
        return result

    def call(self, node: ast.Call, name: str, arguments: list[ast.expr]) -> Expr:
        """Return the application of a function, a selection, a typed constant or a cast."""
        if name in FUNCTIONS and len(arguments) == 2:
            return Binary(name, *map(self.expr, arguments))
        if name == "select" and len(arguments) == 3:
            return Select(*map(self.expr, arguments))
        if name in DTYPES and len(arguments) == 1:
            return self.typed(name, arguments[0])
        raise self.fail(
            node,
            f"{name} with {len(arguments)} arguments is unknown; there are min, max, select and the types",
        )

    def typed(self, dtype: str, node: ast.expr) -> Expr:
        """Return a typed constant, or a cast."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return Const(float(node.value), dtype)
        value = self.expr(node)
        if isinstance(value, Const):
            return Const(float(value.value) if DTYPES[dtype].is_float else value.value, dtype)
        return Cast(dtype, value)
