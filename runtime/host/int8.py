"""What the accelerator computes, on the CPU and to the last bit: operators on int8 tensors with parameters of
requantisation.

`parameters` are int64[4, channels], in the order of `vdla.hw.spec.vocabulary.Parameter`; the parameters of
one channel serve all. Weights are int8, or int16 where a zero point that was subtracted from them makes them
wider. Sums are int32.

Source: `vdla.hw.spec.numerics.requantise`.
"""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from vdla.runtime.host.convolution import conv_integer, conv_transpose
from vdla.runtime.host.matrix import exact_matmul, matmul_integer, shifted
from vdla.runtime.host.pooling import max_pool, reduced_windows
from vdla.runtime.host.windows import padded
from vdla.runtime.requantise import requantise

BYTES = np.arange(-128, 128).astype(np.int8)
"""Every value of int8, in the order of tables."""


def int8_conv(
    x: np.ndarray,
    w: np.ndarray,
    parameters: np.ndarray,
    *,
    border: int,
    dilations: Sequence[int],
    group: int,
    pads: Sequence[int],
    strides: Sequence[int],
) -> np.ndarray:
    """Convolve int8[N, C, spatial...], padded with `border`, with int8 or int16[M, C/group, kernel...];
    return int8[N, M, out...]."""
    none = (0,) * len(pads)
    sums = conv_integer(
        padded(x, pads, border), w, dilations=dilations, group=group, pads=none, strides=strides
    )
    return requantise(sums, _over_space(parameters, x.ndim))


def int8_conv_transpose(
    x: np.ndarray,
    w: np.ndarray,
    parameters: np.ndarray,
    *,
    output_padding: Sequence[int],
    pads: Sequence[int],
    strides: Sequence[int],
    zero: int,
) -> np.ndarray:
    """Spread int8[N, C, spatial...] less `zero` over int8 or int16[C, M, kernel...]; return int8[N, M,
    out...]."""
    sums = conv_transpose(
        x.astype(np.float64) - zero,
        w.astype(np.float64),
        dilations=(1,) * len(strides),
        group=1,
        output_padding=output_padding,
        pads=pads,
        strides=strides,
    )
    words = _over_space(parameters, x.ndim)
    return requantise(sums.astype(np.int64), words)  # float64 holds every sum exactly


def _over_space(parameters: np.ndarray, rank: int) -> np.ndarray:
    """Return parameters int64[4, channels] in a shape that broadcasts over a tensor of `rank` dimensions."""
    return parameters.reshape(*parameters.shape, *[1] * (rank - 2))


