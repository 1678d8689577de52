"""The input and the output of an importing function: a call of an ONNX operator, and a form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from vdla.compiler.graph.nodes import Attribute, TensorType


class RefusalError(Exception):
    """A node cannot be imported; the message says why. The importer collects them all."""


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
        return self.types[0].shape

    @property
    def rank(self) -> int:
        """The first input's."""
        return len(self.shape)

    def has(self, place: int) -> bool:
        """Whether the input at `place` is given."""
        return place < len(self.inputs) and self.inputs[place] != ""

    def known(self, place: int, what: str) -> np.ndarray:
        """Return the value of an input that must be known before the network runs."""
        if self.values[place] is None:
            raise RefusalError(
                f"{what} ({self.inputs[place]!r}) is computed while the network runs; it must be a constant"
            )
        return self.values[place]

    def integers(self, name: str, place: int) -> tuple[int, ...] | None:
        """Return a parameter that older versions have as an attribute and newer ones as an input; None if it
        is left out."""
        if name in self.attributes:
            return self.attributes[name]
        return tuple(map(int, self.known(place, name).ravel())) if self.has(place) else None

    def axis(self, name: str = "axis", rank: int | None = None) -> int:
        """Return an attribute that names a dimension, counted from the front."""
        return positive_axis(self.attributes[name], self.rank if rank is None else rank)

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
