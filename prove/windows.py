"""Sums and maxima over the windows of images of elements."""

from collections.abc import Sequence

import numpy as np

from vdla.prove.domain import Domain
from vdla.prove.elements import ELEMENT, RESIDUES, SEVERAL, Elements, Floats, Sums
from vdla.prove.products import Terms, single_sources, weighted
from vdla.runtime.host.windows import sliding_windows

MOST_MEMBERS = 9  # of windows that are not divided into rows and columns
TILE = 1 << 20  # elements of windows that are multiplied at a time


def bordered(image: Elements, pads: Sequence[int], border: Elements) -> Elements:
    """Return an image elements[N, C, H, W] with a border of one element; `pads` are above, left, below,
    right."""
    if not any(pads):
        return image
    above, left, below, right = pads
    images, channels, high, wide = image.shape
    result = np.empty((images, channels, above + high + below, left + wide + right), ELEMENT)
    rows, columns = slice(above, above + high), slice(left, left + wide)
    result[:, :, rows, columns] = image
    for side in (np.s_[:above], np.s_[above + high :]):
        result[:, :, side] = border
    for side in (np.s_[:left], np.s_[left + wide :]):
        result[:, :, rows, side] = border
    return result


def convolve(
    domain: Domain,
    image: Elements,
    weights: np.ndarray,
    *,
    dilations: Sequence[int],
    group: int,
    strides: Sequence[int],
) -> Sums:
    """Return the convolution of elements[N, C, H, W] with int[M, C/group, KH, KW], Sums[N, M, OH, OW]."""
    values = domain.values(image)
    channels, *kernel = weights.shape[1:]
    planes = values.residues.reshape(-1, *image.shape[1:])
    windows = sliding_windows(planes, kernel, strides, dilations)
    sums = _by_place(windows, weights) if channels == 1 else _by_group(windows, weights, group)
    sources = _sources(domain, image, weights, dilations, group, strides)
    residues = sums.reshape(RESIDUES, -1, *sums.shape[1:])
    return weighted(values, residues, sources, weights)


def _by_place(windows: Floats, weights: np.ndarray) -> Floats:
    """Return sums float64[n, M, OH, OW] of windows[n, C, OH, OW, KH, KW] of a channel each."""
    outputs, _, high, wide = weights.shape
    repeats = outputs // windows.shape[1]
    sums = np.zeros((len(windows), outputs, *windows.shape[2:4]))
    for y, x in np.ndindex(high, wide):
        part = windows[..., y, x]
        part = np.repeat(part, repeats, 1) if repeats > 1 else part
        sums += part * weights[:, 0, y, x].astype(np.float64)[:, None, None]
    return sums


def _by_group(windows: Floats, weights: np.ndarray, group: int) -> Floats:
    """Return sums float64[n, M, OH, OW] of windows[n, C, OH, OW, KH, KW], as matrix products."""
    outputs, channels = weights.shape[:2]
    count, _, high, wide = windows.shape[:4]
    matrices = weights.reshape(group, outputs // group, -1).astype(np.float64)
    sums = np.empty((count, group, outputs // group, high, wide))
    rows = max(1, TILE // (matrices.shape[2] * count * wide))
    for number, matrix in enumerate(matrices):
        inner = windows[:, number * channels : (number + 1) * channels].transpose(0, 1, 4, 5, 2, 3)
        for first in range(0, high, rows):
            tile = inner[..., first : first + rows, :]
            columns = tile.reshape(count, matrix.shape[1], -1)
            product = (matrix @ columns).reshape(count, -1, *tile.shape[4:])
            sums[:, number, :, first : first + rows] = product
    return sums.reshape(count, outputs, high, wide)


def _sources(
    domain: Domain,
    image: Elements,
    weights: np.ndarray,
    dilations: Sequence[int],
    group: int,
    strides: Sequence[int],
) -> Elements | None:
    """Return the sources of a convolution, elements[N, M, OH, OW]; None if all have several roots."""
    numbers = np.arange(image.size).reshape(image.shape)
    windows = sliding_windows(numbers, weights.shape[2:], strides, dilations)
    images, _, high, wide = windows.shape[:4]
    bases = np.ascontiguousarray(windows[:, 0, :, :, 0, 0]).reshape(-1)
    offsets = windows[0, : weights.shape[1], 0, 0].reshape(-1) - numbers[0, 0, 0, 0]
    sources = np.zeros((len(weights), images, high, wide), ELEMENT)
    sources["function"] = SEVERAL
    is_any = False
    for number, matrix in enumerate(weights.reshape(group, len(weights) // group, -1)):
        first = bases + number * weights.shape[1] * numbers[0, 0].size
        made = single_sources(domain, matrix, Terms(image.reshape(-1), first, offsets))
        if made is not None:
            outer = slice(number * len(matrix), (number + 1) * len(matrix))
            sources[outer] = made.reshape(-1, images, high, wide)
            is_any = True
    return sources.swapaxes(0, 1) if is_any else None


def greatest(domain: Domain, image: Elements, kernel: Sequence[int], strides: Sequence[int]) -> Elements:
    """Return the greatest of each window of elements[N, C, H, W], elements[N, C, OH, OW]."""
    (high, wide), (down, across) = kernel, strides
    if high > 1 and wide > 1 and high * wide > MOST_MEMBERS:
        rows = greatest(domain, image, (1, wide), (1, across))
        return greatest(domain, rows, (high, 1), (down, 1))
    windows = sliding_windows(image, kernel, strides, (1, 1))
    return domain.maximum(windows.reshape(*windows.shape[:4], -1).transpose(4, 0, 1, 2, 3))
