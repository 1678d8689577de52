"""The values of a graph under construction: their names, types and constants, and what a graph can hold."""

from collections.abc import Collection

import numpy as np
from onnx import NodeProto

from vdla.compiler.graph.nodes import TakenNames, TensorType, type_of
from vdla.compiler.graph.onnx.call import InvalidError, RefusalError
from vdla.compiler.graph.onnx.quantised import RANGES, as_bytes
from vdla.compiler.graph.onnx.tensors import check_room
from vdla.hw.spec.limits import TENSOR_BYTES
from vdla.runtime.host.dtypes import DTYPES, TENSOR_DTYPES

LONGEST_NAME = 1000
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
    "RMSNormalization",
)
"""Operators that are invalid with constants that are not finite: weights, statistics and scales."""


class ImportedValues:
    """The values that the importer has added so far.

    Args:
        model_names: the names of the model's values.

    Attributes:
        model_names: names that the model's nodes use, inlined nodes included.
        taken: names that no new value of the graph may have.
        names: the graph's name of each imported value, by the model's name.
        types: types of the graph's values; values that only onnxruntime can hold have none.
        constants: the graph's constants by name.
        ranges: the ranges of values of less than eight bits, by the model's names.
    """

    def __init__(self, model_names: Collection[str]) -> None:
        self.model_names = TakenNames(model_names)
        self.taken = TakenNames(model_names)
        self.names: dict[str, str] = {}
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.ranges: dict[str, tuple[int, int]] = {}

    def add_constant(self, name: str, array: np.ndarray) -> None:
        """Add a constant for a value of the model; integers of less than eight bits become bytes."""
        if str(array.dtype) in RANGES:
            self.ranges[name] = RANGES[str(array.dtype)]
        self.names[name] = self.new_constant(name, as_bytes(array))

    def new_constant(self, wish: str, array: np.ndarray) -> str:
        """Add a constant; return its name, which is derived from `wish` as in `define`."""
        name = self.define(wish, type_of(array))
        self.constants[name] = array
        return name

    def define(self, wish: str, type_: TensorType | None) -> str:
        """Add a value; return its name: `wish` if it is a printable name of the model, else a free name."""
        plain = printable(wish)
        name = wish if plain == wish and self.model_names.is_taken(wish) else self.taken.free(plain)
        self.taken.add(name)
        if type_ is not None:
            self.types[name] = type_
        return name


# Names


def printable(name: str) -> str:
    """Return a name truncated to `LONGEST_NAME`, with "_" for characters that cannot be printed."""
    return "".join(letter if letter.isprintable() else "_" for letter in name[:LONGEST_NAME])


def without_trailing_names(node: NodeProto) -> NodeProto:
    """Return a node without trailing empty inputs and outputs."""
    copy = NodeProto()
    copy.CopyFrom(node)
    for names in (copy.input, copy.output):
        while names and not names[-1]:
            names.pop()
    return copy


# Types


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
