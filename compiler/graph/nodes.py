"""Graphs: operators in execution order, on tensors of static types. All nodes are frozen."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import prod
from types import MappingProxyType
from typing import Protocol, cast

import numpy as np

from vdla.hw.spec.errors import VdlaError
from vdla.runtime.host.dtypes import UNKNOWN, fits

Attribute = int | float | str | tuple[int, ...] | tuple[float, ...]


def extents_of(attributes: Mapping[str, Attribute], name: str) -> tuple[int, ...]:
    """Return an attribute that is a list of whole numbers."""
    value = attributes[name]
    assert isinstance(value, tuple), f"attribute {name} is {value!r}"
    return cast("tuple[int, ...]", value)


class GraphError(VdlaError):
    """A graph, a file with one, or a requested change is ill-formed or not supported."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """The extents and the element type of a tensor.

    Attributes:
        shape: extents; `UNKNOWN` for one that is known when the network has run, which only values that
            onnxruntime makes have; empty for a single number.
        dtype: one of `vdla.runtime.host.dtypes.TENSOR_DTYPES`.
    """

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]" if self.shape else self.dtype

    @property
    def size(self) -> int:
        """Number of elements, as far as it is known."""
        return prod(size for size in self.shape if size != UNKNOWN)

    @property
    def is_known(self) -> bool:
        """Whether every extent is known."""
        return UNKNOWN not in self.shape

    def holds(self, other: "TensorType") -> bool:
        """Whether a value of the type `other`, all of it known, is one of this type."""
        return self.dtype == other.dtype and fits(other.shape, self.shape)


class Names(tuple[str, ...]):
    """Names in order; whether a name is among them takes no search."""

    @cached_property
    def _members(self) -> frozenset[str]:
        return frozenset(self)

    def __contains__(self, name: object) -> bool:
        return name in self._members


@dataclass(frozen=True, slots=True)
class Node:
    """One use of an operator.

    Attributes:
        op: its name in `vdla.runtime.host`, which says what it means.
        inputs: names of values; "" for an optional one that is left out.
        outputs: names of the values it makes; the first of the operator's outputs, the rest are not needed.
        attributes: exactly those that the operator takes.
        name: what the node was called where it came from; only messages use it.
        reason: why the operators run on the host that a pass has put this node in the place of; else "".
        macs: multiply-accumulates of the operator that a pass has put this node in the place of; None if the
            shapes tell them.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    name: str = ""
    reason: str = ""
    macs: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", MappingProxyType(dict(sorted(self.attributes.items()))))

    def integer(self, name: str) -> int:
        """Return an attribute that is a whole number."""
        value = self.attributes[name]
        assert isinstance(value, int), f"attribute {name} of {self} is {value!r}"
        return value

    def real(self, name: str, default: float | None = None) -> float:
        """Return an attribute that is a number; `default` where the operator has none of that name."""
        value = self.attributes.get(name, default)
        assert isinstance(value, int | float), f"attribute {name} of {self} is {value!r}"
        return value

    def extents(self, name: str) -> tuple[int, ...]:
        """Return an attribute that is a list of whole numbers."""
        return extents_of(self.attributes, name)

    def pair(self, name: str) -> tuple[int, int]:
        """Return an attribute that has a number for rows and one for columns."""
        vertical, horizontal = self.extents(name)
        return vertical, horizontal

    def border(self, name: str) -> tuple[int, int, int, int]:
        """Return an attribute that has numbers for above, left, below and right."""
        above, left, below, right = self.extents(name)
        return above, left, below, right

    def __str__(self) -> str:
        return f"{self.op} {self.name or self.outputs[0]!r}"


class Values(Protocol):
    """Types and constants of the values of a graph, which may be about to change."""

    @property
    def types(self) -> Mapping[str, TensorType]:
        """Types of all values."""
        ...

    @property
    def constants(self) -> Mapping[str, np.ndarray]:
        """Values that never change."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A network.

    Attributes:
        name: not empty, and printable, as are the names of all values.
        inputs: types of the values that come from outside, in order.
        outputs: names of the values that go out, in order.
        nodes: in an order in which they can run (producers first).
        constants: arrays that never change; nobody may write to them.
        types: of every value: inputs, constants, and outputs of nodes.
    """

    name: str
    inputs: Mapping[str, TensorType]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, np.ndarray]
    types: Mapping[str, TensorType]

    def __post_init__(self) -> None:
        for part in ("inputs", "constants", "types"):
            object.__setattr__(self, part, MappingProxyType(dict(getattr(self, part))))
        object.__setattr__(self, "outputs", Names(self.outputs))

    def __eq__(self, other: object) -> bool:
        """Tell whether everything is equal, constants to the last bit."""
        if not isinstance(other, Graph):
            return NotImplemented
        ours, theirs = (
            (graph.name, tuple(graph.inputs.items()), graph.outputs, graph.nodes, graph.types)
            for graph in (self, other)
        )
        return ours == theirs and _bits(self.constants) == _bits(other.constants)


def type_of(array: np.ndarray) -> TensorType:
    """Return the type of an array."""
    return TensorType(array.shape, _name_of(array.dtype))


@cache
def _name_of(dtype: np.dtype) -> str:
    """Return the name of an element type, which NumPy makes anew each time."""
    return str(dtype)


def uses(graph: Graph) -> Iterator[tuple[Node, str]]:
    """Yield every node with each value it reads, in order."""
    for node in graph.nodes:
        yield from ((node, name) for name in node.inputs if name)


def producers(graph: Graph) -> dict[str, Node]:
    """Return the node that makes each value."""
    return {name: node for node in graph.nodes for name in node.outputs}


def consumers(graph: Graph) -> dict[str, list[Node]]:
    """Return the nodes that read each value, once for each read."""
    readers: dict[str, list[Node]] = {name: [] for name in graph.types}
    for node, name in uses(graph):
        readers[name].append(node)
    return readers


class TakenNames:
    """Names that no new value may have. A name that is taken once stays taken.

    Args:
        names: those that are taken from the start.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = set(names)
        self._numbers: dict[str, int] = {}  # all names of a wish with a smaller number are taken

    def is_taken(self, name: str) -> bool:
        """Whether no new value may have a name."""
        return name in self._names

    def add(self, *names: str) -> None:
        """Take names."""
        self._names.update(names)

    def free(self, wish: str) -> str:
        """Return `wish`; followed by the least number that makes it a free name if it is taken."""
        if not self.is_taken(wish):
            return wish
        number = self._numbers.get(wish, 1)
        while self.is_taken(f"{wish}_{number}"):
            number += 1
        self._numbers[wish] = number
        return f"{wish}_{number}"

    def take(self, wish: str) -> str:
        """Return the free name that is like `wish`, which is taken then."""
        name = self.free(wish)
        self._names.add(name)
        return name


def _bits(constants: Mapping[str, np.ndarray]) -> dict[str, tuple[TensorType, bytes]]:
    return {name: (type_of(array), array.tobytes()) for name, array in constants.items()}
