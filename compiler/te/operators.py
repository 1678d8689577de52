"""Operators stated as tensor expressions on the accelerator's blocked layouts.

A tensor of channels is kept in blocks: activations as [n, c, h, w, batch, block], weights as [o, c, kh, kw, block_out, block_in], so that
the last two dimensions are one element of the accelerator's memories.
"""

from dataclasses import dataclass

from vdla.compiler.ir.nodes import IrError, both, cast, maximum, minimum, select
from vdla.compiler.te.tensor import Tensor, compute, placeholder, reduce_axis, sum_over
from vdla.hw.spec.config import AcceleratorConfig


@dataclass(frozen=True, slots=True)
class Convolution:
    """The sizes of a 2-D convolution, groups = 1.

    Attributes:
        batch, channels, height, width: of the input.
        outputs: channels of the output.
        kernel, stride, padding, dilation: (vertical, horizontal).

    Source: ONNX operator Conv.
    """

    channels: int
    height: int
    width: int
    outputs: int
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    batch: int = 1

    def __post_init__(self) -> None:
        if min(self.out_size) < 1:
            raise IrError(f"convolution: a kernel of {self.kernel} with dilation {self.dilation} does not fit an input of "
                          f"{self.height}x{self.width} with padding {self.padding}")

    @property
    def out_size(self) -> tuple[int, int]:
        """Height and width of the output."""
        return tuple((size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for size, pad, dilation, kernel, stride in zip(
            (self.height, self.width), self.padding, self.dilation, self.kernel, self.stride, strict=True))

    @property
    def skips_rows(self) -> bool:
        """Whether whole rows of the input are never read, so that they need not be loaded."""
        return self.kernel[0] == 1 and self.stride[0] > 1 and not any(self.padding)

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return self.batch * self.outputs * self.channels * self.kernel[0] * self.kernel[1] * self.out_size[0] * self.out_size[1]


def matrix_product(rows: int, outputs: int, inputs: int, config: AcceleratorConfig) -> Convolution:
    """Return a matrix product, or a dense layer, as the convolution it is: 1x1, over one column of blocks of `batch` rows.

    inp: int8[1, inputs / block_in, rows / batch, 1, batch, block_in]; out likewise with outputs / block_out.

    Source: ONNX operator Gemm.
    """
    return Convolution(inputs, blocks(rows, config.batch), 1, outputs, (1, 1), batch=config.batch)


@dataclass(frozen=True)
class Sum:
    """An element-wise sum as tensors, producers first.

    Attributes:
        left, right: placeholders.
        wide_left, wide_right: the same as accumulators.
        total, narrowed: their sum, and that requantised.
        out: the result.
    """

    left: Tensor
    right: Tensor
    wide_left: Tensor
    wide_right: Tensor
    total: Tensor
    narrowed: Tensor
    out: Tensor


def add(elements: int, config: AcceleratorConfig, *, shift: int = 0, rectifies: bool = False) -> Sum:
    """State the sum of two tensors of `elements` blocks: clip((left + right + half) >> shift), from 0 on if `rectifies` (ReLU).

    left, right, out: int8[elements, batch, block_out].

    Source: ONNX operators Add and Relu.
    """
    shape, acc = (elements, config.batch, config.block_out), f"int{config.acc_bits}"
    left, right = placeholder(shape, "A", "int8"), placeholder(shape, "B", "int8")
    wide_left, wide_right = (compute(shape, lambda e, b, j, tensor=tensor: cast(acc, tensor[e, b, j]), name, axes=("e", "b", "j"))
                             for tensor, name in ((left, "AL"), (right, "BL")))
    total = compute(shape, lambda e, b, j: wide_left[e, b, j] + wide_right[e, b, j], "S")
    narrowed = requantised(total, shift, rectifies)
    return Sum(left, right, wide_left, wide_right, total, narrowed, compute(shape, lambda e, b, j: cast("int8", narrowed[e, b, j]), "Z"))


@dataclass(frozen=True)
class Operator:
    """An operator as tensors, producers first.

    Attributes:
        inp, wgt: placeholders: activations and weights.
        padded: the input with its border of zeros, or of a kernel one row high only the rows that a stride leaves; None where it is used as it is.
        total: the sums.
        narrowed: the sums, requantised.
        out: the result.
    """

    inp: Tensor
    wgt: Tensor
    padded: Tensor | None
    total: Tensor
    narrowed: Tensor
    out: Tensor


def blocks(size: int, block: int) -> int:
    """Return the blocks that hold `size` channels; the last may be filled up with zeros."""
    return -(-size // block)


def conv2d(size: Convolution, config: AcceleratorConfig, *, shift: int, rectifies: bool = False) -> Operator:
    """State a convolution with requantisation by a power of two.

    inp: int8[n / batch, c / block_in, h, w, batch, block_in]; wgt: int8[o / block_out, c / block_in, kh, kw, block_out, block_in];
    out: int8[n / batch, o / block_out, oh, ow, batch, block_out] = clip((sum + half) >> shift).
    """
    b, i, o, acc = config.batch, config.block_in, config.block_out, f"int{config.acc_bits}"
    n, channels, outputs = blocks(size.batch, b), blocks(size.channels, i), blocks(size.outputs, o)
    inp = placeholder((n, channels, size.height, size.width, b, i), "X", "int8")
    wgt = placeholder((outputs, channels, *size.kernel, o, i), "W", "int8")
    padded = _padded(inp, size) if any(size.padding) else _used_rows(inp, size) if size.skips_rows else None
    source = padded or inp
    ci, dy, dx, k = (reduce_axis(extent, name) for extent, name in ((channels, "ci"), (size.kernel[0], "dy"), (size.kernel[1], "dx"), (i, "k")))
    (sy, sx), (ey, ex) = (1 if size.skips_rows else size.stride[0], size.stride[1]), size.dilation
    total = compute((n, outputs, *size.out_size, b, o), lambda n, o, y, x, b, j: sum_over(
        cast(acc, source[n, ci, y * sy + dy * ey, x * sx + dx * ex, b, k]) * cast(acc, wgt[o, ci, dy, dx, j, k]), (ci, dy, dx, k)), "Y")
    narrowed = requantised(total, shift, rectifies)
    out = compute(total.shape, lambda n, o, y, x, b, j: cast("int8", narrowed[n, o, y, x, b, j]), "Z")
    return Operator(inp, wgt, padded, total, narrowed, out)


def _padded(inp: Tensor, size: Convolution) -> Tensor:
    """Return the input with a border of zeros."""
    n, channels, height, width, b, i = inp.shape
    top, left = size.padding

    def element(n, c, y, x, b, k):
        inside = both(y >= top, y < top + height, x >= left, x < left + width)
        return select(inside, inp[n, c, y - top, x - left, b, k], 0)
    return compute((n, channels, height + 2 * top, width + 2 * left, b, i), element, "P")


def _used_rows(inp: Tensor, size: Convolution) -> Tensor:
    """Return the rows of the input that a kernel one row high reads."""
    n, channels, _, width, b, i = inp.shape
    return compute((n, channels, size.out_size[0], width, b, i), lambda n, c, y, x, b, k: inp[n, c, y * size.stride[0], x, b, k], "P")


def requantised(total: Tensor, shift: int, rectifies: bool) -> Tensor:
    """Return sums shifted right, rounded to nearest with halves up, and clipped to int8, or to its positive half."""
    def element(*axes):
        value = total[axes]
        moved = ((value >> (shift - 1)) + 1) >> 1 if shift else value
        return minimum(maximum(moved, 0 if rectifies else -128), 127)
    return compute(total.shape, element, "R", axes=tuple("noyxbj"[-len(total.shape):]))
