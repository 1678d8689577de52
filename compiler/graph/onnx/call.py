"""Nodes as importing functions take them, and what these functions return.

A call of an ONNX operator becomes a form. A node of another domain is expanded into ONNX nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
from onnx import NodeProto, defs, helper, numpy_helper

from vdla.compiler.graph.nodes import Attribute, TakenNames, TensorType

Kind = TypeVar("Kind")
OPSET = 13  # of expansions: conversions along an axis, reductions with axes as attributes
OPSET_OF_SLICES = 1  # the version of Slice whose positions are attributes


class RefusalError(Exception):
    """A node cannot be imported; the message is the reason. The importer collects all refusals."""


class InvalidError(RefusalError):
    """A node is invalid on any device."""


@dataclass(frozen=True, slots=True)
class OnnxCall:
    """A node of a model, with everything known about its inputs and outputs.

    Attributes:
        op: the operator's ONNX name.
        opset: version of the operator set.
        inputs: names of values; "" for an input that is left out.
        attributes: explicit attributes, and the operator's defaults.
        types: types of the inputs; None for an input that is left out.
        values: values of the inputs; None for a value that is not known at import.
        outputs: types of the outputs; None for an unused output of unknown type.
    """

    op: str
    opset: int
    inputs: tuple[str, ...]
    attributes: Mapping[str, Attribute | np.ndarray]
    types: tuple[TensorType | None, ...]
    values: tuple[np.ndarray | None, ...]
    outputs: tuple[TensorType | None, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first input."""
        return self.input_type(0).shape

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """Types of the outputs before the first unknown type; the types of all used outputs are known."""
        place = self.outputs.index(None) if None in self.outputs else len(self.outputs)
        return tuple(type_ for type_ in self.outputs[:place] if type_ is not None)

    @property
    def output_type(self) -> TensorType:
        """The type of the first output, which is always known."""
        type_ = self.outputs[0]
        assert type_ is not None, "types of outputs that are needed are known"
        return type_

    @property
    def rank(self) -> int:
        """The rank of the first input."""
        return len(self.shape)

    def input_type(self, place: int) -> TensorType:
        """Return the type of the input at `place`, which must not be left out."""
        type_ = self.types[place]
        assert type_ is not None, "the operator's schema lets no such input be left out"
        return type_

    def input(self, place: int) -> str:
        """Return the name of an input, or "" if it is left out."""
        return self.inputs[place] if place < len(self.inputs) else ""

    def known(self, place: int, role: str) -> np.ndarray:
        """Return the value of an input that must be constant.

        Args:
            role: the input's name in messages.

        Raises:
            RefusalError: the value is not known at import.
        """
        value = self.values[place]
        if value is None:
            raise RefusalError(
                f"{role} ({self.inputs[place]!r}) is computed while the network runs; it must be a constant"
            )
        return value

    def attribute(self, name: str, kind: type[Kind], default: Kind | None = None) -> Kind:
        """Return an attribute, whose kind was checked against the operator's schema, or `default`."""
        value = self.attributes.get(name, default)
        assert isinstance(value, kind), f"attribute {name} of {self.op} is {value!r}"
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute."""
        return self.attribute(name, int, default)

    def extents(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Return an attribute that is a tuple of integers."""
        return self.attribute(name, tuple, default)

    def integers(self, name: str, place: int) -> tuple[int, ...] | None:
        """Return a parameter that is an attribute in older versions and an input in newer versions, or None.

        Raises:
            RefusalError: the parameter is an input that is not known at import.
        """
        if name in self.attributes:
            return self.extents(name)
        return tuple(map(int, self.known(place, name).ravel())) if self.input(place) else None

    def needed_integers(self, name: str, place: int) -> tuple[int, ...]:
        """Return a parameter as `integers` does.

        Raises:
            RefusalError: the parameter is left out, or not known at import.
        """
        parameter = self.integers(name, place)
        if parameter is None:
            raise RefusalError(f"{name} is missing")
        return parameter

    def axis(self) -> int:
        """Return the attribute `axis`, a dimension of the first input, as a non-negative number.

        Raises:
            RefusalError: the dimension is out of range.
        """
        return positive_axis(self.integer("axis"), self.rank)

    def require(self, name: str, *allowed: Attribute) -> None:
        """Check that an attribute has an allowed value, or is missing.

        Raises:
            RefusalError: the attribute has another value.
        """
        value = self.attributes.get(name, allowed[0])
        if value not in allowed:
            raise RefusalError(
                f"attribute {name} = {value!r} is not supported; it may be {' or '.join(map(repr, allowed))}"
            )


