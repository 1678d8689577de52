"""Products of two int8 tensors, many at once: the heads of attention.

Both tensors and the result are matrices of rows [..., c]. Each product reads a part of both and makes a part
of the result, so heads need not be moved apart before, or together behind.
"""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from vdla.runtime.host.int8 import int8_lookup
from vdla.runtime.host.matrix import exact_matmul, shifted
from vdla.runtime.requantise import requantise


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
        size: (M, N, K): a part of `a` has M rows and K columns, and one of the result M rows and N columns.
        transposed: a part of `b` has N rows and K columns; else K rows and N columns.
    """
    rows, columns, depth = size
    left, right = (
        _matrix(values if table is None else int8_lookup(values, table))
        for values, table in ((a, a_table), (b, b_table))
    )
    result = np.zeros((prod(shape[:-1]), shape[-1]), np.int8)
    extents = ((rows, depth), (columns, depth) if transposed else (depth, columns), (rows, columns))
    firsts = a_places, b_places, places
    zero = [np.array(number, np.int32) for number in zeros]
    for one, other, made in zip(*map(_parts, (left, right, result), firsts, extents), strict=True):
        sums = exact_matmul(shifted(one, zero[0]), shifted(other.T if transposed else other, zero[1]))
        made[:] = requantise(sums, parameters)
    return result.reshape(tuple(shape))


def _matrix(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, values.shape[-1])


def _parts(matrix: np.ndarray, firsts: Sequence[int], extent: tuple[int, int]) -> Iterator[np.ndarray]:
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


OPERATORS = {"Int8Products": int8_products}
