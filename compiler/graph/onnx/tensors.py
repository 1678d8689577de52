"""Conversion of ONNX tensors, types and attributes to a graph's; elements may be in an external file.

Source: ONNX documentation, External Data: location, offset, length.
"""

import os
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path

import numpy as np
from onnx import (
    AttributeProto,
    TensorProto,
    TypeProto,
    checker,
    helper,
    numpy_helper,
    shape_inference,
    version_converter,
)

from vdla.compiler.graph.nodes import Attribute, TensorType
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.hw.spec.limits import ARRAY_BYTES, require_room
from vdla.hw.spec.showing import shown
from vdla.runtime.host.dtypes import UNKNOWN, fits

ONNX_ERRORS = (
    checker.ValidationError,
    shape_inference.InferenceError,
    version_converter.ConvertError,
    KeyError,
    RuntimeError,
    ValueError,
)
"""The exceptions of the `onnx` package's checker, inference, inliner and converter."""


def array_of(tensor: TensorProto, folder: Path | None) -> np.ndarray:
    """Return the elements of a tensor, from the model or from an external file.

    Args:
        folder: the folder of external files.

    Raises:
        RefusalError: elements are missing or superfluous, or their type is not supported.
    """
    check_room(size_of(tensor), "it takes")  # a file may be far smaller than the declared extents
    if tensor.data_location == TensorProto.EXTERNAL:
        tensor = _with_data(tensor, folder)
    try:
        return np.array(numpy_helper.to_array(tensor))
    except (*ONNX_ERRORS, TypeError, OverflowError, MemoryError) as error:
        raise RefusalError(f"its elements cannot be read: {first_line(error)}") from error


def extents_of(type_: TypeProto) -> tuple[int, ...] | None:
    """Return the extents of a tensor, `UNKNOWN` where none is stated; None if the rank is not stated."""
    if not type_.tensor_type.HasField("shape"):
        return None
    dims = type_.tensor_type.shape.dim
    return tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else UNKNOWN for dim in dims
    )


def type_from(proto: TypeProto, given: tuple[int, ...] | None = None) -> TensorType:
    """Return the static type of an ONNX type.

    Args:
        proto: the type.
        given: a shape in place of the declared shape, which may be dynamic.

    Raises:
        RefusalError: the type is not a tensor, its shape is not fully known, or the given shape contradicts
            the declared shape or has an extent that is not positive.
    """
    if not proto.HasField("tensor_type"):
        raise RefusalError(
            f"it is a {proto.WhichOneof('value') or 'value without a type'}; only tensors are supported"
        )
    dtype, shape, dims = dtype_of(proto.tensor_type.elem_type), extents_of(proto), proto.tensor_type.shape.dim
    texts = (str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in dims)
    text = f"[{', '.join(texts)}]"
    if given is not None:
        positive = all(isinstance(size, int) and size > 0 for size in given)
        if not positive or (shape is not None and not fits(given, shape)):
            raise RefusalError(f"the shape given, {list(given)}, does not match the declared shape, {text}")
        return TensorType(given, dtype)
    if shape is None:
        raise RefusalError("its shape is dynamic: not even the rank is known")
    if UNKNOWN in shape:
        raise RefusalError(f"its shape is dynamic: {text}")
    if max(shape, default=0) >= 1 << 31:
        raise RefusalError(f"its extent {max(shape)} is outside 0..{(1 << 31) - 1}")
    return TensorType(shape, dtype)


def proto_of(type_: TensorType) -> TypeProto:
    """Return a graph's type as an ONNX type."""
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(type_.dtype)), type_.shape)


def attributes_from(protos: Iterable[AttributeProto]) -> dict[str, Attribute | np.ndarray]:
    """Return attributes as Python values, by name; tensors and lists of strings as arrays.

    Of equal names, the last counts.

    Raises:
        RefusalError: an attribute is a graph or of another unsupported kind.
    """
    return {proto.name: _attribute(proto) for proto in {proto.name: proto for proto in protos}.values()}