@dataclass(frozen=True, slots=True)
class Form:
    """A node to create.

    Attributes:
        op: an operator of `vdla.runtime.host`.
        inputs: names of values, arrays of new constants, or forms of nodes to create first.
        attributes: all attributes of the operator.
        type: type of the output; None for the outermost form, whose outputs are the call's.
    """

    op: str
    inputs: tuple[str | np.ndarray | Form, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    type: TensorType | None = None


Importer = Callable[[OnnxCall], Form | np.ndarray]


def positive_axis(axis: int, rank: int) -> int:
    """Return a dimension as a non-negative number.

    Raises:
        RefusalError: the dimension is out of range.
    """
    if not -rank <= axis < rank:
        raise RefusalError(f"axis {axis} is outside {-rank}..{rank - 1}")
    return axis % rank


def distinct_axes(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return dimensions as non-negative numbers, sorted.

    Raises:
        RefusalError: a dimension is out of range, or occurs twice.
    """
    positive = sorted(positive_axis(axis, rank) for axis in axes)
    if len(set(positive)) < len(positive):
        raise RefusalError(f"axes {axes} name a dimension twice")
    return tuple(positive)


# Nodes of other domains


class OnnxNode(NamedTuple):
    """An ONNX node in the expansion of a foreign node.

    Attributes:
        proto: the node.
        opset: the version of its operator set.
        step_of: as `Node.step_of`.
    """

    proto: NodeProto
    opset: int
    step_of: str = ""


@dataclass(frozen=True, slots=True)
class ForeignNode(OnnxCall):
    """A node of another domain in a model; its inputs are named as in the model.

    Attributes:
        proto: the node.
        taken: names of the values of the model.
        steps: its expansion so far, in topological order. The last step computes the node's first output, if
            the node has it.
    """

    proto: NodeProto
    taken: TakenNames
    steps: list[OnnxNode] = field(default_factory=list)

    def temporary(self, suffix: str) -> str:
        """Return the name of an intermediate value of the expansion."""
        return self.taken.free(f"{next(filter(None, self.proto.output))}.{suffix}")

    @property
    def unique_name(self) -> str:
        """The name of the node, or of its first output if it has none; with a number if it is taken."""
        outputs = [name for name in self.proto.output if name]
        name = self.proto.name or outputs[0]
        return name if name in outputs else self.taken.take(name)

    def output(self, place: int) -> str:
        """Return the name of an output; "" if it is left out."""
        return self.proto.output[place] if place < len(self.proto.output) else ""

    def add(
        self,
        op: str,
        *operands: str | float | np.ndarray,
        out: str = "",
        opset: int = OPSET,
        step_of: str = "",
        **attributes: Any,
    ) -> str:
        """Add an ONNX node with a single output to the expansion; return the name of the output.

        Args:
            op: its operator.
            operands: names of values, "" for an input that is left out; numbers become float32 constants,
                arrays become constants.
            out: the name of the output; a new name by default.
            step_of: as `Node.step_of`; a step has the name of its output.
        """
        names = [part if isinstance(part, str) else self.constant(part) for part in operands]
        result = out or self.temporary(f"{op}{len(self.steps) or ''}")
        name = result if step_of else self.proto.name
        proto = helper.make_node(op, names, [result], name, **attributes)
        self.steps.append(OnnxNode(proto, opset, step_of))
        return result

    def constant(self, value: float | np.ndarray) -> str:
        """Add a constant, of float32 if it is a number; return its name."""
        array = value if isinstance(value, np.ndarray) else np.array(value, np.float32)
        return self.add("Constant", value=numpy_helper.from_array(array))

    def shaped(self, name: str, *shape: int, out: str = "") -> str:
        """Add the value `name` in another shape."""
        return self.add("Reshape", name, self.constant(np.array(shape, np.int64)), out=out)

    def unsqueezed(self, name: str, *axes: int) -> str:
        """Add the value `name` with new dimensions of extent 1."""
        return self.add("Unsqueeze", name, self.constant(np.array(axes, np.int64)))

    def sliced(self, name: str, axis: int, begin: int, end: int, out: str = "") -> str:
        """Add the elements `begin` to `end - 1` along an axis of the value `name`."""
        return self.add(
            "Slice", name, out=out, opset=OPSET_OF_SLICES, axes=[axis], ends=[end], starts=[begin]
        )

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
        expand: adds the steps of its expansion to a node, as `ForeignNode.steps` holds them.
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
        node.steps[-1].proto.output[0] = node.proto.output[0] or node.steps[-1].proto.output[0]
        return node.steps


def kinds_of(schema: defs.OpSchema) -> dict[str, str]:
    """Return the kind of each attribute of an ONNX operator, as a name of `AttributeProto.AttributeType`."""
    return {name: attribute.type.name for name, attribute in sorted(schema.attributes.items())}
