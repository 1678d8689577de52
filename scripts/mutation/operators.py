"""Every small change that a module's source offers: the mutation operators.

A change replaces the text of one node of the syntax tree and leaves the rest of the file as it is. Changes
that no test should have to notice are not offered: in docstrings, texts of errors and of logs, formatted
text, assertions, annotations, decorators, imports, and what only a type checker reads.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatchmethod
from operator import attrgetter

from mutation.statements import droppable

COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
OPPOSITES = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)  # swapped: negated
CLOSED = (ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript)  # these bind most tightly
CONTAINERS = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.JoinedStr)
HARDWARE_CONDITIONS = ("If", "Elif")  # of an Amaranth module
ANY_ORDER = {
    "isinstance",
    "issubclass",
    "getattr",
    "hasattr",
    "setattr",
    "max",
    "min",
    "maximum",
    "minimum",
    "gcd",
    "lcm",
    "array_equal",
    "namedtuple",
    "field",
}
PASSED_ALONG = {"m", "self", "machine", "config", "graph", "program", "shadow", "func", "np"}  # of one type
SPEAKING = {"print", "echo", "warn", "debug", "info", "warning", "exception"}
UNSEEN = {
    "strict",
    "repr",
    "likely",
}  # keywords that check the code itself, shape text for debugging, or hint
TEXT_METHODS = {"__repr__", "__str__"}

Offer = tuple[str, ast.AST, str]  # the operator, the node that it replaces, and by what


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a module.

    Attributes:
        operator: its kind.
        line: number of the line where it begins.
        start, end: what it replaces, as byte offsets in the file.
        text: what stands there afterwards.
    """

    operator: str
    line: int
    start: int
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        """Return the changed source."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def lines(self, source: bytes) -> tuple[str, str]:
        """Return the lines that it changes, before and after, each as one line without extra spaces."""
        begin, end = source.rfind(b"\n", 0, self.start) + 1, source.find(b"\n", self.end)
        end = len(source) if end < 0 else end
        after = source[begin : self.start] + self.text.encode() + source[self.end : end]
        return _flat(source[begin:end]), _flat(after)


def _flat(text: bytes) -> str:
    return " ".join(text.decode().split())


def changes(source: bytes, kind: type["Finder"] | None = None) -> list[Change]:
    """Return all changes that a module's source offers, in its order.

    Args:
        kind: what offers them; None: the mutation operators of this module.
    """
    finder = (kind or Finder)(source)
    finder.visit(ast.parse(source))
    unique = {(change.start, change.end, change.text): change for change in finder.offered}
    return sorted(unique.values(), key=attrgetter("start", "end", "operator", "text"))


class Finder(ast.NodeVisitor):
    """Walks a module and collects `offered`, the changes of every node that has any."""

    def __init__(self, source: bytes) -> None:
        self.offered: list[Change] = []
        self._starts = [0, *(match.end() for match in re.finditer(rb"\n", source))]

    def generic_visit(self, node: ast.AST) -> None:
        """Collect the changes of a node, then those of its parts."""
        for operator, target, text in self.offers(node):
            begin = self._starts[target.lineno - 1] + target.col_offset
            end = self._starts[target.end_lineno - 1] + target.end_col_offset
            self.offered.append(Change(operator, target.lineno, begin, end, text))
        super().generic_visit(node)

    # What is passed over

    def visit_skipped(self, node: ast.AST) -> None:
        """Offer nothing in this node, nor below it."""

    visit_Import = visit_ImportFrom = visit_Assert = visit_Raise = visit_JoinedStr = visit_skipped

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        """Leave out decorators and the type of the result, and methods that make texts."""
        if node.name not in TEXT_METHODS:
            node.decorator_list, node.returns = [], None
            self.generic_visit(node)

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef

    def visit_arg(self, node: ast.arg) -> None:
        """Leave out the annotation, which is all that an argument has."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Visit the assigned value only."""
        if node.value:
            self.visit(node.value)

    def visit_keyword(self, node: ast.keyword) -> None:
        """Leave out arguments that no test can see."""
        if node.arg not in UNSEEN:
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        """Leave out imports for the type checker."""
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Leave out negative extents of `reshape`, and calls that make messages."""
        if _callee(node) == "reshape":  # to which every negative extent means the same
            node.args = [argument for argument in node.args if not _is_negative(argument)]
        if not _speaks(node):
            self.generic_visit(node)

    # What is offered

    @singledispatchmethod
    def offers(self, node: ast.AST) -> Iterator[Offer]:
        """Yield what can be done to a node."""
        yield from ()

    @offers.register
    def _(self, node: ast.Compare) -> Iterator[Offer]:
        for place, operator in enumerate(node.ops):
            operators = [*node.ops[:place], COMPARISONS[type(operator)](), *node.ops[place + 1 :]]
            yield "comparison", node, text_of(ast.Compare(node.left, operators, node.comparators))

    @offers.register
    def _(self, node: ast.Constant) -> Iterator[Offer]:
        if isinstance(node.value, bool):
            yield "constant", node, str(not node.value)
        elif isinstance(node.value, int | float):
            values = [node.value + step for step in (1, -1)]
            yield from (("constant", node, repr(value)) for value in values if value != node.value)

    @offers.register
    def _(self, node: ast.BinOp) -> Iterator[Offer]:
        if type(node.op) in ARITHMETIC and not any(map(is_no_number, (node.left, node.right))):
            yield "arithmetic", node, text_of(ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right))

    @offers.register
    def _(self, node: ast.UnaryOp) -> Iterator[Offer]:
        if isinstance(node.op, ast.Not | ast.Invert):
            yield "condition", node, text_of(node.operand)

    @offers.register
    def _(self, node: ast.AugAssign) -> Iterator[Offer]:
        if _is_hardware(node.target):
            yield from (("statement", part, "[]") for part in getattr(node.value, "elts", ()))
        elif type(node.op) in ARITHMETIC:
            replacement = ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)
            yield "arithmetic", node, ast.unparse(replacement)

    @offers.register
    def _(self, node: ast.BoolOp) -> Iterator[Offer]:
        opposite = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "boolean", node, text_of(ast.BoolOp(opposite, node.values))
        for place in range(len(node.values)):
            rest = node.values[:place] + node.values[place + 1 :]
            yield "condition", node, text_of(rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))

    @offers.register
    def _(self, node: ast.If | ast.While | ast.IfExp) -> Iterator[Offer]:
        yield from _negated(node.test)
        if not isinstance(node, ast.IfExp):
            yield "condition", node.test, "False"
        if isinstance(node, ast.If):
            yield "condition", node.test, "True"

    @offers.register
    def _(self, node: ast.comprehension) -> Iterator[Offer]:
        for condition in node.ifs:
            yield from _negated(condition)
            yield "condition", condition, "True"

    @offers.register
    def _(self, node: ast.Call) -> Iterator[Offer]:
        name, first, rest = _callee(node), node.args[:2], node.args[2:]
        if name in HARDWARE_CONDITIONS and first:
            yield "condition", first[0], f"{text_of(first[0])} == 0"
            yield "condition", first[0], "1"
        elif name == "Mux" and len(node.args) == 3:
            yield "arguments", node, text_of(ast.Call(node.func, [first[0], rest[0], first[1]], []))
        elif len(first) == 2 and name not in ANY_ORDER and are_alike(*first):
            yield "arguments", node, text_of(ast.Call(node.func, [*reversed(first), *rest], node.keywords))

    @offers.register
    def _(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Offer]:
        for statement in droppable(node):
            value = getattr(statement, "value", None)
            if not (isinstance(value, ast.Call) and _speaks(value)):
                yield "statement", statement, "pass"


def _negated(test: ast.expr) -> Iterator[Offer]:
    swaps = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], OPPOSITES)
    if not swaps and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
        yield "condition", test, f"(not {text_of(test)})"


def text_of(node: ast.expr) -> str:
    """Return an expression as text that keeps its meaning wherever it is put."""
    text = ast.unparse(ast.fix_missing_locations(node))
    return text if isinstance(node, CLOSED) else f"({text})"


def _callee(call: ast.Call) -> str:
    return getattr(call.func, "attr", None) or getattr(call.func, "id", "")


def _speaks(call: ast.Call) -> bool:
    """Whether a call prints, logs, or makes an error."""
    return _callee(call) in SPEAKING or _callee(call).endswith("Error")


def _is_negative(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def are_alike(first: ast.expr, second: ast.expr) -> bool:
    """Whether two arguments may well have the same type, so that swapping them is more than a type error."""
    match first, second:
        case (ast.Name(id=name), ast.Name(id=other_name)) | (
            ast.Attribute(attr=name),
            ast.Attribute(attr=other_name),
        ):
            return name != other_name and not {name, other_name} & PASSED_ALONG
        case ast.Constant(value=value), ast.Constant(value=other_value):
            return type(value) is type(other_value) and value != other_value
        case (ast.Subscript(), ast.Subscript()) | (ast.BinOp(), ast.BinOp()):
            return ast.unparse(first) != ast.unparse(second)
    return False


def _is_hardware(target: ast.expr) -> bool:
    """Whether statements of a clock domain are added to: `m.d.comb += ...`."""
    return isinstance(target, ast.Attribute) and getattr(target.value, "attr", "") == "d"


def is_no_number(node: ast.expr) -> bool:
    """Whether an operand is text, a container or a type, as in `[0] * n` and `int | None`."""
    match node:
        case ast.Constant(value=value):
            return value is None or isinstance(value, str | bytes)
        case ast.Name(id=name):
            return name[0].isupper() and not name.isupper()  # a class
        case ast.BinOp(left=left, right=right):
            return is_no_number(left) or is_no_number(right)
    return isinstance(node, CONTAINERS)
