"""The argument and the result of an importing function: a call of an ONNX operator, and a form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from vdla.compiler.graph.nodes import Attribute, TensorType

Kind = TypeVar("Kind")


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

    def has(self, place: int) -> bool:
        """Whether the node has an input at `place`."""
        return place < len(self.inputs) and self.inputs[place] != ""

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
        return tuple(map(int, self.known(place, name).ravel())) if self.has(place) else None

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
