"""Convolution, and its special cases: matrix product, dense layer, average pooling, depthwise and transposed
convolution.

A depthwise convolution may be sums over windows of several rows and columns, which a DEPTHWISE slides along
rows. Each phase of the result of a transposed convolution is a convolution with every stride-th kernel
element.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import product
from math import prod
from operator import add
from typing import Any

import numpy as np

from vdla.compiler.ir.nodes import Const, Expr, all_of, cast, select
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
from vdla.hw.spec.timing import depthwise_slots
from vdla.hw.spec.vocabulary import Extension
from vdla.hw.spec.window import TAPS, WIDE_TAPS


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
        windows: the sums are over these windows; None: over blocks of channels.
    """

    inp: Tensor
    wgt: Tensor
    padded: Tensor | None
    total: Tensor
    narrowed: Narrowed
    outer: tuple[str, ...] = ("n", "g")
    windows: "Windows | None" = None

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
        alike: all blocks of weights are equal; `wgt` has one block, int8[1, 1, 1, 1, 1, block_out, block_in].

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


def blocked_weights(weights: np.ndarray, size: Convolution, config: AcceleratorConfig) -> np.ndarray:
    """Convert int8[o, c / groups, kh, kw] to int8[g, o / block_out, c / block_in, kh, kw, block_out,
    block_in] with g joined groups.

    Weights between two groups that share a block are 0.
    """
    groups, o, i = grouping(size, config), config.block_out, config.block_in
    outputs, inputs = size.outputs // size.groups, size.channels // size.groups
    dense = np.zeros((groups.count, groups.outputs * o, groups.inputs * i, *size.kernel), np.int8)
    whole = np.zeros((groups.count * groups.joined, outputs, inputs, *size.kernel), np.int8)
    whole[: size.groups] = weights.reshape(size.groups, outputs, inputs, *size.kernel)
    apart = whole.reshape(groups.count, groups.joined, *whole.shape[1:])
    for number in range(groups.joined):
        dense[:, number * outputs : (number + 1) * outputs, number * inputs : (number + 1) * inputs] = apart[
            :, number
        ]
    parts = dense.reshape(groups.count, groups.outputs, o, groups.inputs, i, *size.kernel)
    return np.ascontiguousarray(parts.transpose(0, 1, 3, 5, 6, 2, 4))


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


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows that cover the kernel of a depthwise convolution. Windows may overlap; where they do, all but
    one window have zero weights.

    Attributes:
        rows, columns: of a window.
        down, across: number of windows.
        row_step, column_step: rows and columns of the kernel from one window to the next.
    """

    rows: int
    columns: int
    down: int
    across: int
    row_step: int
    column_step: int

    @property
    def kernel(self) -> tuple[int, int]:
        """Rows and columns of the kernel that the windows cover."""
        return (
            self.rows + (self.down - 1) * self.row_step,
            self.columns + (self.across - 1) * self.column_step,
        )

    @property
    def count(self) -> int:
        """Number of windows."""
        return self.down * self.across

    @property
    def intrinsic(self) -> str:
        """Name of the intrinsic that sums a window."""
        return f"slide_{self.rows}x{self.columns}"

    def places(self) -> Iterator[tuple[int, int, int, int, int, int]]:
        """Yield each element of the kernel that the windows cover once: its row and column, its window down
        and across, and its row and column there."""
        seen = set()
        for down, across, row, column in product(
            *map(range, (self.down, self.across, self.rows, self.columns))
        ):
            place = down * self.row_step + row, across * self.column_step + column
            if place not in seen:
                seen.add(place)
                yield *place, down, across, row, column

    def slots(self, width: int, stride: int) -> int:
        """Return the slots for a row of `width` sums."""
        slots: int = self.count * depthwise_slots(width, stride - 1, int(self.columns > TAPS))
        return slots


@lru_cache(maxsize=256)
def windows_of(size: Convolution, config: AcceleratorConfig) -> Windows:
    """Return the windows that cover the kernel of a depthwise convolution in the fewest slots.

    Windows of several rows need rows on chip that are an odd number of elements apart, see `odd_pitch`, so
    the dilation of rows must be odd.
    """
    most = config.window.rows if size.dilation[0] % 2 else 1
    down, rows, row_step = _cover(size.kernel[0], range(1, most + 1))
    widths = (TAPS, WIDE_TAPS) if config.window.columns >= WIDE_TAPS else (TAPS,)
    covers = (_cover(size.kernel[1], (width,)) for width in widths)
    choices = [Windows(rows, columns, down, across, row_step, step) for across, columns, step in covers]
    return min(choices, key=lambda windows: windows.slots(size.out_size[1], size.stride[1]))


def _cover(extent: int, lengths: Iterable[int]) -> tuple[int, int, int]:
    """Return the fewest windows of one of `lengths` that cover an axis of a kernel: their number, their
    length, and the step from each to the next. They cover as little beyond the axis as they can."""

    def cover(length: int) -> tuple[int, int, int]:
        count = blocks(extent, length)
        return count, length, blocks(max(extent - length, 0), count - 1) if count > 1 else 1

    return min(map(cover, lengths), key=lambda choice: (choice[0], choice[1] + (choice[0] - 1) * choice[2]))


def odd_pitch(width: Any, windows: Windows) -> Any:
    """Return the elements from one row on chip to the next, of rows of `width` elements (a number, or an
    integer array)."""
    return width | 1 if windows.rows > 1 else width


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
    width = size.out_size[1]
    return windows_of(size, config).slots(width, size.stride[1]) <= prod(size.kernel) * width


def with_whole_windows(size: Convolution, config: AcceleratorConfig) -> Convolution:
    """Return the convolution with its kernel widened to what its windows cover. Added rows and columns have
    zero weights and read padding."""
    kernel = windows_of(size, config).kernel
    top, left, below, right = size.padding
    below, right = below + kernel[0] - size.kernel[0], right + kernel[1] - size.kernel[1]
    return replace(size, kernel=kernel, padding=(top, left, below, right))


def conv2d_windows(
    size: Convolution, config: AcceleratorConfig, narrowing: Narrowing, *, border: int
) -> ConvolutionTensors:
    """Define a depthwise convolution with kernels of whole windows; see `with_whole_windows`.

    inp: int8[n / batch, c / block, h, w, batch, block];
    wgt: int8[c / block, 1, 1, windows down, windows across, block, block], the result of `window_weights`;
    parameters: int32[c / block, 1, 4, batch, block];
    out: int8[n / batch, c / block, 1, oh, ow, batch, block].

    Args:
        border: value of the padding: 0, or -128, the least input.
    """
    b, block, acc, windows = config.batch, config.block_in, f"int{config.acc_bits}", windows_of(size, config)
    n, groups = blocks(size.batch, b), blocks(size.channels, block)
    (sy, sx), ey = size.stride, size.dilation[0]
    inp = placeholder((n, groups, size.height, size.width, b, block), "X", "int8")
    wgt = placeholder((groups, 1, 1, windows.down, windows.across, block, block), "W", "int8")
    padded = _input_of_windows(inp, size, border, windows)
    source, sy = padded or inp, 1 if size.skips_rows else sy
    ci, dy, dx = map(reduce_axis, (1, windows.down, windows.across), ("ci", "dy", "dx"))

    def product_of(n: Expr, g: Expr, o: Expr, y: Expr, x: Expr, b: Expr, j: Expr) -> Expr:
        def term(row: int, column: int) -> Expr:
            y_place = y * sy + (dy * windows.row_step + row) * ey
            x_place = x * sx + dx * windows.column_step + column
            weight = wgt[g, o, ci, dy, dx, j, window_place(j, (row, column), windows.columns, config)]
            return cast(acc, source[n, g + ci, y_place, x_place, b, j]) * cast(acc, weight)

        terms = (term(*at) for at in np.ndindex(windows.rows, windows.columns))
        return sum_over(reduce(add, terms), (ci, dy, dx))

    total = compute((n, groups, 1, *size.out_size, b, block), product_of, "Y")
    narrowed = narrow(total, narrowing, config, ("g", "o"))
    return ConvolutionTensors(inp, wgt, padded, total, narrowed, windows=windows)


def _input_of_windows(inp: Tensor, size: Convolution, border: int, windows: Windows) -> Tensor | None:
    """Return the padded input; see `padded_input`. If windows have several rows, a further column of padding
    makes room for rows on chip that are an odd number of elements apart."""
    if windows.rows == 1:
        return padded_input(inp, size, border)
    top, left, below, right = size.padding
    return with_border(inp, (top, left, below, right + 1), border, "XP")


def window_place(channel: Expr, at: tuple[int, ...], columns: int, config: AcceleratorConfig) -> Expr:
    """Return the column of a block of weights in which the row of a channel has the weight of the element at
    row and column `at` of a window with `columns` columns."""
    window, (row, column) = config.window, at
    place = Const(window.place(row, 0, column, columns))
    return place if window.channels == 1 else channel % window.channels * window.columns + place


def window_weights(weights: np.ndarray, size: Convolution, config: AcceleratorConfig) -> np.ndarray:
    """Return weights int8[c, 1, kh, kw] as int8[c / block, 1, 1, windows down, windows across, block, block],
    with zeros elsewhere.

    Args:
        size: convolution with kernels of whole windows.
    """
    block, windows, shared = config.block_in, windows_of(size, config), config.window.channels
    groups, (height, width) = blocks(size.channels, block), weights.shape[2:]
    packed = np.zeros((groups, block, windows.down, windows.across, block), np.int8)
    whole = np.zeros((groups * block, *size.kernel), np.int8)
    whole[: size.channels, :height, :width] = weights[:, 0]
    channels = whole.reshape(groups, block, *size.kernel)
    for y, x, down, across, row, column in windows.places():
        for lane in range(shared):
            place = config.window.place(row, lane, column, windows.columns)
            packed[:, lane::shared, down, across, place] = channels[:, lane::shared, y, x]
    return np.ascontiguousarray(packed.transpose(0, 2, 3, 1, 4))[:, None, None]


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
