"""Types of tensors on the host: elements, as NumPy calls them, and extents."""

from collections.abc import Sequence
from typing import Literal, cast, get_args

Dtype = Literal["float32", "int8", "uint8", "int16", "uint16", "int32", "int64", "bool"]
"""What the operators of this package compute with."""

TensorDtype = Literal[
    "float32",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "int64",
    "bool",
    "float16",
    "float64",
    "uint32",
    "uint64",
]
"""What a tensor may hold; types beyond `Dtype` are for operators that onnxruntime runs."""

DTYPES: tuple[str, ...] = get_args(Dtype)
TENSOR_DTYPES: tuple[str, ...] = get_args(TensorDtype)

UNKNOWN = -1
"""An extent that is known when the network has run."""


def dtype_of(name: str) -> TensorDtype:
    """Return the element type of that name."""
    assert name in TENSOR_DTYPES, f"{name} is no element type of a tensor"
    return cast("TensorDtype", name)


def fits(shape: Sequence[int], declared: Sequence[int]) -> bool:
    """Whether a shape is as declared; declared extents may be `UNKNOWN`."""
    return len(shape) == len(declared) and all(
        size in (UNKNOWN, extent) for extent, size in zip(shape, declared, strict=True)
    )
