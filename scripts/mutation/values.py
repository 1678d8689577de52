"""Changes of values and addresses: what a compiler gets wrong, as changes of one module's source.

They keep shapes and types. An integer or an offset moves by one. Two operands, axes or fields change places.
A shift is by one bit more, a division rounds the other way, or a bound loses its last element. What
`mutation.operators` passes over is passed over here, too.
"""

import ast
from collections.abc import Iterator
from itertools import pairwise

from mutation.operators import Finder, Offer, are_alike, is_no_number, text_of

BOUNDS = {"min": "max", "max": "min"}
MOVED = (ast.Add, ast.Sub, ast.Mult)
SCALED = (ast.FloorDiv, ast.Mod)
VALUES = (ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.Constant)


class ValueFinder(Finder):
    """Collects the changes of values and addresses in a module."""

    def offers(self, node: ast.AST) -> Iterator[Offer]:
        """Yield what can be done to a node."""
        match node:
            case ast.BinOp():
                yield from _of_arithmetic(node)
            case ast.Constant(value=value) if type(value) is int:
                yield from (("offset", node, repr(value + step)) for step in (1, -1))
            case ast.Constant(value=bool(value)):
                yield "flag", node, str(not value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.BinOp(op=ast.FloorDiv()) as division):
                yield "rounding", node, f"(-{text_of(division)} - 1)"
            case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()]):
                yield from _of_comparison(node)
            case ast.Tuple(elts=parts, ctx=ast.Load()) if not any(
                isinstance(part, ast.Slice) for part in parts
            ):
                yield from _swaps(node, parts)
            case ast.Call():
                yield from _of_call(node)


def _of_arithmetic(node: ast.BinOp) -> Iterator[Offer]:
    if is_no_number(node.left) or is_no_number(node.right):
        return
    if isinstance(node.op, MOVED):
        yield from (("offset", node, f"({text_of(node)} {step} 1)") for step in "+-")
    if isinstance(node.op, SCALED):
        yield "rounding", node, f"({text_of(node)} + 1)"
    if isinstance(node.op, ast.LShift | ast.RShift):
        yield "shift", node.right, f"({text_of(node.right)} + 1)"
    if isinstance(node.op, ast.Mult):
        yield from (("factor", node, text_of(part)) for part in (node.left, node.right))
    if isinstance(node.op, ast.Add | ast.Sub):
        yield "offset", node, text_of(node.left)


def _of_comparison(node: ast.Compare) -> Iterator[Offer]:
    """Move the bound of a comparison by one, so that it takes its end in, or leaves it out."""
    closed = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
    replacement = ast.Compare(node.left, [closed[type(node.ops[0])]()], node.comparators)
    yield "bound", node, text_of(replacement)


def _swaps(node: ast.Tuple, parts: list[ast.expr]) -> Iterator[Offer]:
    """Exchange neighbours of a tuple: strides, axes, extents."""
    for place, pair in enumerate(pairwise(parts)):
        if are_alike(*pair):
            ordered = [*parts[:place], pair[1], pair[0], *parts[place + 2 :]]
            yield "swap", node, text_of(ast.Tuple(ordered, ast.Load()))


def _of_call(node: ast.Call) -> Iterator[Offer]:
    name = getattr(node.func, "id", "")
    if name in BOUNDS and len(node.args) == 2:
        yield "bound", node, text_of(ast.Call(ast.Name(BOUNDS[name]), node.args, []))
        yield from (("bound", node, text_of(part)) for part in node.args)
    if name in (*BOUNDS, "len", "prod", "sum", "ceil_div"):
        yield from (("bound", node, f"({text_of(node)} {step} 1)") for step in "+-")
    elif name == "range" and node.args:
        *before, last = node.args[:2] if len(node.args) > 1 else node.args
        shorter = [*before, ast.BinOp(last, ast.Sub(), ast.Constant(1)), *node.args[2:]]
        yield "bound", node, text_of(ast.Call(node.func, shorter, []))
    elif name == "reversed" and len(node.args) == 1:
        yield "swap", node, text_of(node.args[0])
    for place, pair in enumerate(pairwise(node.args)):
        if name not in BOUNDS and name not in ("isinstance", "getattr", "zip", "map") and are_alike(*pair):
            ordered = [*node.args[:place], pair[1], pair[0], *node.args[place + 2 :]]
            yield "swap", node, text_of(ast.Call(node.func, ordered, node.keywords))
    yield from _of_keywords(node)


def _of_keywords(node: ast.Call) -> Iterator[Offer]:
    """Exchange the values of neighbouring fields, and move the value of a field by one."""
    fields = [each for each in node.keywords if each.arg and isinstance(each.value, VALUES)]
    for first, second in pairwise(fields):
        if are_alike(first.value, second.value):
            values = {first.arg: second.value, second.arg: first.value}
            swapped = [ast.keyword(each.arg, values.get(each.arg, each.value)) for each in node.keywords]
            yield "swap", node, text_of(ast.Call(node.func, node.args, swapped))
    for each in fields:
        if isinstance(each.value, ast.Name | ast.Attribute):
            yield from (("offset", each.value, f"({text_of(each.value)} {step} 1)") for step in "+-")
