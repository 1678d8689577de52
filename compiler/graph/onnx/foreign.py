"""Nodes of domains other than ONNX's, and their expansion into ONNX nodes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto, defs, helper, numpy_helper

from vdla.compiler.graph.nodes import TakenNames
from vdla.compiler.graph.onnx.call import OnnxCall

OPSET = 13  # of expansions: conversions along an axis, reductions with axes as attributes


class OnnxNode(NamedTuple):
    """An ONNX node in the expansion of a foreign node.

    Attributes:
        proto: the node.
        opset: the version of its operator set.
    """

    proto: NodeProto
    opset: int


@dataclass(frozen=True, slots=True)
class ForeignNode(OnnxCall):
    """A node of another domain in a model; its inputs are named as in the model.

    Attributes:
        proto: the node.
        taken: names of the values of the model.
        steps: its expansion so far, in topological order. The last step computes the node's first output.
    """

    proto: NodeProto
    taken: TakenNames
    steps: list[OnnxNode] = field(default_factory=list)

    def input(self, place: int) -> str:
        """Return the name of an input, or "" if it is left out."""
        return self.inputs[place] if place < len(self.inputs) else ""

    def temporary(self, suffix: str) -> str:
        """Return the name of an intermediate value of the expansion."""
        return self.taken.free(f"{self.proto.output[0]}.{suffix}")

    def add(
        self,
        op: str,
        *operands: str | float | np.ndarray,
        out: str = "",
        opset: int = OPSET,
        **attributes: Any,
    ) -> str:
        """Add an ONNX node with a single output to the expansion; return the name of the output.

        Args:
            op: its operator.
            operands: names of values, "" for an input that is left out; numbers become float32 constants,
                arrays become constants.
            out: the name of the output; a new name by default.
        """
        names = [part if isinstance(part, str) else self.constant(part) for part in operands]
        result = out or self.temporary(f"{op}{len(self.steps) or ''}")
        self.steps.append(
            OnnxNode(helper.make_node(op, names, [result], self.proto.name, **attributes), opset)
        )
        return result

    def constant(self, value: float | np.ndarray) -> str:
        """Add a constant, of float32 if it is a number; return its name."""
        array = value if isinstance(value, np.ndarray) else np.array(value, np.float32)
        return self.add("Constant", value=numpy_helper.from_array(array))

    def plus(self, name: str, place: int) -> str:
        """Add the sum of the value `name` and an input; return `name` if the input is left out."""
        return self.add("Add", name, self.input(place)) if self.input(place) else name

    def dequantised(self, place: int, axis: int = 0) -> str:
        """Add the dequantisation of an input, which its scale and zero point follow in the input list."""
        return self.add("DequantizeLinear", *map(self.input, range(place, place + 3)), axis=axis)

    def requantise(self, name: str, place: int, like: int = 0) -> None:
        """Add the quantisation of the value `name` to the node's result.

        Args:
            name: the value.
            place: position of the scale among the inputs; the zero point follows it.
            like: position of an input with the element type of the result.
        """
        zero = self.input(place + 1) or np.zeros((), self.input_type(like).dtype)
        self.add("QuantizeLinear", name, self.input(place), zero)


class ForeignOperator(NamedTuple):
    """A supported operator of another domain.

    Attributes:
        inputs: the least and the greatest number of inputs.
        attributes: the kind of each supported attribute, as a name of `AttributeProto.AttributeType`.
        expand: adds the steps of its expansion to a node; the last step computes the first output.
        becomes: the main ONNX operator of the expansion.
        optional: positions below the least number of inputs that may be left out.
    """

    inputs: tuple[int, int]
    attributes: Mapping[str, str]
    expand: Callable[[ForeignNode], object]
    becomes: str
    optional: tuple[int, ...] = ()

    @property
    def required(self) -> tuple[int, ...]:
        """Positions of the inputs that must not be left out."""
        return tuple(place for place in range(self.inputs[0]) if place not in self.optional)

    def expanded(self, node: ForeignNode) -> list[OnnxNode]:
        """Return the ONNX nodes that implement a node, in order.

        Raises:
            RefusalError: a parameter is not known or not supported.
        """
        self.expand(node)
        node.steps[-1].proto.output[0] = node.proto.output[0]
        return node.steps


def kinds_of(schema: defs.OpSchema) -> dict[str, str]:
    """Return the kind of each attribute of an ONNX operator, as a name of `AttributeProto.AttributeType`."""
    return {name: attribute.type.name for name, attribute in sorted(schema.attributes.items())}
