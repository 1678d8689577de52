"""Depthwise convolution as sums over windows of three columns, which a DEPTHWISE slides along rows."""

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from vdla.compiler.ir.nodes import Expr, cast
from vdla.compiler.te.operators.convolution import ConvolutionTensors, padded_input
from vdla.compiler.te.operators.narrowing import Narrowing, narrow
from vdla.compiler.te.operators.sizes import Convolution, blocks
from vdla.compiler.te.tensor import compute, placeholder, reduce_axis, sum_over
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import PAIR, TAPS
from vdla.hw.spec.timing import depthwise_slots
from vdla.hw.spec.vocabulary import Extension

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
