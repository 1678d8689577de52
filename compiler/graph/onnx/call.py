"""The input and the output of an importing function: a call of an ONNX operator, and a form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from vdla.compiler.graph.nodes import Attribute, TensorType

Kind = TypeVar("Kind")


class RefusalError(Exception):
    """A node cannot be imported; the message says why. The importer collects them all."""


class InvalidError(RefusalError):
    """A node means nothing, whoever runs it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One node of a model, with everything that is known about its inputs and outputs.

    Attributes:
        op: the operator's ONNX name.
        opset: version of the operator set.
        inputs: names of values; "" for one that is left out.
        attributes: as given, or the operator's defaults.
        types: of the inputs.
        values: of the inputs that are known while importing.
        outputs: types of the outputs; None for one that nobody needs and that could not be known.
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
        """The first input's."""
        return self.input_type(0).shape

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """Types of the outputs up to the first that is not known; all that are needed are."""
        place = self.outputs.index(None) if None in self.outputs else len(self.outputs)
        return tuple(found for found in self.outputs[:place] if found is not None)

    @property
    def output_type(self) -> TensorType:
        """Type of the first output, which is always known."""
        found = self.outputs[0]
        assert found is not None, "types of outputs that are needed are known"
        return found

    @property
    def rank(self) -> int:
        """The first input's."""
        return len(self.shape)

    def input_type(self, place: int) -> TensorType:
        """Return the type of an input that is given."""
        found = self.types[place]
        assert found is not None, "the operator's schema lets no such input be left out"
        return found

    def has(self, place: int) -> bool:
        """Whether the input at `place` is given."""
        return place < len(self.inputs) and self.inputs[place] != ""

    def known(self, place: int, what: str) -> np.ndarray:
        """Return the value of an input that must be known before the network runs."""
        value = self.values[place]
        if value is None:
            raise RefusalError(
                f"{what} ({self.inputs[place]!r}) is computed while the network runs; it must be a constant"
            )
        return value

    def attribute(self, name: str, kind: type[Kind], default: Kind | None = None) -> Kind:
        """Return an attribute, whose kind the operator's schema has been held to; `default` where it is not
        given."""
        value = self.attributes.get(name, default)
        assert isinstance(value, kind), f"attribute {name} of {self.op} is {value!r}"
        return value

    def plain(self, name: str) -> Attribute:
        """Return an attribute that is given, and no tensor."""
        value = self.attributes[name]
        assert not isinstance(value, np.ndarray), f"attribute {name} of {self.op} is a tensor"
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an attribute that is a whole number."""
        return self.attribute(name, int, default)

    def extents(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Return an attribute that is a list of whole numbers."""
        return self.attribute(name, tuple, default)

    def integers(self, name: str, place: int) -> tuple[int, ...] | None:
        """Return a parameter that older versions have as an attribute and newer ones as an input; None if it
        is left out."""
        if name in self.attributes:
            return self.extents(name)
        return tuple(map(int, self.known(place, name).ravel())) if self.has(place) else None

    def needed_integers(self, name: str, place: int) -> tuple[int, ...]:
        """Return a parameter as `integers` does; refuse a call that leaves it out."""
        found = self.integers(name, place)
        if found is None:
            raise RefusalError(f"{name} is missing")
        return found

    def axis(self, name: str = "axis", rank: int | None = None) -> int:
        """Return an attribute that names a dimension, counted from the front."""
        return positive_axis(self.integer(name), self.rank if rank is None else rank)

    def require(self, name: str, *allowed: Attribute) -> None:
        """Refuse an attribute that has none of the values allowed; one that is not there is fine."""
        value = self.attributes.get(name, allowed[0])
        if value not in allowed:
            raise RefusalError(
                f"attribute {name} = {value!r} is not supported; it may be {' or '.join(map(repr, allowed))}"
            )


@dataclass(frozen=True, slots=True)
class Form:
    """A node to make.

    Attributes:
        op: an operator of `vdla.runtime.host`.
        inputs: names of values, constants to make, or nodes to make first.
        attributes: all that the operator takes.
        type: of the output; None for the outermost form, whose outputs are the call's.
    """

    op: str
    inputs: tuple[str | np.ndarray | Form, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    type: TensorType | None = None


Importer = Callable[[Call], Form | np.ndarray]


def positive_axis(axis: int, rank: int) -> int:
    """Return a dimension counted from the front."""
    if not -rank <= axis < rank:
        raise RefusalError(f"axis {axis} is outside {-rank}..{rank - 1}")
    return axis % rank


def distinct_axes(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return dimensions counted from the front, sorted."""
    found = sorted(positive_axis(axis, rank) for axis in axes)
    if len(set(found)) < len(found):
        raise RefusalError(f"axes {axes} name a dimension twice")
    return tuple(found)
