"""The rule of parts: an expression that no instruction means is divided, or written into its readers.

`Y[i] = sum over c of int32(X[c, i]) * int32(X[c, i])` becomes `W[c, i] = int32(X[c, i])`, `S[c, i] =
W[c, i] * W[c, i]` and `Y[i] = sum over c of S[c, i]`, each of which is an instruction's.
"""

from collections.abc import Mapping
from dataclasses import replace
from textwrap import shorten

from vdla.compiler.codegen.derived.units import UnderivableError, text_of, units_of
from vdla.compiler.codegen.nest import TILE_RANK
from vdla.compiler.ir.nodes import Buffer, Const, Expr, Read
from vdla.compiler.ir.rewrite import Node, has_reads, rewrite, substitute, variables, walk
from vdla.compiler.ir.types import INDEX
from vdla.compiler.te.tensor import Axis, Element, Reduce, Tensor
from vdla.hw.spec.config import AcceleratorConfig

TEXT = 160  # characters of an expression in an error
MOST_PARTS = 16  # of one expression


def in_order(output: Tensor) -> list[Tensor]:
    """Return a tensor and all that it is computed from, placeholders too, producers first."""
    found: dict[str, Tensor] = {}

    def visit(tensor: Tensor) -> None:
        if tensor.name not in found:
            for source in tensor.inputs:
                visit(source)
            found[tensor.name] = tensor

    visit(output)
    return list(found.values())


def reading(tensor: Tensor, others: Mapping[str, Tensor]) -> Tensor:
    """Return `tensor` reading other tensors of the same shape, by the names of those it reads."""

    def change(part: Node) -> Node | None:
        if isinstance(part, Element) and part.tensor.name in others:
            other = others[part.tensor.name]
            return Element(other.buffer, part.indices, other)
        return None

    return tensor if tensor.value is None else replace(tensor, value=rewrite(tensor.value, change))


def in_parts(output: Tensor, config: AcceleratorConfig) -> Tensor:
    """Return `output` computed from tensors each of which an instruction computes.

    Raises:
        UnderivableError: that cannot be had; with the matcher's reasons.
    """
    done: dict[str, Tensor] = {}
    inlined: dict[str, Tensor] = {}
    for tensor in in_order(output):
        own = reading(_inlining(tensor, inlined), done)
        if own.value is None or units_of(own, config):
            done[own.name] = own
            continue
        parts = _divided(own, config)
        if parts is not None:
            done[own.name] = parts
        elif isinstance(own.value, Reduce) or own.name == output.name:
            raise UnderivableError(
                f"{own.name}: no instructions of {config.name} compute {shorten(text_of(own.value), TEXT)}; "
                "write it by others, or switch on the extension that has one"
            )
        else:
            inlined[own.name] = own
    return done[output.name]


def _inlining(tensor: Tensor, inlined: Mapping[str, Tensor]) -> Tensor:
    """Return `tensor` with the expressions of some tensors in place of their elements."""

    def change(part: Node) -> Node | None:
        if isinstance(part, Element) and part.tensor.name in inlined:
            source = inlined[part.tensor.name]
            assert source.value is not None, "placeholders are not written into readers"
            axes = zip(source.axes, part.indices, strict=True)
            return substitute(source.value, {axis.name: index for axis, index in axes})
        return None

    return tensor if tensor.value is None else replace(tensor, value=rewrite(tensor.value, change))


def _divided(tensor: Tensor, config: AcceleratorConfig) -> Tensor | None:
    """Return `tensor` computed from parts; None where instructions do not compute them either."""
    waiting, done = [tensor], [tensor]
    made: dict[str, Tensor] = {}
    while waiting:
        part = waiting.pop()
        own, below = _once_divided(part, len(done))
        if not units_of(own, config) or len(done) > MOST_PARTS:
            return None
        made[part.name] = own
        done += below
        waiting += [one for one in below if not units_of(one, config)]
    return _joined(done, made)


def _joined(parts: list[Tensor], divided: Mapping[str, Tensor]) -> Tensor:
    """Return the first of `parts`, each after those it is made of, reading them as they are divided."""
    done: dict[str, Tensor] = {}
    for part in reversed(parts):
        done[part.name] = reading(divided.get(part.name, part), done)
    return done[parts[0].name]


def _once_divided(tensor: Tensor, number: int) -> tuple[Tensor, list[Tensor]]:
    """Return `tensor` reading its operands from tensors of their own, and those; `number` begins their
    names."""
    value = tensor.value
    assert value is not None, "placeholders are not computed"
    made: dict[Expr, tuple[Tensor, tuple[Expr, ...]]] = {}

    def operand(expr: Expr) -> Expr:
        """Return an element that holds the value of `expr`."""
        if isinstance(expr, (Const, Element)) or not has_reads(expr):
            return expr
        if expr not in made:
            made[expr] = _part(expr, tensor, f"{tensor.name}_p{number + len(made)}")
        part, indices = made[expr]
        return part[indices]

    if isinstance(value, Reduce):
        changed: Expr = replace(value, value=operand(value.value))
    else:
        changed = value.rebuilt(tuple(operand(part) for part in value.below()))
    return replace(tensor, value=changed), [part for part, _ in made.values()]


def _shared(expr: Expr, tensor: Tensor) -> Element | None:
    """Return the element that a part of the value of `tensor` depends on alone, wherever it reads it; None
    where it depends on more."""
    elements = {(part.tensor.name, part.indices): part for part in walk(expr) if isinstance(part, Element)}
    bare = rewrite(expr, lambda part: Read(part.buffer, ()) if isinstance(part, Element) else None)
    loops = {axis.name for axis in (*tensor.axes, *tensor.reduce_axes)}
    return None if len(elements) > 1 or variables(bare) & loops else next(iter(elements.values()))


def _part(expr: Expr, tensor: Tensor, name: str) -> tuple[Tensor, tuple[Expr, ...]]:
    """Return a tensor that holds a part of the value of `tensor`, and where it is read: one of the shape of
    the tensor whose single element it depends on, else one with a dimension for every loop."""
    shared = _shared(expr, tensor)
    outer, tile = tensor.axes[:-TILE_RANK], tensor.axes[-TILE_RANK:]
    loops = (*outer, *tensor.reduce_axes, *tile)
    shape = tuple(axis.extent for axis in loops) if shared is None else shared.tensor.shape
    axes = tuple(Axis(f"{name}_{place}", INDEX, extent=extent) for place, extent in enumerate(shape))
    own = tuple(axis.var for axis in axes)
    if shared is None:
        value = substitute(expr, {axis.name: var for axis, var in zip(loops, own, strict=True)})
        return Tensor(Buffer(name, shape, expr.dtype), axes, value), tuple(axis.var for axis in loops)

    def change(part: Node) -> Node | None:
        return replace(part, indices=own) if isinstance(part, Element) else None

    return Tensor(Buffer(name, shape, expr.dtype), axes, rewrite(expr, change)), shared.indices
