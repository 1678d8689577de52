"""Checks of the tensors of a graph."""

import numpy as np

from vdla.compiler.graph.nodes import TensorType, type_of
from vdla.compiler.graph.onnx.call import InvalidError, RefusalError
from vdla.compiler.graph.onnx.tensors import check_room
from vdla.hw.spec.limits import TENSOR_BYTES
from vdla.runtime.host.dtypes import DTYPES, TENSOR_DTYPES

FINITE = (
    "BatchNormalization",
    "Conv",
    "ConvTranspose",
    "DequantizeLinear",
    "Gemm",
    "InstanceNormalization",
    "LayerNormalization",
    "MatMul",
    "QuantizeLinear",
)
"""Operators that are invalid with constants that are not finite: weights, statistics and scales."""


def check_constant(op: str, name: str, array: np.ndarray) -> None:
    """Check a constant that an operator of the kit reads.

    Raises:
        RefusalError: the type is not supported, or the constant is too large.
        InvalidError: the operator is in `FINITE`, and an element is NaN or infinite.
    """
    check_computable(type_of(array), f"its constant {name!r} ")
    if op in FINITE and array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int(np.argmin(np.isfinite(array)))
        count = int(np.sum(~np.isfinite(array)))
        raise InvalidError(
            f"its constant {name!r} holds {count} NaN or infinite elements, the first, {array.flat[bad]}, "
            f"at {bad}"
        )


def check_computable(type_: TensorType, subject: str) -> None:
    """Check that operators of the kit can compute with a type.

    Raises:
        RefusalError: the element type is not supported, or the tensor is empty or larger than any memory.
    """
    if type_.dtype not in DTYPES:
        raise RefusalError(f"{subject}is {type_}; supported element types are {', '.join(DTYPES)}")
    if type_.size == 0:
        raise RefusalError(f"{subject}is {type_}, which has no elements")
    check_usable(type_, subject)


def check_usable(type_: TensorType, subject: str = "it ") -> None:
    """Check that a graph can hold a type.

    Raises:
        RefusalError: the element type is not supported, or the tensor is larger than any memory.
    """
    if type_.dtype not in TENSOR_DTYPES:
        raise RefusalError(f"{subject}is {type_}; supported element types are {', '.join(TENSOR_DTYPES)}")
    check_room(type_.size * np.dtype(type_.dtype).itemsize, f"{subject}is {type_}, which takes", TENSOR_BYTES)
