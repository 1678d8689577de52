"""Conversion of ONNX tensors, types and attributes to those of a graph; elements may be in an external file.

Source: ONNX documentation, External Data: location, offset, length.
"""

import os
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, TypeProto, checker, helper, numpy_helper

from vdla.compiler.graph.nodes import Attribute, TensorType
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.hw.spec.limits import ARRAY_BYTES, require_room
from vdla.hw.spec.showing import shown


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
    except (ValueError, TypeError, KeyError, OverflowError, MemoryError, checker.ValidationError) as error:
        raise RefusalError(f"its elements cannot be read: {first_line(error)}") from error


def type_from(proto: TypeProto) -> TensorType:
    """Return the static type of an ONNX type.

    Raises:
        RefusalError: the type is not a tensor, or its shape is not fully known.
    """
    if not proto.HasField("tensor_type"):
        raise RefusalError(
            f"it is a {proto.WhichOneof('value') or 'value without a type'}; only tensors are supported"
        )
    tensor = proto.tensor_type
    dtype = dtype_of(tensor.elem_type)
    if not tensor.HasField("shape"):
        raise RefusalError("its shape is dynamic: not even the rank is known")
    return TensorType(tuple(_extent(dim, tensor.shape.dim) for dim in tensor.shape.dim), dtype)


def type_with_shape(proto: TypeProto, shape: tuple[int, ...]) -> TensorType:
    """Return a type with `shape` in place of a declared shape that may be dynamic.

    Raises:
        RefusalError: the shape contradicts the declared shape, or an extent is not positive.
    """
    declared = proto.tensor_type.shape.dim
    fits = not proto.tensor_type.HasField("shape") or len(declared) == len(shape)
    fits = fits and all(
        not _is_fixed(dim) or dim.dim_value == size for dim, size in zip(declared, shape, strict=False)
    )
    if not fits or not all(isinstance(size, int) and size > 0 for size in shape):
        raise RefusalError(
            f"the shape given, {list(shape)}, does not match the declared shape, {shape_text(declared)}"
        )
    return TensorType(shape, dtype_of(proto.tensor_type.elem_type))


def shape_text(dims: Iterable[onnx.TensorShapeProto.Dimension]) -> str:
    """Return a shape as text, with names or "?" for dynamic extents."""
    extents = (str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in dims)
    return f"[{', '.join(extents)}]"


def _extent(dim: onnx.TensorShapeProto.Dimension, dims: Iterable[onnx.TensorShapeProto.Dimension]) -> int:
    if not _is_fixed(dim):
        raise RefusalError(f"its shape is dynamic: {shape_text(dims)}")
    if dim.dim_value >= 1 << 31:
        raise RefusalError(f"its extent {dim.dim_value} is outside 0..{(1 << 31) - 1}")
    return dim.dim_value


def _is_fixed(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether an extent is a non-negative number; other extents are dynamic."""
    return dim.HasField("dim_value") and dim.dim_value >= 0


def proto_of(type_: TensorType) -> TypeProto:
    """Return a graph's type as an ONNX type."""
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(type_.dtype)), type_.shape)


def attributes_from(protos: Iterable[AttributeProto]) -> dict[str, Attribute | np.ndarray]:
    """Return attributes as Python values, by name; tensors as arrays. Of equal names, the last counts.

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
    location = where.get("location", "")
    if folder is None:
        raise RefusalError(f"its elements are in a file {shown(location)}; load the model by its path")
    try:
        file = _resolved(location, folder)
        with file.open("rb") as opened:
            data = _part(opened, where, size_of(tensor))
    except OSError as error:
        raise RefusalError(f"its file {shown(location)} cannot be read: {error.strerror or error}") from error
    except _LengthError as error:
        raise RefusalError(f"its elements cannot be read: its file {shown(location)} {error}") from error
    return TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type, raw_data=data)


class _LengthError(Exception):
    """A file has too few bytes, or declares another number of bytes; the message names both."""


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


def _part(file: BinaryIO, where: dict[str, str], size: int) -> bytes:
    """Return the `size` bytes of a tensor."""
    offset, available = _number(where, "offset") or 0, os.fstat(file.fileno()).st_size
    length = _number(where, "length")
    held = available - offset if length is None else length
    if held != size or offset + held > available:
        raise _LengthError(
            f"has {available} bytes; {shown(held)} from {shown(offset)} on are named, "
            f"and the tensor takes {size}"
        )
    file.seek(offset)
    return file.read(size)


def _number(where: dict[str, str], key: str) -> int | None:
    """Return a numeric entry, or None if it is missing."""
    text = where.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise _LengthError(f"has the {key} {shown(text)}, which is not a number of bytes")
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
