"""Convolution, and its special cases: matrix product, dense layer, depthwise convolution, average pooling."""

from dataclasses import dataclass
from typing import Protocol

from vdla.compiler.ir.nodes import Expr, all_of, cast, select
from vdla.compiler.te.operators.narrowing import Narrowed, Narrowing, narrow
from vdla.compiler.te.operators.sizes import Convolution, Pads, blocks, grouping
from vdla.compiler.te.tensor import Tensor, compute, placeholder, reduce_axis, sum_over
from vdla.hw.spec.config import AcceleratorConfig


@dataclass(frozen=True)
class ConvolutionTensors:
    """The tensors of a convolution, producers first.

    Attributes:
        inp, wgt: placeholders of activations and weights.
        padded: the padded input; for a kernel of height 1, only the rows that the stride keeps; None if the
            input is read directly.
        total: the sums, in accumulators.
        narrowed: the sums after narrowing.
        outer: names of the loops around tiles, without the loops over outputs, rows and columns ("o", "y"
            and "x").
        slides: the sums are over windows of columns, not over blocks of channels.
    """

    inp: Tensor
    wgt: Tensor
    padded: Tensor | None
    total: Tensor
    narrowed: Narrowed
    outer: tuple[str, ...] = ("n", "g")
    slides: bool = False

    @property
    def out(self) -> Tensor:
        """The result."""
        return self.narrowed.out


def conv2d(
    size: Convolution,
    config: AcceleratorConfig,
    narrowing: Narrowing,
    *,
    border: int = 0,
    alike: bool = False,
) -> ConvolutionTensors:
    """Define a convolution.

    With g joined groups (see `Grouping`):
    inp: int8[n / batch, c / block_in, h, w, batch, block_in];
    wgt: int8[g, o / block_out, c / block_in, kh, kw, block_out, block_in], where o and c count the channels
        of a joined group, with zeros between its groups;
    parameters: int32[g, o / block_out, 4, batch, block_out];
    out: int8[n / batch, g, o / block_out, oh, ow, batch, block_out].

    Args:
        border: value of the padding: 0, or -128, the least input.
        alike: all blocks of weights are equal; `wgt` has one, int8[1, 1, 1, 1, 1, block_out, block_in].

    Source: ONNX operator Conv.
    """
    b, i, o, acc = config.batch, config.block_in, config.block_out, f"int{config.acc_bits}"
    n, groups = blocks(size.batch, b), grouping(size, config)
    inp = placeholder((n, groups.count * groups.inputs, size.height, size.width, b, i), "X", "int8")
    kernels = (1,) * 5 if alike else (groups.count, groups.outputs, groups.inputs, *size.kernel)
    wgt = placeholder((*kernels, o, i), "W", "int8")
    padded = padded_input(inp, size, border)
    source, (ey, ex) = padded or inp, size.dilation
    sy, sx = 1 if size.skips_rows else size.stride[0], size.stride[1]
    ci, dy, dx, k = map(reduce_axis, (groups.inputs, *size.kernel, i), ("ci", "dy", "dx", "k"))

    def product(n: Expr, g: Expr, o: Expr, y: Expr, x: Expr, b: Expr, j: Expr) -> Expr:
        pixel = source[n, g * groups.inputs + ci, y * sy + dy * ey, x * sx + dx * ex, b, k]
        weight = wgt[(*((0,) * 5 if alike else (g, o, ci, dy, dx)), j, k)]
        return sum_over(cast(acc, pixel) * cast(acc, weight), (ci, dy, dx, k))

    total = compute((n, groups.count, groups.outputs, *size.out_size, b, o), product, "Y")
    return ConvolutionTensors(inp, wgt, padded, total, narrow(total, narrowing, config, ("g", "o")))


def padded_input(inp: Tensor, size: Convolution, border: int) -> Tensor | None:
    """Return the padded input, or the rows of the input that the stride keeps; None if neither differs from
    the input."""
    if any(size.padding):
        return with_border(inp, size, border, "XP")
    return _used_rows(inp, size) if size.skips_rows else None


class Padded(Protocol):
    """Sizes of an operator with padding, for `with_border`."""

    @property
    def padding(self) -> Pads:
        """Pixels above, to the left, below, to the right."""


def with_border(inp: Tensor, size: Padded, border: int, name: str, dtype: str = "int8") -> Tensor:
    """Return [n, c, h, w, batch, block] padded by `size.padding` with the value `border`, as `dtype`."""
    n, channels, height, width, *tile = inp.shape
    top, left, below, right = size.padding

    def element(n: Expr, c: Expr, y: Expr, x: Expr, b: Expr, k: Expr) -> Expr:
        inside = all_of(y >= top, y < top + height, x >= left, x < left + width)
        return select(inside, cast(dtype, inp[n, c, y - top, x - left, b, k]), border)

    return compute((n, channels, height + top + below, width + left + right, *tile), element, name)


def _used_rows(inp: Tensor, size: Convolution) -> Tensor:
    """Return the rows of the input that a strided kernel of height 1 reads."""
    n, channels, _, width, b, i = inp.shape
    return compute(
        (n, channels, size.out_size[0], width, b, i),
        lambda n, c, y, x, b, k: inp[n, c, y * size.stride[0], x, b, k],
        "XP",
    )
