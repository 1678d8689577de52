"""The operators of graphs on elements, in plain code without layouts. Each function takes the domain, the
node's inputs, constants as arrays and other values as elements, and its attributes; it returns elements.

Source: the function of the same operator in `vdla.runtime.host.int8`, which a test compares.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from vdla.prove.domain import Domain
from vdla.prove.elements import Elements, Sums
from vdla.prove.functions import BYTES
from vdla.prove.products import field_products, products
from vdla.prove.windows import bordered, convolve, greatest
from vdla.runtime.host.int8 import parts_of_matrices


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
    sums = convolve(domain, image, w, dilations=dilations, group=group, strides=strides)
    return domain.requantise(sums, parameters[:, :, None, None])


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
    images, channels, high, wide = x.shape
    (down, across), kernel = strides, w.shape[2:]
    spread = np.full(
        (images, channels, (high - 1) * down + 1, (wide - 1) * across + 1), domain.constants(np.array(zero))
    )
    spread[:, :, ::down, ::across] = x
    begins = [size - 1 - pad for size, pad in zip(kernel, pads[:2], strict=True)]
    ends = [size - 1 - pad + more for size, pad, more in zip(kernel, pads[2:], output_padding, strict=True)]
    image = _cut_or_bordered(domain, spread, (*begins, *ends), zero)
    turned = np.ascontiguousarray(w.swapaxes(0, 1)[:, :, ::-1, ::-1])
    sums = convolve(domain, image, turned, dilations=(1, 1), group=1, strides=(1, 1))
    less = -zero * turned.astype(np.int64).sum((1, 2, 3))
    return domain.requantise(_plus(domain, sums, less[:, None, None]), parameters[:, :, None, None])


def _cut_or_bordered(domain: Domain, image: Elements, pads: Sequence[int], border: int) -> Elements:
    """Return an image with a border; what is negative is cut off."""
    cuts = [max(0, -pad) for pad in pads]
    high, wide = image.shape[2:]
    cut = image[:, :, cuts[0] : high - cuts[2], cuts[1] : wide - cuts[3]]
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
    ones = np.ones((channels, 1, *kernel_shape), np.int64)
    image = bordered(x, pads, domain.constants(np.array(border)))
    sums = convolve(domain, image, ones, dilations=(1, 1), group=channels, strides=strides)
    return domain.requantise(sums, parameters.reshape(4, 1, 1, 1, 1))


def add(
    domain: Domain, a: Elements, b: Elements, parameters: np.ndarray, *, factors: Sequence[int]
) -> Elements:
    """Int8Add."""
    left, right = (
        domain.scale(domain.values(value), np.array(factor))
        for value, factor in zip((a, b), factors, strict=True)
    )
    return domain.requantise(domain.add(left, right), parameters.reshape(4, *[1] * a.ndim))


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
    for one, other, made in zip(*map(parts_of_matrices, (left, right, result), firsts, extents), strict=True):
        factors = (
            _plus(domain, domain.values(part), np.array(-zero))
            for part, zero in zip((one, other.T if transposed else other), zeros, strict=True)
        )
        made[...] = domain.requantise(field_products(domain, *factors), parameters[..., None])
    return result.reshape(tuple(shape))


OPERATORS: Mapping[str, tuple[Callable[..., Elements], int]] = {
    "FlipSign": (flip_sign, 1),
    "Int8Add": (add, 2),
    "Int8AveragePool": (average_pool, 1),
    "Int8Conv": (conv, 1),
    "Int8ConvTranspose": (conv_transpose, 1),
    "Int8Lookup": (lookup, 1),
    "Int8MatMul": (matmul, 1),
    "Int8MaxPool": (max_pool, 1),
    "Int8Mul": (multiply, 2),
    "Int8Products": (matrix_products, 2),
    "Int8Requantise": (requantise, 1),
    "Int8Scale": (scale, 1),
}
"""The function of each operator, and how many of its inputs are elements. The others are constants."""
