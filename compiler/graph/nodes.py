"""Graphs: operators in execution order, on tensors of static types. All nodes are frozen."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import prod
from types import MappingProxyType
from typing import Protocol, cast

import numpy as np

from vdla.hw.spec.errors import VdlaError
from vdla.runtime.host.dtypes import UNKNOWN, fits
from vdla.runtime.module.plan import State

Attribute = int | float | str | tuple[int, ...] | tuple[float, ...]


RESHAPING = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that change the shape of their first input, but not the order of its elements."""

REARRANGING = (*RESHAPING, "Transpose")
"""Operators whose result is a permutation of the elements of their first input."""

PICKING = ("Gather", "Slice")
"""Operators whose result consists of elements of their first input."""


def extents_of(attributes: Mapping[str, Attribute], name: str) -> tuple[int, ...]:
    """Return an attribute that is a tuple of integers."""
    value = attributes[name]
    assert isinstance(value, tuple), f"attribute {name} is {value!r}"
    return cast("tuple[int, ...]", value)


class GraphError(VdlaError):
    """A graph, a model file or a requested transformation is ill-formed or not supported."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """The extents and the element type of a tensor.

    Attributes:
        shape: extents; empty for a scalar. An extent is `UNKNOWN` if it is only known after a run; only
            values that onnxruntime computes have such extents.
        dtype: an element of `vdla.runtime.host.dtypes.TENSOR_DTYPES`.
    """

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]" if self.shape else self.dtype

    @property
    def size(self) -> int:
        """The number of elements; unknown extents count as 1."""
        return prod(size for size in self.shape if size != UNKNOWN)

    @property
    def is_known(self) -> bool:
        """Whether every extent is known."""
        return UNKNOWN not in self.shape

    def holds(self, other: "TensorType") -> bool:
        """Whether a value of the fully known type `other` also has this type."""
        return self == other or (self.dtype == other.dtype and fits(other.shape, self.shape))


class Names(tuple[str, ...]):
    """Names in order, with membership tests in constant time."""

    @cached_property
    def _members(self) -> frozenset[str]:
        return frozenset(self)

    def __contains__(self, name: object) -> bool:
        return name in self._members


@dataclass(frozen=True, slots=True)
class Node:
    """An operator applied to values.

    Attributes:
        op: the operator's name in `vdla.runtime.host`, which defines its semantics.
        inputs: names of the input values; "" for an optional input that is left out.
        outputs: names of the results. Trailing outputs of the operator may be missing if nothing reads them.
        attributes: all attributes of the operator, and no others.
        name: the node's name in the model it came from; only messages use it.
        reason: why the operators that this node replaces run on the host; "" if it replaces none.
        macs: multiply-accumulates of the operator that this node replaces; None if the shapes determine them.
        step_of: the operation that this node repeats for a step of a sequence, as in an unrolled LSTM; "" for
            any other node. The results of all steps of an operation are quantised with the same scale.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    name: str = ""
    reason: str = ""
    macs: int | None = None
    step_of: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", MappingProxyType(dict(sorted(self.attributes.items()))))

    @property
    def result(self) -> str:
        """The name of the first result, the only result of most operators."""
        return self.outputs[0]

    @property
    def layer(self) -> str:
        """The name of the node in messages and options; all steps of an operation share it."""
        return self.step_of or self.name or self.result

    def integer(self, name: str) -> int:
        """Return an integer attribute."""
        value = self.attributes[name]
        assert isinstance(value, int), f"attribute {name} of {self} is {value!r}"
        return value

    def real(self, name: str, default: float | None = None) -> float:
        """Return a numeric attribute, or `default` if the operator has no attribute of that name."""
        value = self.attributes.get(name, default)
        assert isinstance(value, int | float), f"attribute {name} of {self} is {value!r}"
        return value

    def extents(self, name: str) -> tuple[int, ...]:
        """Return an attribute that is a tuple of integers."""
        return extents_of(self.attributes, name)

    def pair(self, name: str) -> tuple[int, int]:
        """Return an attribute that holds two integers: vertical, horizontal."""
        vertical, horizontal = self.extents(name)
        return vertical, horizontal

    def border(self, name: str) -> tuple[int, int, int, int]:
        """Return an attribute that holds four integers: above, left, below, right."""
        above, left, below, right = self.extents(name)
        return above, left, below, right

    def __str__(self) -> str:
        return f"{self.op} {self.name or self.result!r}"


class Values(Protocol):
    """The types and constants of a graph, or of a graph under construction."""

    @property
    def types(self) -> Mapping[str, TensorType]:
        """The types of all values by name."""
        ...

    @property
    def constants(self) -> Mapping[str, np.ndarray]:
        """Read-only arrays by name."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A network.

    Attributes:
        name: printable and not empty, as are the names of all values.
        inputs: types of the network's inputs by name, in order.
        outputs: names of the network's outputs, in order.
        nodes: in topological order (producers first).
        constants: read-only arrays by name.
        types: of every value by name: inputs, constants, and outputs of nodes.
        states: the inputs that have, in each run, the value of an output of the run before.
    """

    name: str
    inputs: Mapping[str, TensorType]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, np.ndarray]
    types: Mapping[str, TensorType]
    states: Mapping[str, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in ("inputs", "constants", "types", "states"):
            object.__setattr__(self, part, MappingProxyType(dict(getattr(self, part))))
        object.__setattr__(self, "outputs", Names(self.outputs))

    def __eq__(self, other: object) -> bool:
        """Whether all parts are equal, constants bit for bit."""
        if not isinstance(other, Graph):
            return NotImplemented
        ours, theirs = (
            (graph.name, tuple(graph.inputs.items()), graph.outputs, graph.nodes, graph.types, graph.states)
            for graph in (self, other)
        )
        return ours == theirs and _bits(self.constants) == _bits(other.constants)


def type_of(array: np.ndarray) -> TensorType:
    """Return the type of an array."""
    return TensorType(array.shape, _name_of(array.dtype))


@cache
def _name_of(dtype: np.dtype) -> str:
    """Return the name of an element type, cached because NumPy formats it on each call."""
    return str(dtype)


class TakenNames:
    """Names that no new value may have. A taken name stays taken.

    Args:
        names: the initially taken names.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = set(names)
        self._numbers: dict[str, int] = {}  # the least suffix of each wish that may be free

    def is_taken(self, name: str) -> bool:
        """Whether a name is taken."""
        return name in self._names

    def add(self, *names: str) -> None:
        """Take names."""
        self._names.update(names)

    def free(self, wish: str) -> str:
        """Return `wish` if it is free; else `wish_N` with the least N that is free."""
        if not self.is_taken(wish):
            return wish
        number = self._numbers.get(wish, 1)
        while self.is_taken(f"{wish}_{number}"):
            number += 1
        self._numbers[wish] = number
        return f"{wish}_{number}"

    def take(self, wish: str) -> str:
        """Take and return the free name nearest to `wish`; see `free`."""
        name = self.free(wish)
        self._names.add(name)
        return name


def _bits(constants: Mapping[str, np.ndarray]) -> dict[str, tuple[TensorType, bytes]]:
    return {name: (type_of(array), array.tobytes()) for name, array in constants.items()}
