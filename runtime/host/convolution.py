"""Convolutions of any rank, by groups, as matrix products of windows.

Source: ONNX operator specification, Conv, ConvTranspose, ConvInteger.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from vdla.runtime.host.matrix import exact_matmul, shifted
from vdla.runtime.host.windows import at_last, padded, sliding_windows, spans

PIECE = 1 << 20  # elements of windows that are copied at a time
Multiply = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of matrices


def conv(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    *,
    dilations: Sequence[int],
    group: int,
    pads: Sequence[int],
    strides: Sequence[int],
) -> np.ndarray:
    """Convolve.

    Args:
        x: float32[N, C, spatial...]
        w: float32[M, C/group, kernel...]
        b: float32[M]
        pads: begin of each spatial dimension, then the end of each.

    Returns:
        float32[N, M, out...]
    """
    sums = _by_groups(padded(x, pads), w, dilations, group, strides, np.matmul)
    return sums if b is None else sums + _per_channel(b, sums.ndim)


def conv_integer(
    x: np.ndarray,
    w: np.ndarray,
    x_zero_point: np.ndarray | None = None,
    w_zero_point: np.ndarray | None = None,
    *,
    dilations: Sequence[int],
    group: int,
    pads: Sequence[int],
    strides: Sequence[int],
) -> np.ndarray:
    """Convolve 8-bit integers exactly.

    Args:
        x: int8 or uint8[N, C, spatial...]; its padding means 0, that is, its zero point.
        w: int8 or uint8[M, C/group, kernel...]
        x_zero_point: of one element.
        w_zero_point: of one element, or one for each of the M channels.

    Returns:
        int32[N, M, out...]
    """
    if w_zero_point is not None:
        w_zero_point = w_zero_point.reshape(-1, *[1] * (w.ndim - 1))
    return _by_groups(
        padded(shifted(x, x_zero_point), pads),
        shifted(w, w_zero_point),
        dilations,
        group,
        strides,
        exact_matmul,
    )


def conv_transpose(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    *,
    dilations: Sequence[int],
    group: int,
    output_padding: Sequence[int],
    pads: Sequence[int],
    strides: Sequence[int],
) -> np.ndarray:
    """Spread each element of x over the window that a convolution would read it from, and add up.

    Args:
        x: float32[N, C, spatial...]
        w: float32[C, M/group, kernel...]
        b: float32[M]
        pads: what is cut off at the begin of each spatial dimension, then at the end of each.
        output_padding: what is added at the end of each.

    Returns:
        float32[N, M, (spatial - 1) stride + span + output_padding - pads...]
    """
    shape, kernel = x.shape[2:], w.shape[2:]
    parts = _spread(x, w, group)
    lengths = zip(shape, strides, spans(kernel, dilations), output_padding, strict=True)
    spatial = ((size - 1) * step + span + more for size, step, span, more in lengths)
    out = np.zeros((x.shape[0], w.shape[1] * group, *spatial), x.dtype)
    for offset in product(*map(range, kernel)):
        starts = [position * dilation for position, dilation in zip(offset, dilations, strict=True)]
        out[at_last(*_every(starts, strides, shape))] += parts[at_last(*offset)]
    cut = _cut(out, pads[: len(shape)], pads[len(shape) :])
    return cut if b is None else cut + _per_channel(b, cut.ndim)


def _cut(x: np.ndarray, begins: Sequence[int], ends: Sequence[int]) -> np.ndarray:
    """Return x[N, C, spatial...] without what stands before `begins` and in the last `ends`."""
    sides = zip(begins, ends, x.shape[2:], strict=True)
    return x[at_last(*(slice(begin, size - end) for begin, end, size in sides))]


def _by_groups(
    x: np.ndarray,
    w: np.ndarray,
    dilations: Sequence[int],
    group: int,
    strides: Sequence[int],
    multiply: Multiply,
) -> np.ndarray:
    """Multiply every window of x, padded already, with the kernels of its group."""
    rank, (outputs, channels, *kernel) = w.ndim - 2, w.shape
    if x.shape[1] != channels * group:
        raise ValueError(f"{x.shape[1]} channels are not {group} groups of {channels}")
    views = sliding_windows(x, kernel, strides, dilations)
    batch, out = views.shape[0], views.shape[2 : 2 + rank]
    order = (0, 1, 2, *range(3 + rank, 3 + 2 * rank), *range(3, 3 + rank))
    columns = views.reshape(batch, group, channels, *views.shape[2:]).transpose(order)
    kernels = w.reshape(group, outputs // group, -1)
    if prod(kernel) == 1 or columns.size <= PIECE:
        sums = multiply(kernels, columns.reshape(batch, group, w[0].size, -1))
    else:
        sums = _in_pieces(kernels, columns, out, multiply)
    return sums.reshape(batch, outputs, *out)


def _in_pieces(
    kernels: np.ndarray, columns: np.ndarray, out: tuple[int, ...], multiply: Multiply
) -> np.ndarray:
    """Multiply kernels with windows, of which only a piece is copied at a time: the windows of some groups of
    an image, or of a part of one group. To copy all takes longer than to multiply.

    Args:
        kernels: [groups, outputs, n]
        columns: a view [N, groups, channels, kernel..., out...]; channels and kernel are n elements.

    Returns:
        [N, groups, outputs, out...]
    """
    groups, outputs, size = kernels.shape
    longest = int(np.argmax(out))
    part = max(1, min(out[longest], PIECE * out[longest] // (size * prod(out))))
    step = max(1, PIECE // (size * prod(out)))
    sums = np.empty((len(columns), groups, outputs, *out), columns.dtype)
    for image, group, first in product(
        range(len(columns)), range(0, groups, step), range(0, out[longest], part)
    ):
        chosen, along = slice(group, group + step), slice(first, first + part)
        place = at_last(*(along if axis == longest else slice(None) for axis in range(len(out))))
        windows, wanted = columns[image, chosen][place], sums[image, chosen][place]
        wanted[...] = multiply(kernels[chosen], windows.reshape(len(windows), size, -1)).reshape(wanted.shape)
    return sums


def _spread(x: np.ndarray, w: np.ndarray, group: int) -> np.ndarray:
    """Return what each element adds at each place of its window: [N, M, spatial..., kernel...]."""
    batch, channels, *shape = x.shape
    per_group, *kernel = w.shape[1:]
    columns = x.reshape(batch, group, channels // group, -1).swapaxes(2, 3)
    kernels = w.reshape(group, channels // group, -1)
    parts = np.matmul(columns, kernels).reshape(batch, group, -1, per_group, *kernel)
    return np.moveaxis(parts, 3, 2).reshape(batch, group * per_group, *shape, *kernel)


def _every(starts: Sequence[int], strides: Sequence[int], shape: Sequence[int]) -> Iterator[slice]:
    """Yield slices that reach `shape` elements, `strides` apart, from `starts` on."""
    for start, step, size in zip(starts, strides, shape, strict=True):
        yield slice(start, start + (size - 1) * step + 1, step)


def _per_channel(b: np.ndarray, rank: int) -> np.ndarray:
    return b.reshape(-1, *[1] * (rank - 2))


OPERATORS = {"Conv": conv, "ConvInteger": conv_integer, "ConvTranspose": conv_transpose}
