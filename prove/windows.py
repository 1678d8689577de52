"""Sums and maxima over the windows of images of elements."""

from collections.abc import Sequence

import numpy as np

from vdla.prove.domain import Domain
from vdla.prove.elements import ELEMENT, NO_ROOT, RESIDUES, SEVERAL, Elements, Floats, Sums
from vdla.prove.products import FEW, PIECE, single_sources, weighted
from vdla.runtime.host.windows import sliding_windows

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
    by_group = (image["kind"] == NO_ROOT).reshape(len(image), group, -1, *image.shape[2:]).sum(2)
    constants = sliding_windows(by_group, kernel, strides, dilations).sum((4, 5))
    sources = _sources(domain, sliding_windows(image, kernel, strides, dilations), weights, constants)
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
    domain: Domain, windows: Elements, weights: np.ndarray, constants: np.ndarray
) -> Elements | None:
    """Return the sources of the sums over windows[N, C, OH, OW, KH, KW], elements[N, M, OH, OW]; None if all
    have several roots.

    Args:
        constants: int[N, group, OH, OW], number of constants in each window.
    """
    outputs, channels, *_ = weights.shape
    matrices = weights.reshape(constants.shape[1], -1, weights[0].size)
    least = (matrices != 0).sum(2).min(1)
    few = least[:, None, None] - constants <= FEW
    if not few.any():
        return None
    sources = np.zeros((len(windows), outputs, *windows.shape[2:4]), ELEMENT)
    sources["function"] = SEVERAL
    for number, matrix in enumerate(matrices):
        outer = slice(number * len(matrix), (number + 1) * len(matrix))
        inner = windows[:, number * channels : (number + 1) * channels]
        places = np.argwhere(few[:, number])
        piece = max(1, PIECE // matrix.shape[1])
        for first in range(0, len(places), piece):
            at = places[first : first + piece].T
            columns = inner[at[0], :, at[1], at[2]].reshape(at.shape[1], -1).T
            sources[:, outer][at[0], :, at[1], at[2]] = single_sources(domain, matrix, columns).T
    return sources


def greatest(domain: Domain, image: Elements, kernel: Sequence[int], strides: Sequence[int]) -> Elements:
    """Return the greatest of each window of elements[N, C, H, W], elements[N, C, OH, OW]."""
    windows = sliding_windows(image, kernel, strides, (1, 1))
    return domain.maximum(windows.reshape(*windows.shape[:4], -1).transpose(4, 0, 1, 2, 3))
