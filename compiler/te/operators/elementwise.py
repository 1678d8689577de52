"""Element-wise operators: sums, products, and requantisation, which includes ReLU and Clip."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vdla.compiler.ir.nodes import Expr, cast
from vdla.compiler.te.operators.narrowing import Narrowed, Narrowing, narrow
from vdla.compiler.te.tensor import Tensor, compute, placeholder
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
    inputs, wide = _operands(shape, config, 2)
    passes: list[Tensor] = []
    scaled = [
        _alu_pass(wide[number], f"{NAMES[number]}S", _times(factor), passes) if factor != 1 else wide[number]
        for number, factor in enumerate(factors)
    ]
    total = _combined(scaled, lambda left, right: left + right, passes)
    return ElementwiseTensors(inputs, wide, tuple(passes), narrow(total, narrowing, config, ("c",)))


def multiply(
    shape: Shape, config: AcceleratorConfig, narrowing: Narrowing, *, zeros: tuple[int, int] = (0, 0)
) -> ElementwiseTensors:
    """Define narrow((A - zeros[0]) * (B - zeros[1])) for int8[channels, elements, batch, block_out].

    Source: ONNX operator Mul.
    """
    inputs, wide = _operands(shape, config, 2)
    passes: list[Tensor] = []
    moved = [
        _alu_pass(wide[number], f"{NAMES[number]}S", _plus(-zero), passes) if zero else wide[number]
        for number, zero in enumerate(zeros)
    ]
    total = _combined(moved, lambda left, right: left * right, passes)
    return ElementwiseTensors(inputs, wide, tuple(passes), narrow(total, narrowing, config, ("c",)))


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


def _times(factor: int) -> Callable[[Expr], Expr]:
    return lambda value: value * factor


def _plus(addend: int) -> Callable[[Expr], Expr]:
    return lambda value: value + addend


def _alu_pass(source: Tensor, name: str, step: Callable[[Expr], Expr], passes: list[Tensor]) -> Tensor:
    passes.append(compute(source.shape, lambda *at: step(source[at]), name, AXES))
    return passes[-1]


def _combined(operands: Sequence[Tensor], step: Callable[[Expr, Expr], Expr], passes: list[Tensor]) -> Tensor:
    left, right = operands

    def element(*at: Expr) -> Expr:
        return step(left[at], right[at])

    passes.append(compute(left.shape, element, "S", AXES))
    return passes[-1]
