"""Convolution, and its special cases: matrix product, dense layer, average pooling, depthwise and transposed
convolution.

A depthwise convolution may be sums over windows of three columns, which a DEPTHWISE slides along rows. Each
phase of the result of a transposed convolution is a convolution with every stride-th kernel element.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from vdla.compiler.ir.nodes import Expr, all_of, cast, select
from vdla.compiler.te.operators.narrowing import Narrowed, Narrowing, narrow
from vdla.compiler.te.operators.sizes import (
    Convolution,
    Pads,
    Phases,
    Transposed,
    blocks,
    grouping,
    phases,
    phases_fault,
)
from vdla.compiler.te.tensor import Tensor, compute, placeholder, reduce_axis, sum_over
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import PAIR, TAPS
from vdla.hw.spec.timing import depthwise_slots
from vdla.hw.spec.vocabulary import Extension


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
        return with_border(inp, size.padding, border, "XP")
    return _used_rows(inp, size) if size.skips_rows else None


def with_border(inp: Tensor, padding: Pads, border: int, name: str, dtype: str = "int8") -> Tensor:
    """Return [n, c, h, w, batch, block] padded by `padding` pixels with the value `border`, as `dtype`."""
    n, channels, height, width, *tile = inp.shape
    top, left, below, right = padding

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


STRIDES = (1, 2)  # of a window


def prefers_windows(size: Convolution, config: AcceleratorConfig) -> bool:
    """Whether windows compute a convolution in no more slots than products.

    It must be depthwise with multiplier 1, with adjacent kernel columns.
    """
    if not (
        config.has(Extension.DEPTHWISE)
        and size.groups == size.channels == size.outputs
        and size.dilation[1] == 1
        and size.stride[1] in STRIDES
    ):
        return False
    (_, columns), (_, width) = size.kernel, size.out_size
    slots: int = blocks(columns, TAPS) * depthwise_slots(width, size.stride[1] - 1)
    return slots <= columns * width


def with_whole_windows(size: Convolution) -> Convolution:
    """Return the convolution with its kernel widened to whole windows. The added columns have zero weights
    and read padding."""
    height, width = size.kernel
    more = -width % TAPS
    top, left, below, right = size.padding
    return replace(size, kernel=(height, width + more), padding=(top, left, below, right + more))


def conv2d_windows(
    size: Convolution, config: AcceleratorConfig, narrowing: Narrowing, *, border: int
) -> ConvolutionTensors:
    """Define a depthwise convolution with kernels of whole windows; see `with_whole_windows`.

    inp: int8[n / batch, c / block, h, w, batch, block];
    wgt: int8[c / block, 1, 1, kh, kw / 3, block, block], the result of `window_weights`;
    parameters: int32[c / block, 1, 4, batch, block];
    out: int8[n / batch, c / block, 1, oh, ow, batch, block].

    Args:
        border: value of the padding: 0, or -128, the least input.
    """
    b, block, acc = config.batch, config.block_in, f"int{config.acc_bits}"
    n, groups = blocks(size.batch, b), blocks(size.channels, block)
    (height, width), (sy, sx), ey = size.kernel, size.stride, size.dilation[0]
    inp = placeholder((n, groups, size.height, size.width, b, block), "X", "int8")
    wgt = placeholder((groups, 1, 1, height, width // TAPS, block, block), "W", "int8")
    padded = padded_input(inp, size, border)
    source, sy = padded or inp, 1 if size.skips_rows else sy
    ci, dy, dx = map(reduce_axis, (1, height, width // TAPS), ("ci", "dy", "dx"))

    def product(n: Expr, g: Expr, o: Expr, y: Expr, x: Expr, b: Expr, j: Expr) -> Expr:
        terms = (
            cast(acc, source[n, g + ci, y * sy + dy * ey, x * sx + dx * TAPS + tap, b, j])
            * cast(acc, wgt[g, o, ci, dy, dx, j, j % PAIR * TAPS + tap])
            for tap in range(TAPS)
        )
        return sum_over(reduce(add, terms), (ci, dy, dx))

    total = compute((n, groups, 1, *size.out_size, b, block), product, "Y")
    return ConvolutionTensors(
        inp, wgt, padded, total, narrow(total, narrowing, config, ("g", "o")), slides=True
    )


def window_weights(weights: np.ndarray, size: Convolution, config: AcceleratorConfig) -> np.ndarray:
    """Return weights int8[c, 1, kh, kw] as int8[c / block, 1, 1, kh, windows, block, block]: the taps of even
    channels, then the taps of odd channels, and zeros elsewhere.

    Args:
        size: convolution with kernels of whole windows.
    """
    block, (height, width) = config.block_in, size.kernel
    groups = blocks(size.channels, block)
    whole = np.zeros((groups * block, height, width), np.int8)
    whole[: size.channels, :, : weights.shape[3]] = weights[:, 0]
    taps = whole.reshape(groups, block // PAIR, PAIR, height, width // TAPS, TAPS).transpose(0, 3, 4, 1, 2, 5)
    packed = np.zeros((groups, 1, 1, height, width // TAPS, block // PAIR, PAIR, block), np.int8)
    for place in range(PAIR):
        packed[:, 0, 0, ..., place, place * TAPS : (place + 1) * TAPS] = taps[..., place, :]
    return packed.reshape(*packed.shape[:5], block, block)


def phases_by_side(size: Transposed) -> tuple[Phases, Phases]:
    """Return the phases of the result's rows and columns.

    Raises:
        IrError: rows or columns have no uniform phases.
    """
    rows, columns = (
        phases(length, *side)
        for length, side in zip((size.height, size.width), _axis_sizes(size), strict=True)
    )
    return rows, columns


def sides_fault(size: Transposed) -> str:
    """Return the reason why rows or columns of the result have no uniform phases, or ""."""
    return next((fault for side in _axis_sizes(size) if (fault := phases_fault(*side))), "")


def _axis_sizes(size: Transposed) -> Iterator[tuple[int, int, int, int]]:
    """Yield kernel, stride, padding before, and extent of the result, for rows and columns."""
    return zip(size.kernel, size.stride, size.padding[:2], size.out_size, strict=True)


def phase_convolution(size: Transposed) -> Convolution:
    """Return the convolution that computes a single phase; tile sizes are chosen for it."""
    rows, columns = phases_by_side(size)
    height, width = rows.size + rows.taps - 1, columns.size + columns.taps - 1
    return Convolution(
        size.channels, height, width, size.outputs, (rows.taps, columns.taps), batch=size.batch
    )


def conv2d_transposed(
    size: Transposed, config: AcceleratorConfig, narrowing: Narrowing
) -> ConvolutionTensors:
    """Define a transposed convolution, phase by phase.

    inp: int8[n / batch, c / block_in, h, w, batch, block_in];
    wgt: int8[o / block_out, c / block_in, phases, phases, taps, taps, block_out, block_in];
    parameters: int32[o / block_out, 4, batch, block_out];
    out: int8[n / batch, o / block_out, oh / stride, stride, ow / stride, stride, batch, block_out].
    """
    b, i, o, acc, (rows, columns) = (
        config.batch,
        config.block_in,
        config.block_out,
        f"int{config.acc_bits}",
        phases_by_side(size),
    )
    n, channels, outputs = blocks(size.batch, b), blocks(size.channels, i), blocks(size.outputs, o)
    inp = placeholder((n, channels, size.height, size.width, b, i), "X", "int8")
    wgt = placeholder(
        (outputs, channels, rows.stride, columns.stride, rows.taps, columns.taps, o, i), "W", "int8"
    )
    padded = with_border(inp, (rows.before, columns.before, rows.after, columns.after), 0, "XP")
    ci, dy, dx, k = (
        reduce_axis(extent, name)
        for extent, name in ((channels, "ci"), (rows.taps, "dy"), (columns.taps, "dx"), (i, "k"))
    )

    def product(n: Expr, fy: Expr, fx: Expr, o: Expr, y: Expr, x: Expr, b: Expr, j: Expr) -> Expr:
        pixel = padded[n, ci, y + fy * rows.slope + dy, x + fx * columns.slope + dx, b, k]
        return sum_over(cast(acc, pixel) * cast(acc, wgt[o, ci, fy, fx, dy, dx, j, k]), (ci, dy, dx, k))

    total = compute((n, rows.stride, columns.stride, outputs, rows.size, columns.size, b, o), product, "Y")
    narrowed = narrow(total, narrowing, config, ("o",), ("n", "o", "y", "fy", "x", "fx", "b", "j"))
    return ConvolutionTensors(inp, wgt, padded, total, narrowed, ("n", "fy", "fx"))


def phase_weights(weights: np.ndarray, size: Transposed, config: AcceleratorConfig) -> np.ndarray:
    """Return weights int8[c, o, kh, kw] in blocks, phase by phase: int8[o / block_out, c / block_in, phases,
    phases, taps, taps, block_out, block_in]. Phases with fewer taps are padded with zeros."""
    rows, columns = phases_by_side(size)
    by_phase = np.zeros(
        (size.outputs, size.channels, rows.stride, columns.stride, rows.taps, columns.taps), np.int8
    )
    for fy, fx, dy, dx in np.ndindex(*by_phase.shape[2:]):
        ky, kx = rows.tap(fy, dy, size.padding[0]), columns.tap(fx, dx, size.padding[1])
        if ky < size.kernel[0] and kx < size.kernel[1]:
            by_phase[:, :, fy, fx, dy, dx] = weights[:, :, ky, kx].T
    o, i = config.block_out, config.block_in
    whole = np.pad(by_phase, ((0, -size.outputs % o), (0, -size.channels % i), *[(0, 0)] * 4))
    parts = whole.reshape(whole.shape[0] // o, o, whole.shape[1] // i, i, *whole.shape[2:])
    return np.ascontiguousarray(parts.transpose(0, 2, 4, 5, 6, 7, 1, 3))