def int8_matmul(x: np.ndarray, w: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Multiply int8[..., K] with int8 or int16[K, N]; return int8[..., N]."""
    return requantise(matmul_integer(x, w), parameters)


def int8_scale(x: np.ndarray, factors: np.ndarray, parameters: np.ndarray, *, axis: int) -> np.ndarray:
    """Return int8[...]: x times int8[channels] along `axis`, or times int8[1], requantised."""
    along = [1] * x.ndim
    along[axis] = -1
    return requantise(x.astype(np.int64) * factors.reshape(along), parameters.reshape(4, *along))


def int8_average_pool(
    x: np.ndarray,
    parameters: np.ndarray,
    *,
    border: int,
    kernel_shape: Sequence[int],
    pads: Sequence[int],
    strides: Sequence[int],
) -> np.ndarray:
    """Sum the windows of int8[N, C, spatial...], padded with `border`; return int8[N, C, out...], requantised
    by int64[4, 1], which also divide by the elements of a window."""
    image = padded(x, pads, border).astype(np.float64)  # which holds every sum exactly
    sums = reduced_windows(image, kernel_shape, strides, (1,) * len(strides), np.add)
    return requantise(sums.astype(np.int64), _over_space(parameters, x.ndim))


def int8_add(a: np.ndarray, b: np.ndarray, parameters: np.ndarray, *, factors: Sequence[int]) -> np.ndarray:
    """Return int8[...]: a * factors[0] + b * factors[1], requantised."""
    return requantise(
        a.astype(np.int64) * factors[0] + b.astype(np.int64) * factors[1],
        parameters.reshape(4, *[1] * a.ndim),
    )


def int8_mul(a: np.ndarray, b: np.ndarray, parameters: np.ndarray, *, zeros: Sequence[int]) -> np.ndarray:
    """Return int8[...]: (a - zeros[0]) * (b - zeros[1]), requantised."""
    return requantise(
        (a.astype(np.int64) - zeros[0]) * (b.astype(np.int64) - zeros[1]),
        parameters.reshape(4, *[1] * a.ndim),
    )


def int8_requantise(x: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Return int8[...]: x requantised."""
    return requantise(x, parameters.reshape(4, *[1] * x.ndim))


def int8_max_pool(
    x: np.ndarray, *, kernel_shape: Sequence[int], pads: Sequence[int], strides: Sequence[int]
) -> np.ndarray:
    """Return the greatest element of each window of int8[N, C, spatial...]; padding never is."""
    dilations = (1,) * len(strides)
    return max_pool(
        x, ceil_mode=0, dilations=dilations, kernel_shape=kernel_shape, pads=pads, strides=strides
    )


def int8_lookup(x: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return table[x + 128] for int8[...] and a table of 256 elements of any type."""
    if x.dtype != np.int8 or table.shape != BYTES.shape:
        raise ValueError(f"a table has the {len(BYTES)} values of int8")
    zero = len(BYTES) // 2
    unsigned = np.concatenate((table[zero:], table[:zero]))
    if table.itemsize > 1:
        return unsigned.take(x.view(np.uint8))
    looked_up = bytearray(np.ascontiguousarray(x)).translate(unsigned.tobytes())  # four times as fast
    return np.frombuffer(looked_up, table.dtype).reshape(x.shape)


def flip_sign(x: np.ndarray) -> np.ndarray:
    """Return uint8[...] minus 128 as int8, int8[...] plus 128 as uint8."""
    if x.dtype.itemsize != 1 or x.dtype.kind not in "iu":
        raise ValueError(f"bytes are flipped, not {x.dtype}")
    opposite = np.uint8 if x.dtype.kind == "i" else np.int8
    flipped: np.ndarray = np.bitwise_xor(x.view(np.uint8), np.uint8(128)).view(opposite)
    return flipped


def int8_products(
    a: np.ndarray,
    b: np.ndarray,
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
) -> np.ndarray:
    """Return int8[shape], made of parts: (part of a - zeros[0]) times (part of b - zeros[1]), requantised.

    Args:
        a, b: int8[..., c].
        parameters: int64[4, 1], in the order of `vdla.hw.spec.vocabulary.Parameter`.
        a_table, b_table: int8[256], in which the values of `a` and of `b` are looked up first; None: in none.
        a_places, b_places, places: of each product in turn, the first row and the first column of its part of
            `a`, of `b` and of the result.
        size: (M, N, K): a part of `a` has M rows and K columns, and a part of the result M rows and N
            columns.
        transposed: a part of `b` has N rows and K columns; else K rows and N columns.
    """
    rows, columns, depth = size
    left, right = _matrix(a, a_table), _matrix(b, b_table)
    result = np.zeros((prod(shape[:-1]), shape[-1]), np.int8)
    extents = ((rows, depth), (columns, depth) if transposed else (depth, columns), (rows, columns))
    zero = [np.array(number, np.int32) for number in zeros]
    parts = map(parts_of_matrices, (left, right, result), (a_places, b_places, places), extents)
    for left_part, right_part, result_part in zip(*parts, strict=True):
        sums = exact_matmul(
            shifted(left_part, zero[0]), shifted(right_part.T if transposed else right_part, zero[1])
        )
        result_part[:] = requantise(sums, parameters)
    return result.reshape(tuple(shape))


def _matrix(values: np.ndarray, table: np.ndarray | None) -> np.ndarray:
    """Return int8[n, c]: values int8[..., c], looked up in a table where there is one."""
    looked_up = values if table is None else int8_lookup(values, table)
    return looked_up.reshape(-1, values.shape[-1])


def parts_of_matrices(
    matrix: np.ndarray, firsts: Sequence[int], extent: tuple[int, int]
) -> Iterator[np.ndarray]:
    """Yield the parts of a matrix that begin at these rows and columns."""
    rows, columns = extent
    if len(firsts) % 2:
        raise ValueError(f"places {tuple(firsts)} are no pairs of a row and a column")
    for row, column in zip(firsts[::2], firsts[1::2], strict=True):
        if not (0 <= row <= matrix.shape[0] - rows and 0 <= column <= matrix.shape[1] - columns):
            raise ValueError(
                f"{rows}x{columns} elements from row {row}, column {column} on leave a matrix of "
                f"{matrix.shape[0]}x{matrix.shape[1]}"
            )
        yield matrix[row : row + rows, column : column + columns]


OPERATORS = {
    "FlipSign": flip_sign,
    "Int8Add": int8_add,
    "Int8AveragePool": int8_average_pool,
    "Int8Conv": int8_conv,
    "Int8ConvTranspose": int8_conv_transpose,
    "Int8Lookup": int8_lookup,
    "Int8MatMul": int8_matmul,
    "Int8MaxPool": int8_max_pool,
    "Int8Mul": int8_mul,
    "Int8Products": int8_products,
    "Int8Requantise": int8_requantise,
    "Int8Scale": int8_scale,
}
