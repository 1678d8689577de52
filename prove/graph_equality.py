"""Whether two graphs compute the same: a graph of integer operators, and what the passes for a target made of
it.

Equal operators of equal values make equal values; so nothing is evaluated as long as the graphs agree. Where
they do not, both sides are evaluated over elements from the last values that are known to be equal, which
stand for any value of their type. A value that both graphs have by the same name is compared; if it is equal
on both sides, what follows is again not evaluated.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.nodes import Graph, Node
from vdla.prove.domain import Domain
from vdla.prove.elements import Elements
from vdla.prove.reference import evaluate, results_of, unknown

Key = tuple[object, ...]


def difference_of(domain: Domain, graph: Graph, other: Graph) -> str:
    """Return the first difference between the outputs of two graphs, in a sentence; "" if they are the same
    function of their inputs.

    Raises:
        GraphError: an operator refuses its inputs.
        ProofError: an operator cannot be represented.
    """
    if (dict(graph.inputs), tuple(graph.outputs)) != (dict(other.inputs), tuple(other.outputs)):
        return f"the graphs {graph.name} and {other.name} have different inputs or outputs"
    if _Pair(domain, graph, other).is_equal():
        return ""
    ours, theirs = (evaluate(domain, each) for each in (graph, other))
    for name in graph.outputs:
        places = np.argwhere(ours[name] != theirs[name])
        if len(places):
            return (
                f"{len(places)} of {ours[name].size} elements of output {name} differ between the graph of "
                f"integer operators and the graph for the target, the first at {tuple(places[0].tolist())}"
            )
    return ""


@dataclass
class _Pair:
    """Two graphs, as far as they have been compared.

    Attributes:
        equal: the value of `other` that equals a value of `graph`, by name.
        ours, theirs: elements of values of both graphs that have been evaluated.
    """

    domain: Domain
    graph: Graph
    other: Graph
    equal: dict[str, str] = field(default_factory=dict)
    ours: dict[str, Elements] = field(default_factory=dict)
    theirs: dict[str, Elements] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.makers = DefUse(self.other).makers
        self.known: set[str] = set()  # values of `equal`
        self._note({name: name for name in self.graph.inputs})
        self.nodes = {
            _key(node, [self._operand(name) for name in node.inputs]): node for node in self.other.nodes
        }

    def _operand(self, name: str) -> object:
        """Return what identifies an operand of `other`."""
        return _identity(self.other, name) if name in self.other.constants else name

    def is_equal(self) -> bool:
        """Whether all outputs are known to be equal after comparison."""
        for node in self.graph.nodes:
            same = self._same_as(node)
            if same is not None:
                self._note(dict(zip(node.outputs, same.outputs, strict=False)))
            else:
                self._compare(node)
        return all(self._is_same_output(name) for name in self.graph.outputs)

    def _note(self, equal: Mapping[str, str]) -> None:
        self.equal.update(equal)
        self.known.update(equal.values())

    def _is_same_output(self, name: str) -> bool:
        if name in self.graph.constants or name in self.other.constants:
            return all(name in each.constants for each in (self.graph, self.other)) and (
                _identity(self.graph, name) == _identity(self.other, name)
            )
        return self.equal.get(name) == name

    def _same_as(self, node: Node) -> Node | None:
        """Return the node of `other` that applies the same operator to the same values; None if there is
        none."""
        operands = [
            _identity(self.graph, name)
            if name in self.graph.constants
            else self.equal.get(name, None if name else "")
            for name in node.inputs
        ]
        same = None if None in operands else self.nodes.get(_key(node, operands))
        return None if same is None or len(same.outputs) < len(node.outputs) else same

    def _compare(self, node: Node) -> None:
        """Evaluate a node, and compare its results with values of the same names."""
        values = {name: self._our(name) for name in node.inputs if name and name not in self.graph.constants}
        results = results_of(self.domain, self.graph, node, values)
        self.ours |= results
        for name, result in results.items():
            if name in self.makers and self.graph.types[name] == self.other.types[name]:
                their = self._their(name)
                if their.shape == result.shape and (their == result).all():
                    self._note({name: name})

    def _our(self, name: str) -> Elements:
        return self.ours[name] if name in self.ours else self._their(self.equal[name])

    def _their(self, name: str) -> Elements:
        """Return a value of `other`. If a value of `graph` equals it, it stands for any value of its type."""
        pending = [name]
        while pending:
            last = pending[-1]
            if last in self.theirs:
                pending.pop()
            elif last in self.known:
                self.theirs[last] = unknown(self.domain, self.other.types[last], "equal", last)
            else:
                missing = self._missing(self.makers[last])
                pending += missing
                if not missing:
                    self.theirs |= results_of(self.domain, self.other, self.makers[last], self.theirs)
        return self.theirs[name]

    def _missing(self, node: Node) -> list[str]:
        return [
            name
            for name in node.inputs
            if name and name not in self.theirs and name not in self.other.constants
        ]


def _key(node: Node, operands: Sequence[object]) -> Key:
    return node.op, tuple(node.attributes.items()), tuple(operands)


def _identity(graph: Graph, name: str) -> Key:
    """Return what identifies a constant: its type and its elements."""
    array: np.ndarray = graph.constants[name]
    return str(array.dtype), array.shape, hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()
