"""Graphs evaluated over elements: what a proof compares streams, and other graphs, with.

Operators of `vdla.prove.operators` are computed; operators of `MOVED_INPUTS` move elements. Every other
operator is an unknown function: its results are new roots, which the operator, its attributes and all its
inputs name. So two graphs are equal only if they apply it to the same values.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

import numpy as np

from vdla.compiler.graph.interpret import last_uses
from vdla.compiler.graph.nodes import REARRANGING, Graph, GraphError, Node, TensorType
from vdla.prove.domain import Domain
from vdla.prove.elements import ELEMENT, Elements
from vdla.prove.elementwise import BY_ELEMENT, ByElement, Operand, bits_of
from vdla.prove.errors import ProofError
from vdla.prove.operators import OPERATORS
from vdla.runtime.host.evaluate import FAILURES, OperatorError
from vdla.runtime.host.evaluate import evaluate as evaluate_arrays

Values = Mapping[str, Elements]
ALL = 1 << 30
MOVED_INPUTS = {
    "Concat": ALL,
    "DepthToSpace": 1,
    "Expand": 1,
    "Gather": 1,
    "Dropout": 1,
    "GatherElements": 1,
    "Identity": 1,
    "Pad": 1,
    "Resize": 1,
    "Slice": 1,
    "SpaceToDepth": 1,
    "Split": 1,
    "Tile": 1,
    **dict.fromkeys(REARRANGING, 1),
}
"""How many inputs of an operator hold what it moves. The others are constants that say where to."""


def inputs_of(domain: Domain, graph: Graph) -> dict[str, Elements]:
    """Return the inputs of a graph as unknown elements, by name. Equal names are equal elements."""
    return {name: unknown(domain, type_, "input", name) for name, type_ in graph.inputs.items()}


def evaluate(domain: Domain, graph: Graph, inputs: Values | None = None) -> dict[str, Elements]:
    """Return the outputs of a graph by name.

    Args:
        inputs: elements by name; None: `inputs_of` the graph.

    Raises:
        GraphError: an operator refuses its inputs.
        ProofError: an operator cannot be represented.
    """
    values = dict(inputs_of(domain, graph) if inputs is None else inputs)
    values |= {
        name: constant_elements(domain, array)
        for name, array in graph.constants.items()
        if name in graph.outputs
    }
    for _, results in steps(domain, graph, values):
        values |= {name: each for name, each in results.items() if name in graph.outputs}
    return {name: values[name] for name in graph.outputs}


def steps(
    domain: Domain, graph: Graph, inputs: Values | None = None
) -> Iterator[tuple[Node, dict[str, Elements]]]:
    """Yield each node of a graph with its results by name, in order. A value is freed after its last use.

    Args:
        inputs: as in `evaluate`.

    Raises:
        GraphError, ProofError: as `evaluate`.
    """
    values = dict(inputs_of(domain, graph) if inputs is None else inputs)
    last = last_uses(graph)
    for place, node in enumerate(graph.nodes):
        results = results_of(domain, graph, node, values)
        values |= results
        yield node, results
        for name in last.get(place, ()):
            values.pop(name, None)


def results_of(domain: Domain, graph: Graph, node: Node, values: Values) -> dict[str, Elements]:
    """Return the results of a node by name.

    Args:
        values: elements by name; constants need not be among them.

    Raises:
        GraphError, ProofError: as `evaluate`.
    """
    try:
        results = _results(domain, graph, node, values)
    except (*FAILURES, OperatorError) as error:
        raise GraphError(f"{node}: {error}") from error
    for name, result in zip(node.outputs, results, strict=False):
        type_ = graph.types[name]
        if type_.is_known and result.shape != type_.shape:
            raise GraphError(f"{node} made {name} of the extents {result.shape}, not {type_}")
    return dict(zip(node.outputs, results, strict=False))


def _results(domain: Domain, graph: Graph, node: Node, values: Values) -> Sequence[Elements]:
    is_known = all(graph.types[name].is_known for name in (*node.inputs, *node.outputs) if name)
    if node.op in BY_ELEMENT and is_known and all(node.inputs):
        return [_by_element(domain, graph, node, values)]
    count = OPERATORS[node.op][1] if node.op in OPERATORS else MOVED_INPUTS.get(node.op, 0)
    others = node.inputs[count:]
    placed = all(name in graph.constants for name in others if name)
    if not (count and is_known and placed):
        return _unknown_results(domain, graph, node, values)
    elements = [_elements(domain, graph, name, values) for name in node.inputs[:count]]
    constants = [graph.constants[name] if name else None for name in others]
    if node.op in OPERATORS:
        return [OPERATORS[node.op][0](domain, *elements, *constants, **node.attributes)]
    border = np.array(node.attributes.get("value", 0)).astype(graph.types[node.inputs[0]].dtype)
    return moved(node.op, elements, constants, node.attributes, domain.constants(bits_of(border)))


def _by_element(domain: Domain, graph: Graph, node: Node, values: Values) -> Elements:
    type_ = graph.types[node.result]
    operands = [
        Operand.of_constant(graph.constants[name])
        if name in graph.constants
        else Operand(values[name], graph.types[name].dtype)
        for name in node.inputs
    ]
    return ByElement(domain, node.op, node.attributes, type_.shape, type_.dtype).result(operands)


def _elements(domain: Domain, graph: Graph, name: str, values: Values) -> Elements:
    return values[name] if name in values else constant_elements(domain, graph.constants[name])


def constant_elements(domain: Domain, array: np.ndarray) -> Elements:
    """Return a constant as elements: bytes as such, elements of other types by their bits."""
    if array.itemsize == 1:
        return domain.constants(array.view(np.int8))
    elements = domain.unknown(domain.kind("constant", str(array.dtype)), array.shape, str(array.dtype))
    elements["lo"] = bits_of(array).view(np.uint64)
    return elements


def _unknown_results(domain: Domain, graph: Graph, node: Node, values: Values) -> list[Elements]:
    """Return the results of an operator that is an unknown function of its inputs."""
    digest = hashlib.sha256()
    for name in node.inputs:
        elements = _elements(domain, graph, name, values) if name else np.zeros(0, ELEMENT)
        digest.update(f"{bool(name)} {elements.shape} ".encode() + np.ascontiguousarray(elements).tobytes())
    application = node.op, tuple(node.attributes.items()), digest.hexdigest()
    return [
        unknown(domain, graph.types[name], *application, place) for place, name in enumerate(node.outputs)
    ]


def unknown(domain: Domain, type_: TensorType, *what: object) -> Elements:
    """Return unknown elements of a type; a single element for a tensor whose extents are unknown."""
    return domain.unknown(domain.kind(*what), type_.shape if type_.is_known else (), type_.dtype)


def moved(
    op: str,
    inputs: Sequence[Elements],
    others: Sequence[np.ndarray | None],
    attributes: Mapping[str, object],
    border: Elements,
) -> list[Elements]:
    """Return the results of an operator of `MOVED_INPUTS`: its result on the numbers of places tells where
    each element comes from.

    Args:
        inputs: elements that it moves.
        others: its other inputs.
        border: element[], with which Pad fills.
    """
    flat = np.concatenate([border.reshape(1), *(each.reshape(-1) for each in inputs)])
    ends = np.cumsum([1, *(each.size for each in inputs)])
    places = [
        np.arange(end, end + each.size).reshape(each.shape) for end, each in zip(ends, inputs, strict=False)
    ]
    if op == "Pad":
        attributes = {**attributes, "value": 0}  # the place of the border
    return [flat[result] for result in evaluate_arrays(op, [*places, *others], attributes)]


class DemandedValues:
    """The values of a graph, each computed when it is first asked for and freed after its last use. A plan
    computes them in another order than the graph lists them.

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
            GraphError, ProofError: as `evaluate`.
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
        """Compute a value, and the values that it needs, in order."""
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
        """Count a use of a value, and free it after its last use."""
        self._left[name] -= 1
        if self._left[name] <= 0:
            self._values.pop(name, None)


MOST_AHEAD = 2
"""Values that are computed, or being computed, before they are taken."""


class ValuesAhead:
    """Values of a graph that a thread computes before they are taken. A context: the thread ends with it.

    Args:
        values: the values of the graph, which nothing else takes meanwhile.
        names: of the values to take, in order.
    """

    def __init__(self, values: DemandedValues, names: Iterable[str]) -> None:
        self._values, self._names = values, iter(names)
        self._pool = ThreadPoolExecutor(1, "graph")
        self._waiting: deque[tuple[str, Future[Elements]]] = deque()

    def __enter__(self) -> Self:
        for _ in range(MOST_AHEAD):
            self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _begin(self) -> None:
        """Let the thread compute the next value."""
        name = next(self._names, None)
        if name is not None:
            self._waiting.append((name, self._pool.submit(self._values.take, name)))

    def take(self, name: str) -> Elements:
        """Return the next value, whose name is given.

        Raises:
            GraphError, ProofError: as `DemandedValues.take`.
        """
        due, future = self._waiting.popleft()
        assert due == name, f"{due} is taken before {name}"
        value = future.result()
        self._begin()
        return value
