"""An operator of another domain than ONNX's, as a model has it, and what stands for it in ONNX."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx import AttributeProto, NodeProto, helper, numpy_helper

from vdla.compiler.graph.nodes import TakenNames, TensorType
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.tensors import attributes_from

OPSET = 13  # of the operators that stand for others: conversions along an axis, reductions by attribute
KINDS: Mapping[type, AttributeProto.AttributeType] = {
    int: AttributeProto.INT,
    float: AttributeProto.FLOAT,
    str: AttributeProto.STRING,
    tuple: AttributeProto.INTS,
    list: AttributeProto.FLOATS,
}


class Part(NamedTuple):
    """An operator of ONNX that stands for another one, or for a part of it.

    Attributes:
        opset: the version of the operator set that it is of.
    """

    node: NodeProto
    opset: int


class Written(NamedTuple):
    """An operator of another domain as a model has it.

    Attributes:
        values: of the inputs that are known.
        types: of the inputs; None for one that is left out.
        taken: names of the model's own values.
    """

    node: NodeProto
    values: Sequence[np.ndarray | None]
    types: Sequence[TensorType | None]
    taken: TakenNames

    @property
    def out(self) -> str:
        """The result."""
        out: str = self.node.output[0]
        return out

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes that are given."""
        return dict(attributes_from({proto.name: proto for proto in self.node.attribute}))

    def input(self, place: int) -> str:
        """Return an input; "" where it is left out."""
        return self.node.input[place] if place < len(self.node.input) else ""

    def known(self, place: int, role: str) -> np.ndarray:
        """Return the value of an input that must be constant.

        Raises:
            RefusalError: it is computed while the network runs.
        """
        value = self.values[place]
        if value is None:
            raise RefusalError(
                f"{role} ({self.input(place)!r}) is computed while the network runs; it must be a constant"
            )
        return value

    def integer(self, name: str, default: int) -> int:
        """Return an attribute that is a whole number."""
        value = self.attributes.get(name, default)
        assert isinstance(value, int), f"attribute {name} is {value!r}"
        return value

    def made(self, suffix: str) -> str:
        """Return the name of a value that stands on the way to the result."""
        return self.taken.free(f"{self.out}.{suffix}")

    def part(self, op: str, inputs: Sequence[str], out: str, opset: int = OPSET, **attributes: Any) -> Part:
        """Return an operator of ONNX."""
        return Part(helper.make_node(op, inputs, [out], self.node.name, **attributes), opset)

    def constant(self, name: str, array: np.ndarray) -> Part:
        """Return a constant."""
        return self.part("Constant", [], name, value=numpy_helper.from_array(array))

    def number(self, name: str, value: float) -> Part:
        """Return a constant of one float32."""
        return self.constant(name, np.array(value, np.float32))

    def real(self, place: int, out: str, axis: int = 0) -> Part:
        """Return the conversion of an input, whose scale and zero point stand behind it, to real numbers."""
        names = [self.input(place + each) for each in range(3)]
        return self.part("DequantizeLinear", names if names[2] else names[:2], out, axis=axis)

    def type(self, place: int) -> TensorType:
        """Return the type of an input that is required."""
        found = self.types[place]
        assert found is not None, f"input {place} is required"
        return found

    def quantised(self, place: int, like: int = 0) -> Iterator[Part]:
        """Yield the conversion to the result; scale and zero point stand from `place` on, and the result has
        the type of the input at `like`."""
        names = [self.made("sum"), self.input(place), self.input(place + 1) or self.made("zero")]
        if not self.input(place + 1):
            yield self.constant(names[2], np.zeros((), self.type(like).dtype))
        yield self.part("QuantizeLinear", names, self.out)


Expansion = Callable[[Written], Iterator[Part]]


class Contributed(NamedTuple):
    """An operator of another domain.

    Attributes:
        inputs: the fewest and the most.
        attributes: the kind of each that may be given.
        expand: returns what stands for it.
        becomes: the operator of ONNX that it is.
        required: inputs that may not be left out, by place.
    """

    inputs: tuple[int, int]
    attributes: Mapping[str, type]
    expand: Expansion
    becomes: str
    required: tuple[int, ...]
