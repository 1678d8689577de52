"""Element types of tensors, and the memory that tensors take."""

from math import prod

import numpy as np
from onnx import TensorProto, helper

from vdla.compiler.graph.onnx.call import RefusalError
from vdla.hw.spec.limits import ARRAY_BYTES, require_room


def check_room(size: int, subject: str, limit: int = ARRAY_BYTES) -> None:
    """Check that `size` bytes do not exceed a limit; see `require_room`.

    Raises:
        RefusalError: they do; the message begins with `subject`.
    """
    require_room(size, limit, subject, RefusalError)


def dtype_of(code: int) -> str:
    """Return the NumPy name of an ONNX element type.

    Raises:
        RefusalError: the element type is unknown or not supported.
    """
    if code not in TensorProto.DataType.values() or code in (TensorProto.UNDEFINED, TensorProto.STRING):
        known = code in TensorProto.DataType.values()
        raise RefusalError(
            f"element type {TensorProto.DataType.Name(code) if known else code} is not supported"
        )
    return str(helper.tensor_dtype_to_np_dtype(code))


def size_of(tensor: TensorProto) -> int:
    """Return the size of a tensor's elements in bytes.

    Raises:
        RefusalError: an extent is negative, or the element type is not supported.
    """
    if min(tensor.dims, default=0) < 0:
        raise RefusalError(f"extents {list(tensor.dims)} are negative")
    count: int = prod(tensor.dims)
    return count * np.dtype(dtype_of(tensor.data_type)).itemsize
