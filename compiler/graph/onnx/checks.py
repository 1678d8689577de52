"""Checks of the tensors of a graph."""

import numpy as np

from vdla.compiler.graph.nodes import TensorType, type_of
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.elements import check_room
from vdla.hw.spec.limits import TENSOR_BYTES
from vdla.runtime.host.dtypes import DTYPES


def check_constant(name: str, array: np.ndarray) -> None:
    """Refuse a constant of an unsupported type, without elements, or with elements that are not finite."""
    check_usable(type_of(array), f"its constant {name!r} ")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int(np.argmin(np.isfinite(array)))
        count = int(np.sum(~np.isfinite(array)))
        raise RefusalError(
            f"its constant {name!r} holds {count} NaN or infinite elements, the first, {array.flat[bad]}, "
            f"at {bad}"
        )


def check_usable(type_: TensorType, subject: str = "it ") -> None:
    """Refuse an unsupported type, and a tensor that is empty or larger than any memory."""
    if type_.dtype not in DTYPES:
        raise RefusalError(f"{subject}is {type_}; supported element types are {', '.join(DTYPES)}")
    if type_.size == 0:
        raise RefusalError(f"{subject}is {type_}, which has no elements")
    check_room(type_.size * np.dtype(type_.dtype).itemsize, f"{subject}is {type_}, which takes", TENSOR_BYTES)
