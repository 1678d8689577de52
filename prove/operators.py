"""The operators of graphs on elements, in plain code without layouts. Each function takes the domain, the
node's inputs, constants as arrays and other values as elements, and its attributes; it returns elements.

Source: the functions of the same operators in `vdla.runtime.host.int8` and
`vdla.runtime.host.int8_normalisation`, which a test compares.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from vdla.hw.spec.vocabulary import Statistic
from vdla.prove.domain import Domain
from vdla.prove.elements import ELEMENT, NO_ROOT, RESIDUES, SEVERAL, Elements, Floats, Sums
from vdla.prove.functions import BYTES
from vdla.prove.normal_terms import POWERS, NormalFunction, outputs, powers_number
from vdla.prove.products import Terms, field_products, pieces, products, single_sources, weighted
from vdla.runtime.host.int8 import parts_of_matrices
from vdla.runtime.host.int8_normalisation import int8_layer_normalization, int8_softmax, moments_operands
from vdla.runtime.host.windows import at_last, sliding_windows

VOLUME = 3  # spatial dimensions
MOST_MEMBERS = 9  # of windows that are not divided into rows and columns
MOST_ADDED = 1 << 15
"""Elements that are added together."""
TILE = 1 << 20  # elements of windows that are multiplied at a time


def conv(
    domain: Domain,
    x: Elements,
    w: np.ndarray,
    parameters: np.ndarray,
    *,
    border: int,
    dilations: Sequence[int],
    group: int,
    pads: Sequence[int],
    strides: Sequence[int],
) -> Elements:
    """Int8Conv."""
    image = bordered(x, pads, domain.constants(np.array(border)))
    return convolved(domain, image, w, parameters, dilations=dilations, group=group, strides=strides)


def conv_transpose(
    domain: Domain,
    x: Elements,
    w: np.ndarray,
    parameters: np.ndarray,
    *,
    output_padding: Sequence[int],
    pads: Sequence[int],
    strides: Sequence[int],
    zero: int,
) -> Elements:
    """Int8ConvTranspose, as the convolution of an image with zero points between its pixels."""
    kernel, rank, unit_steps = w.shape[2:], len(strides), (1,) * len(strides)
    sizes = ((size - 1) * stride + 1 for size, stride in zip(x.shape[2:], strides, strict=True))
    spread = np.full((*x.shape[:2], *sizes), domain.constants(np.array(zero)))
    spread[at_last(*(slice(None, None, stride) for stride in strides))] = x
    begins = [size - 1 - pad for size, pad in zip(kernel, pads[:rank], strict=True)]
    ends = [
        size - 1 - pad + more for size, pad, more in zip(kernel, pads[rank:], output_padding, strict=True)
    ]
    image = _cut_or_bordered(domain, spread, (*begins, *ends), zero)
    turned = np.ascontiguousarray(np.flip(w.swapaxes(0, 1), tuple(range(2, w.ndim))))
    less = -zero * turned.astype(np.int64).reshape(len(turned), -1).sum(1)
    return convolved(
        domain, image, turned, parameters, less, dilations=unit_steps, group=1, strides=unit_steps
    )


def _cut_or_bordered(domain: Domain, image: Elements, pads: Sequence[int], border: int) -> Elements:
    """Return an image with a border; what is negative is cut off."""
    cuts, rank = [max(0, -pad) for pad in pads], len(pads) // 2
    sides = zip(cuts[:rank], cuts[rank:], image.shape[2:], strict=True)
    cut = image[at_last(*(slice(begin, size - end) for begin, end, size in sides))]
    return bordered(cut, [max(0, pad) for pad in pads], domain.constants(np.array(border)))


def _plus(domain: Domain, sums: Sums, numbers: np.ndarray) -> Sums:
    """Return sums plus integers that broadcast against them."""
    return domain.add(sums, domain.values(domain.constants(numbers))) if np.any(numbers) else sums


def matmul(domain: Domain, x: Elements, w: np.ndarray, parameters: np.ndarray) -> Elements:
    """Int8MatMul."""
    sums = products(domain, w.T, x.reshape(-1, x.shape[-1]).T)
    rows = domain.requantise(sums, parameters[..., None])
    return rows.T.reshape(*x.shape[:-1], -1)


def scale(domain: Domain, x: Elements, factors: np.ndarray, parameters: np.ndarray, *, axis: int) -> Elements:
    """Int8Scale."""
    along = [1] * x.ndim
    along[axis] = -1
    sums = domain.scale(domain.values(x), factors.reshape(along))
    return domain.requantise(sums, parameters.reshape(4, *along))


def average_pool(
    domain: Domain,
    x: Elements,
    parameters: np.ndarray,
    *,
    border: int,
    kernel_shape: Sequence[int],
    pads: Sequence[int],
    strides: Sequence[int],
) -> Elements:
    """Int8AveragePool."""
    channels = x.shape[1]
    weights = np.ones((channels, 1, *kernel_shape), np.int64)
    image, steps = bordered(x, pads, domain.constants(np.array(border))), (1,) * len(strides)
    words = parameters.reshape(4, 1)
    return convolved(domain, image, weights, words, dilations=steps, group=channels, strides=strides)


def add(
    domain: Domain, a: Elements, b: Elements, parameters: np.ndarray, *, factors: Sequence[int]
) -> Elements:
    """Int8Add, of pieces that stay in the caches of a processor."""
    left, right = (np.ascontiguousarray(each).reshape(-1) for each in np.broadcast_arrays(a, b))
    numbers, result = [np.array(factor) for factor in factors], np.empty(left.shape, ELEMENT)
    for first in range(0, len(result), MOST_ADDED):
        part = slice(first, first + MOST_ADDED)
        total = domain.add_scaled(domain.values(left[part]), domain.values(right[part]), numbers)
        result[part] = domain.requantise(total, parameters.reshape(4, 1))
    return result.reshape(np.broadcast_shapes(a.shape, b.shape))


def multiply(
    domain: Domain, a: Elements, b: Elements, parameters: np.ndarray, *, zeros: Sequence[int]
) -> Elements:
    """Int8Mul."""
    left, right = (
        _plus(domain, domain.values(value), np.array(-zero))
        for value, zero in zip((a, b), zeros, strict=True)
    )
    return domain.requantise(domain.multiply(left, right), parameters.reshape(4, *[1] * a.ndim))


def requantise(domain: Domain, x: Elements, parameters: np.ndarray) -> Elements:
    """Int8Requantise."""
    return domain.requantise(domain.values(x), parameters.reshape(4, *[1] * x.ndim))


def max_pool(
    domain: Domain, x: Elements, *, kernel_shape: Sequence[int], pads: Sequence[int], strides: Sequence[int]
) -> Elements:
    """Int8MaxPool."""
    least = domain.constants(BYTES[0])
    return greatest(domain, bordered(x, pads, least), kernel_shape, strides)


def lookup(domain: Domain, x: Elements, table: np.ndarray) -> Elements:
    """Int8Lookup; values of other types than int8 are their bits."""
    return domain.apply(x, domain.functions.number(table.view(f"i{table.itemsize}")))


def flip_sign(domain: Domain, x: Elements) -> Elements:
    """FlipSign, on the bits of bytes."""
    return domain.apply(x, domain.functions.number(BYTES ^ BYTES[0]))


def matrix_products(
    domain: Domain,
    a: Elements,
    b: Elements,
    parameters: np.ndarray,
    a_table: np.ndarray | None = None,
    b_table: np.ndarray | None = None,
    *,
    a_places: Sequence[int],
    b_places: Sequence[int],
    places: Sequence[int],
    shape: Sequence[int],
    size: Sequence[int],
    transposed: int,
    zeros: Sequence[int],
) -> Elements:
    """Int8Products."""
    rows, columns, depth = size
    left, right = (
        (values if table is None else lookup(domain, values, table)).reshape(-1, values.shape[-1])
        for values, table in ((a, a_table), (b, b_table))
    )
    result = np.full((prod(shape[:-1]), shape[-1]), domain.constants(np.array(0)))
    extents = ((rows, depth), (columns, depth) if transposed else (depth, columns), (rows, columns))
    firsts = a_places, b_places, places
    for left_part, right_part, result_part in zip(
        *map(parts_of_matrices, (left, right, result), firsts, extents), strict=True
    ):
        factors = (
            _plus(domain, domain.values(part), np.array(-zero))
            for part, zero in zip((left_part, right_part.T if transposed else right_part), zeros, strict=True)
        )
        result_part[...] = domain.requantise(field_products(domain, *factors), parameters[..., None])
    return result.reshape(tuple(shape))


# Rows


def softmax(
    domain: Domain, x: Elements, powers: np.ndarray, factor: np.ndarray, addend: np.ndarray, *, axis: int
) -> Elements:
    """Int8Softmax."""
    moved = np.moveaxis(x, axis, -1)
    rows = np.ascontiguousarray(moved).reshape(-1, moved.shape[-1])
    number = powers_number(domain, powers.astype(POWERS).tobytes())
    function = NormalFunction(Statistic.POWERS, (number, number))
    statistics = domain.maximum(rows.T), domain.multisets(rows)
    parameters = (np.full(rows.shape[1], each.item(), np.int64) for each in (factor, addend))
    result = outputs(domain, function, rows, statistics, *parameters)
    _put_numbers(domain, rows, result, lambda x: int8_softmax(x, powers, factor, addend, axis=1))
    return np.ascontiguousarray(np.moveaxis(result.reshape(moved.shape), -1, axis))


def layer_normalization(
    domain: Domain, x: Elements, factors: np.ndarray, addends: np.ndarray, *, epsilon: int, centred: int
) -> Elements:
    """Int8LayerNormalization."""
    rows = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
    normal = moments_operands(x.shape[-1], epsilon, centred)
    function = NormalFunction.of(Statistic.MOMENTS, (0, 0), normal)
    parameters = factors.astype(np.int64), addends.astype(np.int64)
    result = outputs(domain, function, rows, (domain.multisets(rows),), *parameters)
    how = {"centred": centred, "epsilon": epsilon}
    _put_numbers(domain, rows, result, lambda x: int8_layer_normalization(x, factors, addends, **how))
    return result.reshape(x.shape)


def _put_numbers(
    domain: Domain, rows: Elements, result: Elements, operator: Callable[[np.ndarray], np.ndarray]
) -> None:
    """Replace the results for rows of constants, elements[n, m], by what an operator makes of these."""
    constant = (rows["kind"] == NO_ROOT).all(1)
    if constant.any():
        numbers = domain.functions.least[rows["function"][constant]].astype(np.int8)
        result[constant] = domain.constants(operator(numbers))


# Windows of images and volumes


def bordered(image: Elements, pads: Sequence[int], border: Elements) -> Elements:
    """Return elements[N, C, spatial...] with a border of one element; `pads` are the begins of the spatial
    dimensions, then their ends."""
    if not any(pads):
        return image
    rank = len(pads) // 2
    sides = list(zip(pads[:rank], image.shape[2:], pads[rank:], strict=True))
    result = np.full((*image.shape[:2], *map(sum, sides)), border, ELEMENT)
    result[at_last(*(slice(begin, begin + size) for begin, size, _ in sides))] = image
    return result


def convolved(
    domain: Domain,
    image: Elements,
    weights: np.ndarray,
    parameters: np.ndarray,
    added: np.ndarray | None = None,
    *,
    dilations: Sequence[int],
    group: int,
    strides: Sequence[int],
) -> Elements:
    """Return the requantised convolution of elements[N, C, spatial...] with int[M, C/group, kernel...],
    elements[N, M, out...]; `added` int64[M] is added to the sums before."""
    number = len(image)
    if len(strides) == VOLUME:
        image, weights = _depth_as_channels(image, weights, strides[0], dilations[0])
    sums = convolve(domain, image, weights, dilations=dilations[-2:], group=group, strides=strides[-2:])
    if added is not None:
        sums = _plus(domain, sums, added[:, None, None])
    result = domain.requantise(sums, parameters[:, :, None, None])
    return result if len(strides) < VOLUME else _slices_as_depth(result, number)


def _depth_as_channels(
    volume: Elements, weights: np.ndarray, stride: int, dilation: int
) -> tuple[Elements, np.ndarray]:
    """Return the images whose convolution makes each slice of the convolution of a volume, and its weights.

    Args:
        volume: elements[N, C, D, H, W], with its border.
        weights: int[M, C/group, KD, KH, KW].

    Returns:
        elements[N * OD, C * KD, H, W], int[M, C/group * KD, KH, KW].
    """
    count, depth, *kernel = weights.shape[:1] + weights.shape[2:]
    windows = sliding_windows(volume, (depth, 1, 1), (stride, 1, 1), (dilation, 1, 1))[..., 0, 0]
    images, channels, slices, high, wide, _ = windows.shape
    stacked = windows.transpose(0, 2, 1, 5, 3, 4).reshape(images * slices, channels * depth, high, wide)
    return stacked, weights.reshape(count, -1, *kernel)


def _slices_as_depth(slices: Elements, number: int) -> Elements:
    """Return the slices [number * D, C, H, W] of volumes as [number, C, D, H, W]."""
    return np.ascontiguousarray(slices.reshape(number, -1, *slices.shape[1:]).swapaxes(1, 2))


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
    sources = _sources_of_windows(domain, image, weights, dilations, group, strides)
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
    matrices = weights.reshape(group, outputs // group, -1)
    sums = np.empty((count, group, outputs // group, high, wide))
    rows = max(1, TILE // (matrices.shape[2] * count * wide))
    for number, matrix in enumerate(matrices):
        inner = windows[:, number * channels : (number + 1) * channels].transpose(0, 1, 4, 5, 2, 3)
        for first in range(0, high, rows):
            tile = inner[..., first : first + rows, :]
            columns = tile.reshape(count, matrix.shape[1], -1)
            for some in pieces(matrix):
                product = matrix[some].astype(np.float64) @ columns
                part = product.reshape(count, -1, *tile.shape[4:])
                sums[:, number, some, first : first + rows] = part
    return sums.reshape(count, outputs, high, wide)


def _sources_of_windows(
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
        group_sources = single_sources(domain, matrix, Terms(image.reshape(-1), first, offsets))
        if group_sources is not None:
            outer = slice(number * len(matrix), (number + 1) * len(matrix))
            sources[outer] = group_sources.reshape(-1, images, high, wide)
            is_any = True
    return sources.swapaxes(0, 1) if is_any else None


def greatest(domain: Domain, image: Elements, kernel: Sequence[int], strides: Sequence[int]) -> Elements:
    """Return the greatest of each window of elements[N, C, spatial...], elements[N, C, out...]."""
    if len(strides) == VOLUME:
        return _greatest_of_volumes(domain, image, kernel, strides)
    (high, wide), (down, across) = kernel, strides
    if high > 1 and wide > 1 and high * wide > MOST_MEMBERS:
        rows = greatest(domain, image, (1, wide), (1, across))
        return greatest(domain, rows, (high, 1), (down, 1))
    windows = sliding_windows(image, kernel, strides, (1, 1))
    return domain.maximum(windows.reshape(*windows.shape[:4], -1).transpose(4, 0, 1, 2, 3))


def _greatest_of_volumes(
    domain: Domain, volume: Elements, kernel: Sequence[int], strides: Sequence[int]
) -> Elements:
    """Return the greatest of each window of elements[N, C, D, H, W]: of each slice, then along depth."""
    number, channels, depth, *plane = volume.shape
    slices = volume.swapaxes(1, 2).reshape(number * depth, channels, *plane)
    pooled = _slices_as_depth(greatest(domain, slices, kernel[1:], strides[1:]), number)
    rows = pooled.reshape(number, channels, depth, -1)
    deepest = greatest(domain, rows, (kernel[0], 1), (strides[0], 1))
    return deepest.reshape(number, channels, -1, *pooled.shape[3:])


OPERATORS: Mapping[str, tuple[Callable[..., Elements], int]] = {
    "FlipSign": (flip_sign, 1),
    "Int8Add": (add, 2),
    "Int8AveragePool": (average_pool, 1),
    "Int8Conv": (conv, 1),
    "Int8ConvTranspose": (conv_transpose, 1),
    "Int8LayerNormalization": (layer_normalization, 1),
    "Int8Lookup": (lookup, 1),
    "Int8MatMul": (matmul, 1),
    "Int8MaxPool": (max_pool, 1),
    "Int8Mul": (multiply, 2),
    "Int8Products": (matrix_products, 2),
    "Int8Requantise": (requantise, 1),
    "Int8Scale": (scale, 1),
    "Int8Softmax": (softmax, 1),
}
"""The function of each operator, and how many of its inputs are elements. The others are constants."""
