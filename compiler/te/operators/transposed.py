"""Transposed convolution: each phase of the result is a convolution with every stride-th kernel element."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vdla.compiler.ir.nodes import Expr, cast
from vdla.compiler.te.operators.convolution import ConvolutionTensors, with_border
from vdla.compiler.te.operators.narrowing import Narrowing, narrow
from vdla.compiler.te.operators.sizes import (
    Convolution,
    Pads,
    Phases,
    Transposed,
    blocks,
    phases,
    phases_fault,
)
from vdla.compiler.te.tensor import compute, placeholder, reduce_axis, sum_over
from vdla.hw.spec.config import AcceleratorConfig


@dataclass(frozen=True, slots=True)
class _InputPadding:
    """Padding of the input, for `with_border`."""

    padding: Pads


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
    padded = with_border(
        inp, _InputPadding((rows.before, columns.before, rows.after, columns.after)), 0, "XP"
    )
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
