"""Element types of tensors on the host, as NumPy calls them."""

from typing import Literal, cast, get_args

Dtype = Literal["float32", "int8", "uint8", "int16", "uint16", "int32", "int64", "bool"]
DTYPES: tuple[str, ...] = get_args(Dtype)


def dtype_of(name: str) -> Dtype:
    """Return the element type of that name."""
    assert name in DTYPES, f"{name} is no element type of a tensor"
    return cast("Dtype", name)
