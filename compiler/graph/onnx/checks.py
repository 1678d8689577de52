"""Checks of the tensors of a graph."""

import numpy as np

from vdla.compiler.graph.nodes import TensorType, type_of
from vdla.compiler.graph.onnx.call import InvalidError, RefusalError
from vdla.compiler.graph.onnx.elements import check_room
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
"""Operators that mean nothing with constants that are not finite: weights, statistics and scales."""


def check_constant(op: str, name: str, array: np.ndarray) -> None:
    """Refuse a constant that an operator of the kit cannot compute with, or means nothing with."""
    check_computable(type_of(array), f"its constant {name!r} ")
    if op in FINITE and array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int(np.argmin(np.isfinite(array)))
        count = int(np.sum(~np.isfinite(array)))
        raise InvalidError(
            f"its constant {name!r} holds {count} NaN or infinite elements, the first, {array.flat[bad]}, "
            f"at {bad}"
        )


def check_computable(type_: TensorType, subject: str) -> None:
    """Refuse a type that no operator of the kit computes with, and a tensor that is empty or larger than any
    memory."""
    if type_.dtype not in DTYPES:
        raise RefusalError(f"{subject}is {type_}; supported element types are {', '.join(DTYPES)}")
    if type_.size == 0:
        raise RefusalError(f"{subject}is {type_}, which has no elements")
    check_usable(type_, subject)


def check_usable(type_: TensorType, subject: str = "it ") -> None:
    """Refuse a type that no graph holds, and a tensor larger than any memory."""
    if type_.dtype not in TENSOR_DTYPES:
        raise RefusalError(f"{subject}is {type_}; supported element types are {', '.join(TENSOR_DTYPES)}")
    check_room(type_.size * np.dtype(type_.dtype).itemsize, f"{subject}is {type_}, which takes", TENSOR_BYTES)
