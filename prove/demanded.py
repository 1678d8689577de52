"""The values of a graph on demand: a plan computes them in another order than the graph lists them."""

from collections import Counter
from collections.abc import Iterable

from vdla.compiler.graph.nodes import Graph
from vdla.prove.domain import Domain
from vdla.prove.elements import Elements
from vdla.prove.errors import ProofError
from vdla.prove.reference import constant_elements, inputs_of, results_of


class DemandedValues:
    """The values of a graph, each computed when it is first asked for and freed after its last use.

    Args:
        domain: of the proof.
        graph: the graph.
        uses: names of the values that will be asked for, once for each time.
    """

    def __init__(self, domain: Domain, graph: Graph, uses: Iterable[str]) -> None:
        self._domain, self._graph = domain, graph
        self._values = inputs_of(domain, graph)
        self._makers = {name: node for node in graph.nodes for name in node.outputs if name}
        self._left = Counter(uses)
        self._left.update(name for node in graph.nodes for name in node.inputs if name)

    def take(self, name: str) -> Elements:
        """Return a value; the caller uses it up.

        Raises:
            ProofError: the graph has no such value.
            GraphError, ProofError: as `vdla.prove.reference.evaluate`.
        """
        if name not in self._graph.types:
            raise ProofError(f"the graph {self._graph.name} has no value {name!r}, which the plan compares")
        if name in self._graph.constants:
            return constant_elements(self._domain, self._graph.constants[name])
        self._compute(name)
        value = self._values[name]
        self._use(name)
        return value

    def _compute(self, name: str) -> None:
        """Compute a value, and those that it needs, in order."""
        waiting = [name]
        while waiting:
            node = self._makers.get(waiting[-1])
            if waiting[-1] in self._values or node is None:
                waiting.pop()
                continue
            missing = [
                each
                for each in node.inputs
                if each and each not in self._values and each not in self._graph.constants
            ]
            if missing:
                waiting += missing
                continue
            self._values |= results_of(self._domain, self._graph, node, self._values)
            for each in node.inputs:
                self._use(each)

    def _use(self, name: str) -> None:
        """Count a use of a value, and free it after its last one."""
        self._left[name] -= 1
        if self._left[name] <= 0:
            self._values.pop(name, None)
