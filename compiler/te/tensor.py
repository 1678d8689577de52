"""Tensor expressions: the computation without its schedule.

Source: TVM, OSDI 2018, section 4.1.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from vdla.compiler.ir.nodes import Buffer, Const, Expr, IrError, Read, Var, as_expr
from vdla.compiler.ir.rewrite import Node, rewrite, walk
from vdla.compiler.ir.text import print_expr
from vdla.compiler.ir.types import DTYPES, INDEX


@dataclass(frozen=True, slots=True)
class Axis(Var):
    """A loop of a computation, from 0 to `extent` - 1; in expressions, its loop variable.

    Attributes:
        extent: number of iterations.
        reduces: a reduction axis, over which values are accumulated.
    """

    extent: int = field(kw_only=True)
    reduces: bool = False

    @property
    def var(self) -> Var:
        """The loop variable."""
        return Var(self.name)


@dataclass(frozen=True, slots=True)
class Element(Read):
    """A read of a tensor's element, with a reference to the tensor."""

    tensor: "Tensor" = field(compare=False, repr=False)

    def rebuilt(self, below: tuple[Any, ...]) -> "Element":
        return Element(self.buffer, below, self.tensor)


@dataclass(frozen=True, slots=True)
class Reduce(Expr):
    """The reduction of `value` over `axes` by `op`: +, min or max.

    Attributes:
        start: initial value; None: the identity of `op`.
    """

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
        """Return the initial value of the reduction."""
        if self.start is not None:
            return Const(self.start, self.dtype)
        kind = DTYPES[self.dtype]
        number = {"+": 0.0 if kind.is_float else 0, "min": kind.greatest, "max": kind.least}[self.op]
        return Const(number, self.dtype)


@dataclass(frozen=True, eq=False)
class Tensor:
    """An array: a placeholder, or the result of an expression.

    Attributes:
        buffer: name, shape and type.
        axes: an axis per dimension; empty for a placeholder.
        value: expression of an element in terms of `axes`; None for a placeholder.
    """

    buffer: Buffer
    axes: tuple[Axis, ...] = ()
    value: Expr | None = None

    @property
    def name(self) -> str:
        """Name of the buffer."""
        return self.buffer.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the dimensions."""
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
        """The distinct tensors that the expression reads, in order of appearance."""
        sources: dict[str, Tensor] = {}
        for element in self.elements:
            sources.setdefault(element.tensor.name, element.tensor)
        return tuple(sources.values())

    @cached_property
    def elements(self) -> "tuple[Element, ...]":
        """The elements that the expression reads, in order of appearance."""
        return (
            ()
            if self.value is None
            else tuple(part for part in walk(self.value) if isinstance(part, Element))
        )

    def __getitem__(self, indices: object) -> Element:
        """Return an element.

        Raises:
            IrError: the number of subscripts differs from the number of dimensions, or a subscript is not an
                index.
        """
        items = indices if isinstance(indices, tuple) else (indices,)
        if len(items) != len(self.shape):
            raise IrError(
                f"{self.name} has {len(self.shape)} dimensions {list(self.shape)}, but {len(items)} "
                "subscripts were given"
            )
        return Element(self.buffer, tuple(as_index(item) for item in items), self)


def as_index(item: object) -> Expr:
    """Return an index as an expression.

    Raises:
        IrError: the item is not of type `index`.
    """
    expr = as_expr(item)
    if expr.dtype != INDEX:
        raise IrError(f"{print_expr(expr)} is {expr.dtype}, not an index")
    return expr


def placeholder(shape: Sequence[int], name: str, dtype: str = "float32") -> Tensor:
    """Return an input tensor."""
    return Tensor(Buffer(name, tuple(shape), dtype))


def reduce_axis(extent: int, name: str) -> Axis:
    """Return a reduction axis.

    Raises:
        IrError: the extent is not a positive whole number.
    """
    if not isinstance(extent, int) or extent < 1:
        raise IrError(f"reduction axis {name}: extent {extent!r} is not a positive whole number")
    return Axis(name, INDEX, extent=extent, reduces=True)


def compute(
    shape: Sequence[int], element: Callable[..., Expr], name: str, axes: Sequence[str] = ()
) -> Tensor:
    """Return the tensor whose element at each index is `element(*index)`.

    Args:
        shape: extents of the tensor.
        element: called with a loop variable per dimension; its parameter names become the variables' names.
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
    spatial = tuple(Axis(axis, INDEX, extent=extent) for axis, extent in zip(names, shape, strict=True))
    value = with_plain_axes(as_expr(element(*(axis.var for axis in spatial)), "int32"))
    _check(name, spatial, value)
    return Tensor(Buffer(name, tuple(shape), value.dtype), spatial, value)


def _check(name: str, spatial: tuple[Axis, ...], value: Expr) -> None:
    """Reject nested reductions, and variables that are not axes of the tensor."""
    combined = value.axes if isinstance(value, Reduce) else ()
    inner = value.value if isinstance(value, Reduce) else value
    known = {axis.name for axis in (*spatial, *combined)}
    if len(known) < len(spatial) + len(combined):
        raise IrError(
            f"{name}: two axes have the same name among "
            f"{', '.join(axis.name for axis in (*spatial, *combined))}"
        )
    for part in walk(inner):
        if isinstance(part, Reduce):
            raise IrError(
                f"{name}: a reduction is nested inside another expression; give it a separate tensor"
            )
        if isinstance(part, Var) and part.name not in known:
            raise IrError(
                f"{name}: {part.name} is not an axis of {name}; it has {', '.join(sorted(known))}. Pass "
                "reduction axes to sum_over or max_over"
            )


def reduction(op: str, value: Expr, axis: Axis | Iterable[Axis], start: int | float | None = None) -> Reduce:
    """Return the reduction of `value` by `op` over the given axes, with the initial value `start` if given.

    Raises:
        IrError: an axis is not a reduction axis.
    """
    axes = (axis,) if isinstance(axis, Axis) else tuple(axis)
    for item in axes:
        if not isinstance(item, Axis) or not item.reduces:
            raise IrError(f"{item!r} is not a reduction axis; create it with reduce_axis(extent, name)")
    return Reduce(op, value, axes, start)


def sum_over(value: Expr, axis: Axis | Iterable[Axis]) -> Reduce:
    """Return the sum over the given axes."""
    return reduction("+", value, axis)


def max_over(value: Expr, axis: Axis | Iterable[Axis], *, start: int | float | None = None) -> Reduce:
    """Return the maximum of `start`, if given, and all values over the given axes."""
    return reduction("max", value, axis, start)


def with_plain_axes(value: Expr) -> Expr:
    """Return an expression with axes replaced by variables."""

    def change(part: Node) -> Node | None:
        return part.var if isinstance(part, Axis) else None

    if isinstance(value, Reduce):
        return replace(value, value=rewrite(value.value, change))
    return rewrite(value, change)