def _attribute(proto: AttributeProto) -> Attribute | np.ndarray:
    match proto.type:
        case AttributeProto.INT:
            return proto.i
        case AttributeProto.FLOAT:
            return shortest(proto.f)
        case AttributeProto.STRING:
            return proto.s.decode("utf-8", "replace")
        case AttributeProto.INTS:
            return tuple(proto.ints)
        case AttributeProto.FLOATS:
            return tuple(map(shortest, proto.floats))
        case AttributeProto.STRINGS:
            return np.array([each.decode("utf-8", "replace") for each in proto.strings])
        case AttributeProto.TENSOR:
            return array_of(proto.t, None)
        case AttributeProto.GRAPH | AttributeProto.GRAPHS:
            raise RefusalError(f"it holds a subgraph, {proto.name}; control flow is not supported")
    raise RefusalError(f"attribute {proto.name} is of a kind that is not supported")


def shortest(value: float) -> float:
    """Return the number with the fewest digits that rounds to the same float32."""
    with np.errstate(over="ignore"):  # numbers beyond float32 round to infinity
        return float(str(np.float32(value)))


def constant_value(attributes: Mapping[str, object]) -> np.ndarray:
    """Return the elements of a Constant node with these attributes.

    Raises:
        RefusalError: the attributes are not supported.

    Source: ONNX operator specification, Constant.
    """
    match attributes:
        case {"value": np.ndarray() as array}:
            return array
        case {"value_float": value} | {"value_floats": value}:
            return np.array(value, np.float32)
        case {"value_int": value} | {"value_ints": value}:
            return np.array(value, np.int64)
    raise RefusalError(f"a constant given by {', '.join(attributes) or 'nothing'} is not supported")


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its class name."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


# External files


def _with_data(tensor: TensorProto, folder: Path | None) -> TensorProto:
    """Return a tensor with its elements loaded from its external file.

    At most the bytes that the tensor's extents require are read.

    Args:
        folder: the folder of the model, which must contain the file.

    Raises:
        RefusalError: the file is outside the folder, missing or too short, or the declared length differs
            from the tensor's size.
    """
    where = {entry.key: entry.value for entry in tensor.external_data}
    location, size = where.get("location", ""), size_of(tensor)
    if folder is None:
        raise RefusalError(f"its elements are in a file {shown(location)}; load the model by its path")
    try:
        file = _resolved(location, folder)
        with file.open("rb") as opened:
            available = os.fstat(opened.fileno()).st_size
            offset = _number(where, "offset", 0)
            held = _number(where, "length", available - offset)
            if held != size or offset + held > available:
                raise RefusalError(
                    f"its elements cannot be read: its file {shown(location)} has {available} bytes; "
                    f"{shown(held)} from {shown(offset)} on are named, and the tensor takes {size}"
                )
            opened.seek(offset)
            data = opened.read(size)
    except OSError as error:
        raise RefusalError(f"its file {shown(location)} cannot be read: {error.strerror or error}") from error
    return TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type, raw_data=data)


def _resolved(location: str, folder: Path) -> Path:
    """Return the path of a regular file inside a folder; refuse any other location."""
    if "\0" in location:
        raise RefusalError(f"its file {shown(location)} has a name with a NUL, which no file has")
    root, file = os.path.realpath(folder), os.path.realpath(folder / location)
    if file == root or not Path(file).is_relative_to(root):
        raise RefusalError(f"its file {shown(location)} is not in the folder of the model")
    try:
        os.stat(file)
    except FileNotFoundError:
        raise RefusalError(f"its file {shown(location)} is missing from {folder}") from None
    if not os.path.isfile(file):
        raise RefusalError(f"its file {shown(location)} is not a file")
    return Path(file)


def _number(where: Mapping[str, str], key: str, default: int) -> int:
    """Return a numeric entry, or `default` if it is missing."""
    text = where.get(key, str(default))
    if key in where and not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise RefusalError(
            f"its elements cannot be read: its file {shown(where.get('location', ''))} has the {key} "
            f"{shown(text)}, which is not a number of bytes"
        )
    return int(text)


# Element types


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
    known = code in TensorProto.DataType.values()
    if not known or code in (TensorProto.UNDEFINED, TensorProto.STRING):
        name = TensorProto.DataType.Name(code) if known else code
        raise RefusalError(f"element type {name} is not supported")
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
