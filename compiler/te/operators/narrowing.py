"""Narrowing of accumulators to int8 outputs, by requantisation in the store unit or by ALU passes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.compiler.ir.nodes import Expr, cast, maximum, minimum
from vdla.compiler.te.tensor import Tensor, compute, placeholder
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.numerics import BYTE_BITS, MULTIPLIER_BITS, SHIFT_BITS
from vdla.hw.spec.vocabulary import Parameter

GREATEST = 127
LEAST = -128


@dataclass(frozen=True, slots=True)
class Shift:
    """Division by 2^amount, rounded to nearest with halves up, and saturation to the range of outputs.

    It takes two to four ALU passes and works on every configuration.

    Attributes:
        amount: right shift, in bits.
        rectifies: the lower bound is 0 (ReLU).
    """

    amount: int
    rectifies: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """Requantisation in the store unit, `vdla.hw.spec.numerics.requantise`; needs the extension REQUANTISE.

    Attributes:
        by_channel: parameters per output channel; else all blocks of channels share the parameters of a
            single block.
    """

    by_channel: bool = True


@dataclass(frozen=True, slots=True)
class AddingScale(Scale):
    """Requantisation followed by the addition of residuals. The parameters of the addition are the first set
    on chip."""


Narrowing = Shift | Scale


@dataclass(frozen=True)
class Narrowed:
    """The tensors of a narrowing.

    Attributes:
        passes: results of the ALU passes, producers first.
        parameters: placeholder int32[..., 4, batch, block_out]; None for a `Shift`.
        out: the outputs.
    """

    passes: tuple[Tensor, ...]
    parameters: Tensor | None
    out: Tensor


def requantised(value: Expr, parameter: Callable[[Parameter], Expr]) -> Expr:
    """Return the int8 expression of an accumulator after requantisation.

    Args:
        parameter: returns the parameter of the accumulator's channel, by kind.

    Source: `vdla.hw.spec.numerics.requantise`.
    """
    wide = "int64"

    def byte(word: Expr, place: int) -> Expr:
        return cast(wide, cast("int8", word >> place * BYTE_BITS if place else word))

    shift_and_zero, clip = parameter(Parameter.SHIFT), parameter(Parameter.CLIP)
    shift = cast(wide, shift_and_zero) % (1 << SHIFT_BITS)
    product = cast(wide, value + parameter(Parameter.BIAS)) * (
        cast(wide, parameter(Parameter.MULTIPLIER)) % (1 << MULTIPLIER_BITS)
    )
    scaled = ((((product << 1) >> shift) + 1) >> 1) + byte(shift_and_zero, 1)  # half of 2^63 would not fit
    return cast("int8", maximum(minimum(scaled, byte(clip, 1)), byte(clip, 0)))


def blocked_parameters(words: np.ndarray, config: AcceleratorConfig) -> np.ndarray:
    """Convert int[4, channels] to int[channels / block_out, 4, batch, block_out], repeated along the batch.
    Padding channels have parameters 0, which give outputs of 0."""
    rows, channels = words.shape
    whole = np.pad(words, ((0, 0), (0, -channels % config.block_out)))
    parts = whole.reshape(rows, -1, 1, config.block_out).transpose(1, 0, 2, 3)
    return np.ascontiguousarray(np.repeat(parts, config.batch, 2)).astype(f"int{config.acc_bits}")


def narrow(
    total: Tensor,
    narrowing: Narrowing,
    config: AcceleratorConfig,
    channels: Sequence[str] = (),
    order: Sequence[str] = (),
) -> Narrowed:
    """Return the int8 outputs of accumulators [..., batch, block_out].

    Args:
        channels: axes of `total` that select the block of channels.
        order: axes of the outputs, if their order differs from the axes of `total`.
    """
    axes = tuple(axis.name for axis in total.axes)
    order = tuple(order) or axes
    shape = tuple(total.shape[axes.index(name)] for name in order)
    if isinstance(narrowing, Scale):
        return _scaled(total, config, axes, channels if narrowing.by_channel else (), order, shape)
    passes = _passes(total, narrowing, axes)
    last = passes[-1]
    return Narrowed(
        passes, None, compute(shape, lambda *at: cast("int8", last[_in_order(axes, order, at)]), "Z", order)
    )


def _in_order(axes: Sequence[str], order: Sequence[str], at: Sequence[Expr]) -> tuple[Expr, ...]:
    """Permute subscripts from `order` to the order of `axes`."""
    return tuple(at[order.index(name)] for name in axes)


def _scaled(
    total: Tensor,
    config: AcceleratorConfig,
    axes: Sequence[str],
    channels: Sequence[str],
    order: Sequence[str],
    shape: Sequence[int],
) -> Narrowed:
    lead = tuple(extent for axis, extent in zip(axes, total.shape, strict=True) if axis in channels) or (1,)
    parameters = placeholder((*lead, len(Parameter), config.batch, config.block_out), "P", total.dtype)

    def element(*at: Expr) -> Expr:
        block = tuple(index for axis, index in zip(order, at, strict=True) if axis in channels) or (0,)
        return requantised(
            total[_in_order(axes, order, at)], lambda row: parameters[(*block, int(row), *at[-2:])]
        )

    return Narrowed((), parameters, compute(shape, element, "Z", order))


def _passes(total: Tensor, shift: Shift, axes: Sequence[str]) -> tuple[Tensor, ...]:
    """Return the result of each ALU pass."""
    half = 1 << shift.amount >> 1
    steps = (
        [("rounded", lambda value: value + half), ("shifted", lambda value: value >> shift.amount)]
        if shift.amount
        else []
    )
    steps += [
        ("raised", lambda value: maximum(value, 0 if shift.rectifies else LEAST)),
        ("lowered", lambda value: minimum(value, GREATEST)),
    ]
    passes, source = [], total
    for name, step in steps:
        source = compute(total.shape, lambda *at, source=source, step=step: step(source[at]), name, axes)
        passes.append(source)
    return tuple(passes)
