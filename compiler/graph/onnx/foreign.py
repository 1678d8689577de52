"""Nodes of domains other than ONNX's, and their expansion into ONNX nodes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx import AttributeProto, NodeProto, helper, numpy_helper

from vdla.compiler.graph.nodes import TakenNames, TensorType
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.tensors import attributes_from

OPSET = 13  # of expansions: conversions along an axis, reductions with axes as attributes
KINDS: Mapping[type, AttributeProto.AttributeType] = {
    int: AttributeProto.INT,
    float: AttributeProto.FLOAT,
    str: AttributeProto.STRING,
    tuple: AttributeProto.INTS,
    list: AttributeProto.FLOATS,
}


class OnnxNode(NamedTuple):
    """An ONNX node in the expansion of a foreign node.

    Attributes:
        proto: the node.
        opset: the version of its operator set.
    """

    proto: NodeProto
    opset: int


class ForeignNode(NamedTuple):
    """A node of another domain in a model.

    Attributes:
        proto: the node.
        values: values of the inputs; None for a value that is not known at import.
        types: types of the inputs; None for an input that is left out.
        taken: names of the values of the model.
    """

    proto: NodeProto
    values: Sequence[np.ndarray | None]
    types: Sequence[TensorType | None]
    taken: TakenNames

    @property
    def out(self) -> str:
        """The name of the first output."""
        out: str = self.proto.output[0]
        return out

    @property
    def attributes(self) -> dict[str, Any]:
        """The node's attributes by name."""
        return dict(attributes_from({proto.name: proto for proto in self.proto.attribute}))

    def input(self, place: int) -> str:
        """Return the name of an input, or "" if it is left out."""
        return self.proto.input[place] if place < len(self.proto.input) else ""

    def known(self, place: int, role: str) -> np.ndarray:
        """Return the value of an input that must be constant.

        Raises:
            RefusalError: the input is computed while the network runs.
        """
        value = self.values[place]
        if value is None:
            raise RefusalError(
                f"{role} ({self.input(place)!r}) is computed while the network runs; it must be a constant"
            )
        return value

    def integer(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        value = self.attributes.get(name, default)
        assert isinstance(value, int), f"attribute {name} is {value!r}"
        return value

    def temporary(self, suffix: str) -> str:
        """Return the name of an intermediate value of the expansion; equal suffixes name the same value."""
        return self.taken.free(f"{self.out}.{suffix}")

    def operator(
        self, op: str, inputs: Sequence[str], out: str, opset: int = OPSET, **attributes: Any
    ) -> OnnxNode:
        """Return an ONNX node with a single output."""
        return OnnxNode(helper.make_node(op, inputs, [out], self.proto.name, **attributes), opset)

    def constant(self, name: str, array: np.ndarray) -> OnnxNode:
        """Return a Constant node."""
        return self.operator("Constant", [], name, value=numpy_helper.from_array(array))

    def number(self, name: str, value: float) -> OnnxNode:
        """Return a Constant node of a float32 scalar."""
        return self.constant(name, np.array(value, np.float32))

    def dequantised(self, place: int, out: str, axis: int = 0) -> OnnxNode:
        """Return the dequantisation of an input, which its scale and zero point follow in the input list."""
        names = [self.input(place + each) for each in range(3)]
        return self.operator("DequantizeLinear", names if names[2] else names[:2], out, axis=axis)

    def type(self, place: int) -> TensorType:
        """Return the type of a required input."""
        type_ = self.types[place]
        assert type_ is not None, f"input {place} is required"
        return type_

    def requantised(self, place: int, like: int = 0) -> Iterator[OnnxNode]:
        """Yield the quantisation of the intermediate value "sum" to the node's result.

        Args:
            place: position of the scale among the inputs; the zero point follows it.
            like: position of an input with the element type of the result.
        """
        names = [self.temporary("sum"), self.input(place), self.input(place + 1) or self.temporary("zero")]
        if not self.input(place + 1):
            yield self.constant(names[2], np.zeros((), self.type(like).dtype))
        yield self.operator("QuantizeLinear", names, self.out)


Expansion = Callable[[ForeignNode], Iterator[OnnxNode]]


class ForeignOperator(NamedTuple):
    """A supported operator of another domain.

    Attributes:
        inputs: the least and the greatest number of inputs.
        attributes: the kind of each supported attribute.
        expand: yields its expansion into ONNX nodes.
        becomes: the main ONNX operator of the expansion.
        required: positions of the inputs that must not be left out.
    """

    inputs: tuple[int, int]
    attributes: Mapping[str, type]
    expand: Expansion
    becomes: str
    required: tuple[int, ...]
