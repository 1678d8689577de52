"""Matrix products, of floats and, exactly, of integers.

Source: ONNX operator specification, Gemm, MatMul, MatMulInteger.
"""

import numpy as np

EXACT_IN_FLOAT32 = 1 << 24
EXACT_IN_FLOAT64 = 1 << 53


def exact_matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product of integer matrices as int32, which wraps.

    Floating-point units multiply faster, and exactly as long as no partial sum can leave the integers they
    hold.
    """
    bound = a.shape[-1] * _magnitude(a) * _magnitude(b)
    if bound >= EXACT_IN_FLOAT64:
        return np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(np.int32)
    dtype = np.float32 if bound < EXACT_IN_FLOAT32 else np.float64
    return np.matmul(a.astype(dtype), b.astype(dtype)).astype(np.int64).astype(np.int32)


def _magnitude(a: np.ndarray) -> int:
    return max(abs(int(a.max(initial=0))), abs(int(a.min(initial=0))))


def shifted(x: np.ndarray, zero_point: np.ndarray | None) -> np.ndarray:
    """Return x as int32, less its zero point, which broadcasts."""
    wide = x.astype(np.int32)
    return wide if zero_point is None else wide - zero_point.astype(np.int32)


def gemm(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray | None = None,
    *,
    alpha: float,
    beta: float,
    transA: int,
    transB: int,
) -> np.ndarray:
    """Return alpha a b + beta c, with a and b transposed where asked.

    Args:
        a: [M, K], or [K, M] if `transA`.
        b: [K, N], or [N, K] if `transB`.
        c: broadcasts to [M, N].
    """
    product = np.matmul(a.T if transA else a, b.T if transB else b)
    product = product if alpha == 1 else product * product.dtype.type(alpha)
    if c is None:
        return product
    return product + (c if beta == 1 else c * c.dtype.type(beta))


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply matrices, stacked in the leading dimensions; a stack times one matrix in a single product."""
    if a.ndim > 2 and b.ndim == 2 and a.size:
        return np.matmul(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
    return np.matmul(a, b)


def matmul_integer(
    a: np.ndarray,
    b: np.ndarray,
    a_zero_point: np.ndarray | None = None,
    b_zero_point: np.ndarray | None = None,
) -> np.ndarray:
    """Multiply 8-bit integers exactly.

    Args:
        a: int8 or uint8[..., M, K], with one zero point or one for each of the M rows.
        b: int8 or uint8[..., K, N], with one zero point or one for each of the N columns.

    Returns:
        int32[..., M, N]
    """
    if a_zero_point is not None and a_zero_point.ndim == 1 and a_zero_point.size > 1:
        a_zero_point = a_zero_point[:, None]
    return exact_matmul(shifted(a, a_zero_point), shifted(b, b_zero_point))


OPERATORS = {"Gemm": gemm, "MatMul": matmul, "MatMulInteger": matmul_integer}
