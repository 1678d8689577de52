"""The reference interpreter of graphs: runs each operator on the CPU, in order."""

from collections.abc import Callable, Mapping

import numpy as np

from vdla.compiler.graph.nodes import Graph, GraphError, Node, TensorType, type_of
from vdla.runtime.host.evaluate import OperatorError, evaluate

Watcher = Callable[[Node, Mapping[str, np.ndarray]], None]


def interpret(
    graph: Graph, inputs: Mapping[str, np.ndarray], watch: Watcher | None = None
) -> dict[str, np.ndarray]:
    """Run a graph.

    Args:
        inputs: an array of the declared type for each input.
        watch: called after each node with the node's results by name.

    Returns:
        The outputs, by name.

    Raises:
        GraphError: an input is missing, unknown or of another type; an operator refuses its inputs, or a
            result does not have its declared type.
    """
    check_inputs(graph, inputs)
    values = {**graph.constants, **inputs}
    last = last_uses(graph)
    for place, node in enumerate(graph.nodes):
        results = run_node(node, values, graph.types)
        values |= results
        if watch is not None:
            watch(node, results)
        for name in last.get(place, ()):
            del values[name]
    return {name: values[name] for name in graph.outputs}


def all_values(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a graph as `interpret` does; return its inputs and the results of all nodes, by name."""
    values = dict(inputs)
    interpret(graph, inputs, lambda _, results: values.update(results))
    return values


def check_inputs(graph: Graph, inputs: Mapping[str, np.ndarray]) -> None:
    """Check the input arrays of a graph.

    Raises:
        GraphError: an input is missing, unknown or of another type.
    """
    if set(inputs) != set(graph.inputs):
        raise GraphError(
            f"graph {graph.name} needs inputs {', '.join(graph.inputs) or 'none'}; it was given "
            f"{', '.join(inputs) or 'none'}"
        )
    for name, type_ in graph.inputs.items():
        if not type_.holds(type_of(inputs[name])):
            raise GraphError(f"graph {graph.name}: input {name} is {type_of(inputs[name])}, not {type_}")


def run_node(
    node: Node, values: Mapping[str, np.ndarray], types: Mapping[str, TensorType]
) -> dict[str, np.ndarray]:
    """Return the results of `node` by name.

    Raises:
        GraphError: the operator refuses its inputs, or a result does not have its type in `types`.
    """
    try:
        arrays = evaluate(node.op, [values[name] if name else None for name in node.inputs], node.attributes)
    except OperatorError as error:
        raise GraphError(f"{node}: {error}") from error
    results = dict(zip(node.outputs, arrays, strict=False))
    for name in node.outputs:
        if name not in results or not types[name].holds(type_of(results[name])):
            actual = type_of(results[name]) if name in results else "nothing"
            raise GraphError(f"{node} made {name} = {actual}, not {types[name]}")
    return results


def last_uses(graph: Graph) -> dict[int, list[str]]:
    """Return the values to free after each node, by the node's position; outputs are never freed."""
    last = {
        name: place
        for place, node in enumerate(graph.nodes)
        for name in (*node.inputs, *node.outputs)
        if name
    }
    freed: dict[int, list[str]] = {}
    for name, place in last.items():
        if name not in graph.outputs:
            freed.setdefault(place, []).append(name)
    return freed
