"""Assembly: instructions and micro-ops as text, one call per line, a subset of Python.

    LOAD(memory_type=INP, dram_base=0x400, y_size=1, x_size=16, x_stride=16, push_next=1)  # comment
    GEMM(uop_end=4, iter_out=1, iter_in=1, pop_prev=1)
    FINISH()

Fields that are zero may be left out. `UOP(dst=0, src=1, wgt=2)` is a micro-op.
"""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import IntEnum
from typing import Generic, TypeVar

from vdla.hw.spec import isa
from vdla.hw.spec.errors import AssemblyError
from vdla.hw.spec.python_text import statements_of
from vdla.hw.spec.showing import short, shown

LARGEST_TEXT_BYTES = 8 << 20  # its syntax tree takes up to 140 times as much
SHOWN_COLUMNS = 120
_TOO_DEEP = (RecursionError, MemoryError)  # what Python's parser raises where its stack does not reach

Item = TypeVar("Item", isa.Instruction, isa.MicroOp)

_FORMS = {form.opcode.name: form for form in isa.INSTRUCTIONS}
_UOP = {"UOP": isa.MicroOp}


def format_instruction(instruction: isa.Instruction) -> str:
    """Return one line of assembly for `instruction`; fields at zero are left out."""
    return _format(instruction.opcode.name, instruction)


def format_uop(uop: isa.MicroOp) -> str:
    """Return one line of assembly for `uop`."""
    return _format("UOP", uop)


def _format(mnemonic: str, item: isa.Instruction | isa.MicroOp) -> str:
    shown = ", ".join(
        f"{field.name}={_format_value(getattr(item, field.name))}"
        for field in fields(item)
        if getattr(item, field.name) or field.metadata["kind"] is not int
    )
    return f"{mnemonic}({shown})"


def _format_value(value: int) -> str:
    return value.name if isinstance(value, IntEnum) else str(value)


def format_program(instructions: Iterable[isa.Instruction]) -> str:
    """Return assembly of a stream, a line each, with its position as a comment."""
    return "".join(
        f"{format_instruction(instruction)}  # {index}\n" for index, instruction in enumerate(instructions)
    )


def parse_program(text: str, filename: str = "<text>") -> tuple[isa.Instruction, ...]:
    """Return the instructions in `text`.

    Raises:
        AssemblyError: with file, line, column, the line and a caret.
    """
    return tuple(_Parser(text, filename, _FORMS).items())


def parse_uops(text: str, filename: str = "<text>") -> tuple[isa.MicroOp, ...]:
    """Return the micro-ops in `text`.

    Raises:
        AssemblyError: as `parse_program`.
    """
    return tuple(_Parser(text, filename, _UOP).items())


class _Parser(Generic[Item]):
    """Parses one text; `forms` are the mnemonics allowed in it."""

    def __init__(self, text: str, filename: str, forms: Mapping[str, type[Item]]) -> None:
        self._text, self._filename = text, filename
        self._forms: Mapping[str, type[Item]] = forms

    def items(self) -> list[Item]:
        if len(self._text) > LARGEST_TEXT_BYTES:
            raise AssemblyError(
                f"{self._filename} has {len(self._text)} bytes; assembly is read up to {LARGEST_TEXT_BYTES}: "
                "assemble it in parts"
            )
        try:
            body = statements_of(self._text).body
        except _TOO_DEEP:
            raise self._error(1, 0, "the text is nested too deeply for assembly") from None
        except (SyntaxError, ValueError) as error:
            line, column = getattr(error, "lineno", None) or 1, getattr(error, "offset", None) or 1
            raise self._error(line, column - 1, getattr(error, "msg", str(error))) from None
        return [self._item(statement) for statement in body]

    def _item(self, statement: ast.stmt) -> Item:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise self._at(statement, f"a line is one call, such as {next(iter(self._forms))}(…)")
        if call.func.id not in self._forms:
            raise self._at(
                call, f"{short(call.func.id)} is not a mnemonic; there are {', '.join(self._forms)}"
            )
        if call.args:
            raise self._at(call.args[0], "fields are given by name, as name=value")
        form = self._forms[call.func.id]
        values: dict[str, int] = {}
        for keyword in call.keywords:
            name = self._name(form, keyword)
            if name in values:
                raise self._at(keyword, f"{name} is given twice")
            values[name] = self._value(form, keyword)
        return form(**values)

    def _name(self, form: isa.Form, keyword: ast.keyword) -> str:
        names = [field.name for field in fields(form)]
        if keyword.arg is None:
            raise self._at(keyword, "fields are given by name, as name=value")
        if keyword.arg not in names:
            raise self._at(
                keyword, f"{short(keyword.arg)} is not a field of it; there are {', '.join(names)}"
            )
        return keyword.arg

    def _value(self, form: isa.Form, keyword: ast.keyword) -> int:
        kind: type[int] = next(field.metadata["kind"] for field in fields(form) if field.name == keyword.arg)
        members: Mapping[str, int] = kind.__members__ if issubclass(kind, IntEnum) else {}
        names = ", ".join(members)
        if isinstance(keyword.value, ast.Name) and members:
            if keyword.value.id not in members:
                raise self._at(keyword.value, f"{keyword.arg} = {short(keyword.value.id)} is none of {names}")
            return members[keyword.value.id]
        value = _number(keyword.value)
        if value is None:
            raise self._at(
                keyword.value,
                f"{keyword.arg} takes a whole number" + (" or a name" if kind is not int else ""),
            )
        try:
            return kind(value)
        except ValueError:
            raise self._at(keyword.value, f"{keyword.arg} = {shown(value)} is none of {names}") from None

    def _at(self, node: ast.stmt | ast.expr | ast.keyword, message: str) -> AssemblyError:
        return self._error(node.lineno, node.col_offset, message)

    def _error(self, line: int, column: int, message: str) -> AssemblyError:
        lines = self._text.splitlines() or [""]
        begin = max(0, column - SHOWN_COLUMNS // 2)
        part = lines[min(line, len(lines)) - 1][begin : begin + SHOWN_COLUMNS]
        caret = " " * (column - begin) + "^"
        return AssemblyError(f"{self._filename}:{line}:{column + 1}: {message}\n    {part}\n    {caret}")


def _number(node: ast.expr) -> int | None:
    """Return the integer that an expression states, with at most one sign; None if it is not an integer."""
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        node = node.operand
    if not isinstance(node, ast.Constant) or type(node.value) is not int:
        return None
    return -node.value if negative else node.value
