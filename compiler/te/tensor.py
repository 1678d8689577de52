"""Tensor expressions: what is computed, not how.

Source: TVM, OSDI 2018, section 4.1.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from vdla.compiler.ir.nodes import Buffer, Const, Expr, IrError, Read, Var, as_expr
from vdla.compiler.ir.rewrite import Node, Part, rewrite, walk
from vdla.compiler.ir.text import print_expr
from vdla.compiler.ir.types import DTYPES, INDEX


@dataclass(frozen=True, slots=True)
class Axis(Var):
    """A loop of a computation, from 0 to `extent` - 1; in expressions it is its variable.

    Values are combined over a reduction axis.
    """

    extent: int = field(kw_only=True)
    reduces: bool = False

    @property
    def var(self) -> Var:
        """Its loop variable."""
        return Var(self.name)


@dataclass(frozen=True, slots=True)
class Element(Read):
    """A read that refers to its tensor."""

    tensor: "Tensor" = field(compare=False, repr=False)

    def rebuilt(self, below: tuple[Any, ...]) -> "Element":
        return Element(self.buffer, below, self.tensor)


@dataclass(frozen=True, slots=True)
class Reduce(Expr):
    """`value` combined over `axes` by `op`: +, min or max; from `start` on where that is given."""

    op: str
    value: Expr
    axes: tuple[Axis, ...]
    start: int | float | None = None

    @property
    def dtype(self) -> str:
        """Type of the result."""
        return self.value.dtype

    def below(self) -> tuple[Expr, ...]:
        return (self.value,)

    def rebuilt(self, below: tuple[Any, ...]) -> "Reduce":
        return Reduce(self.op, below[0], self.axes, self.start)

    def identity(self) -> Const:
        """Return the value from which the reduction starts."""
        if self.start is not None:
            return Const(self.start, self.dtype)
        kind = DTYPES[self.dtype]
        number = {"+": 0.0 if kind.is_float else 0, "min": kind.greatest, "max": kind.least}[self.op]
        return Const(number, self.dtype)


@dataclass(frozen=True, eq=False)
class Tensor:
    """An array: a placeholder, or what an expression computes.

    Attributes:
        buffer: its name, shape and type.
        axes: one for each dimension; empty for a placeholder.
        value: an element, in terms of `axes`; None for a placeholder.
    """

    buffer: Buffer
    axes: tuple[Axis, ...] = ()
    value: Expr | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.buffer.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""
        return self.buffer.shape

    @property
    def dtype(self) -> str:
        """Type of an element."""
        return self.buffer.dtype

    @property
    def reduce_axes(self) -> tuple[Axis, ...]:
        """The reduction axes."""
        return self.value.axes if isinstance(self.value, Reduce) else ()

    @cached_property
    def inputs(self) -> "tuple[Tensor, ...]":
        """The tensors that it reads, each once, in order of appearance."""
        found: dict[str, Tensor] = {}
        for element in self.elements:
            found.setdefault(element.tensor.name, element.tensor)
        return tuple(found.values())

    @cached_property
    def elements(self) -> "tuple[Element, ...]":
        """The elements that it reads, in order of appearance."""
        return (
            ()
            if self.value is None
            else tuple(part for part in walk(self.value) if isinstance(part, Element))
        )

    def __getitem__(self, indices: object) -> Element:
        """Return an element.

        Raises:
            IrError: the number of subscripts is not that of the dimensions.
        """
        items = indices if isinstance(indices, tuple) else (indices,)
        if len(items) != len(self.shape):
            raise IrError(
                f"{self.name} has {len(self.shape)} dimensions {list(self.shape)}, but {len(items)} "
                "subscripts were given"
            )
        return Element(self.buffer, tuple(as_index(item) for item in items), self)


def as_index(item: object) -> Expr:
    """Return a subscript, or another index, as an expression."""
    expr = as_expr(item)
    if expr.dtype != INDEX:
        raise IrError(f"{print_expr(expr)} is {expr.dtype}, not an index")
    return expr


def placeholder(shape: Sequence[int], name: str, dtype: str = "float32") -> Tensor:
    """Return an input tensor."""
    return Tensor(Buffer(name, tuple(shape), dtype))


def reduce_axis(extent: int, name: str) -> Axis:
    """Return a reduction axis."""
    if not isinstance(extent, int) or extent < 1:
        raise IrError(f"reduction axis {name}: extent {extent!r} is not a positive whole number")
    return Axis(name, INDEX, extent=extent, reduces=True)


def compute(
    shape: Sequence[int], element: Callable[..., Expr], name: str, axes: Sequence[str] = ()
) -> Tensor:
    """Return the tensor whose elements are `element` of their subscripts.

    Args:
        shape: its extents.
        element: called with one loop variable per dimension; its parameter names become the variables' names.
        axes: names of the loop variables, instead of the parameter names.

    Raises:
        IrError: the expression is ill-formed: a reduction inside another expression, an undeclared axis, a
            type clash.
    """
    names = tuple(axes) or tuple(inspect.signature(element).parameters)
    if len(names) != len(shape):
        raise IrError(
            f"{name} has {len(shape)} dimensions {list(shape)}, but its expression takes {len(names)} "
            f"subscripts ({', '.join(names)})"
        )
    own = tuple(Axis(axis, INDEX, extent=extent) for axis, extent in zip(names, shape, strict=True))
    value = with_plain_axes(as_expr(element(*(axis.var for axis in own)), "int32"))
    _check(name, own, value)
    return Tensor(Buffer(name, tuple(shape), value.dtype), own, value)


def _check(name: str, own: tuple[Axis, ...], value: Expr) -> None:
    """Refuse reductions below the top, and variables that are not an axis."""
    combined = value.axes if isinstance(value, Reduce) else ()
    inner = value.value if isinstance(value, Reduce) else value
    known = {axis.name for axis in (*own, *combined)}
    if len(known) < len(own) + len(combined):
        raise IrError(
            f"{name}: two axes have one name among {', '.join(axis.name for axis in (*own, *combined))}"
        )
    for part in walk(inner):
        if isinstance(part, Reduce):
            raise IrError(
                f"{name}: a reduction stands inside another expression; give it a tensor of its own"
            )
        if isinstance(part, Var) and part.name not in known:
            raise IrError(
                f"{name}: {part.name} is not an axis of {name}; it has {', '.join(sorted(known))}. Pass "
                "reduction axes to sum, min or max"
            )


def reduced(op: str, value: Expr, axis: Axis | Iterable[Axis], start: int | float | None = None) -> Reduce:
    """Return the reduction of `value` by `op` over one or several axes, from `start` on if it is given."""
    axes = (axis,) if isinstance(axis, Axis) else tuple(axis)
    for item in axes:
        if not isinstance(item, Axis) or not item.reduces:
            raise IrError(f"{item!r} is not a reduction axis; make one with reduce_axis(extent, name)")
    return Reduce(op, value, axes, start)


def sum_over(value: Expr, axis: Axis | Iterable[Axis]) -> Reduce:
    """Return the sum over one or several axes."""
    return reduced("+", value, axis)


def max_over(value: Expr, axis: Axis | Iterable[Axis], *, start: int | float | None = None) -> Reduce:
    """Return the maximum over one or several axes, and `start`."""
    return reduced("max", value, axis, start)


def min_over(value: Expr, axis: Axis | Iterable[Axis], *, start: int | float | None = None) -> Reduce:
    """Return the minimum over one or several axes, and `start`."""
    return reduced("min", value, axis, start)


def with_plain_axes(value: Expr) -> Expr:
    """Return an expression with axes replaced by variables."""

    def change(part: Node) -> Node | None:
        return part.var if isinstance(part, Axis) else None

    if isinstance(value, Reduce):
        return replace(value, value=rewrite(value.value, change))
    return rewrite(value, change)


def plain(node: Part) -> Part:
    """Return `node` with plain reads, which do not refer to their tensors."""
    return rewrite(node, lambda part: Read(part.buffer, part.indices) if isinstance(part, Element) else None)
