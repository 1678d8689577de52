"""Operators of the ALU: element-wise operators and max pooling. Average pooling is a convolution."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from vdla.compiler.ir.nodes import Expr, cast
from vdla.compiler.te.operators.convolution import with_border
from vdla.compiler.te.operators.narrowing import LEAST, Narrowed, Narrowing, narrow
from vdla.compiler.te.operators.sizes import Pooling, blocks
from vdla.compiler.te.tensor import Tensor, compute, max_over, placeholder, reduce_axis
from vdla.hw.spec.config import AcceleratorConfig


@dataclass(frozen=True)
class ElementwiseTensors:
    """The tensors of an element-wise operator with one or two operands, producers first.

    Attributes:
        inputs: placeholders of the operands, int8.
        wide: the operands, widened to accumulators.
        passes: results of the ALU passes; the last is the total. Without passes, `wide` is the total.
        narrowed: the total after narrowing.
    """

    inputs: tuple[Tensor, ...]
    wide: tuple[Tensor, ...]
    passes: tuple[Tensor, ...]
    narrowed: Narrowed

    @property
    def out(self) -> Tensor:
        """The result."""
        return self.narrowed.out


AXES = ("c", "e", "b", "j")
NAMES = ("A", "B")
Step: TypeAlias = Callable[[Expr, Any], Expr]
Shape = tuple[int, int]  # blocks of channels, and elements of a block


def requantise(shape: Shape, config: AcceleratorConfig, narrowing: Narrowing) -> ElementwiseTensors:
    """Define the requantisation of int8[channels, elements, batch, block_out], with ReLU and Clip as bounds.

    Source: ONNX operators Relu, Clip, QuantizeLinear of DequantizeLinear.
    """
    (source,), (wide,) = _operands(shape, config, 1)
    return ElementwiseTensors((source,), (wide,), (), narrow(wide, narrowing, config, ("c",)))


def copy(shape: Shape, config: AcceleratorConfig) -> ElementwiseTensors:
    """Define a copy of int8[channels, elements, batch, block_out].

    Source: ONNX operators Concat, Identity.
    """
    (source,), (wide,) = _operands(shape, config, 1)
    return ElementwiseTensors(
        (source,),
        (wide,),
        (),
        Narrowed((), None, compute(wide.shape, lambda *at: cast("int8", wide[at]), "Z", AXES)),
    )


def add(
    shape: Shape, config: AcceleratorConfig, narrowing: Narrowing, *, factors: tuple[int, int] = (1, 1)
) -> ElementwiseTensors:
    """Define narrow(A * factors[0] + B * factors[1]) for int8[channels, elements, batch, block_out].

    Args:
        factors: signed 16-bit factors of the operands.

    Source: ONNX operator Add.
    """
    return of_two(shape, config, narrowing, factors, 1, operator.mul, operator.add)


def multiply(
    shape: Shape, config: AcceleratorConfig, narrowing: Narrowing, *, zeros: tuple[int, int] = (0, 0)
) -> ElementwiseTensors:
    """Define narrow((A - zeros[0]) * (B - zeros[1])) for int8[channels, elements, batch, block_out].

    Source: ONNX operator Mul.
    """
    left, right = zeros
    return of_two(shape, config, narrowing, (-left, -right), 0, operator.add, operator.mul)


def of_two(
    shape: Shape,
    config: AcceleratorConfig,
    narrowing: Narrowing,
    constants: tuple[int, int],
    neutral: int,
    prepare: Step,
    combine: Step,
) -> ElementwiseTensors:
    """Define narrow(combine(prepare(A, constants[0]), prepare(B, constants[1]))).

    Args:
        neutral: constant that does not change an operand, for which there is no ALU pass.
    """
    inputs, wide = _operands(shape, config, 2)
    left, right = prepared = [
        _alu_pass(f"{source.name[0]}S", lambda value, constant=constant: prepare(value, constant), source)
        if constant != neutral
        else source
        for source, constant in zip(wide, constants, strict=True)
    ]
    total = _alu_pass("S", combine, left, right)
    passes = (*(part for part in prepared if part not in wide), total)
    return ElementwiseTensors(inputs, wide, passes, narrow(total, narrowing, config, ("c",)))


def _operands(
    shape: Shape, config: AcceleratorConfig, count: int
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the placeholders of the operands, and the operands widened to accumulators."""
    whole, acc = (*shape, config.batch, config.block_out), f"int{config.acc_bits}"
    inputs = tuple(placeholder(whole, name, "int8") for name in NAMES[:count])
    return inputs, tuple(
        compute(whole, lambda *at, source=source: cast(acc, source[at]), f"{source.name}L", AXES)
        for source in inputs
    )


def _alu_pass(name: str, step: Callable[..., Expr], *sources: Tensor) -> Tensor:
    return compute(sources[0].shape, lambda *at: step(*(source[at] for source in sources)), name, AXES)


@dataclass(frozen=True)
class MaxPoolTensors:
    """The tensors of a max pooling, producers first.

    Attributes:
        inp: placeholder of the input, int8.
        wide: the padded input, widened to accumulators.
        greatest: the maximum of each window, in accumulators.
        out: the result, int8.
    """

    inp: Tensor
    wide: Tensor
    greatest: Tensor
    out: Tensor


def max_pool(size: Pooling, config: AcceleratorConfig) -> MaxPoolTensors:
    """Define max pooling of int8[n / batch, c / block_out, h, w, batch, block_out].

    The result is int8[n / batch, c / block_out, oh, ow, batch, block_out]. The padding is the least value of
    int8.

    Source: ONNX operator MaxPool.
    """
    b, o, acc = config.batch, config.block_out, f"int{config.acc_bits}"
    inp = placeholder(
        (blocks(size.batch, b), blocks(size.channels, o), size.height, size.width, b, o), "X", "int8"
    )
    wide = (
        with_border(inp, size.padding, LEAST, "XW", acc)
        if any(size.padding)
        else compute(inp.shape, lambda n, c, y, x, b, k: cast(acc, inp[n, c, y, x, b, k]), "XW")
    )
    dy, dx = reduce_axis(size.kernel[0], "dy"), reduce_axis(size.kernel[1], "dx")
    (sy, sx), shape = size.stride, (*inp.shape[:2], *size.out_size, b, o)
    greatest = compute(
        shape,
        lambda n, c, y, x, b, j: max_over(wide[n, c, y * sy + dy, x * sx + dx, b, j], (dy, dx), start=LEAST),
        "Y",
    )
    return MaxPoolTensors(
        inp,
        wide,
        greatest,
        compute(shape, lambda n, c, y, x, b, j: cast("int8", greatest[n, c, y, x, b, j]), "Z"),
    )
