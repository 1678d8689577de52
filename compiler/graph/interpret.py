"""The interpreter of graphs: runs one operator after another on the CPU, and so defines their results."""

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
        inputs: one array for each input, of its type.
        watch: called after each node with the values it made.

    Returns:
        The outputs, by name.

    Raises:
        GraphError: an input is missing, unknown or of another type; an operator refuses its inputs or makes
            something else than declared.
    """
    check_inputs(graph, inputs)
    values = {**graph.constants, **inputs}
    last = _last_uses(graph)
    for place, node in enumerate(graph.nodes):
        made = run_node(node, values, graph.types)
        values |= made
        if watch is not None:
            watch(node, made)
        for name in last.get(place, ()):
            del values[name]
    return {name: values[name] for name in graph.outputs}


def all_values(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a graph as `interpret` does; return its inputs and the values of all nodes, by name."""
    values = dict(inputs)
    interpret(graph, inputs, lambda _, made: values.update(made))
    return values


def check_inputs(graph: Graph, inputs: Mapping[str, np.ndarray]) -> None:
    """Raise GraphError unless there is exactly one array for each input, of its type."""
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
    """Return what `node` makes of `values`, by name.

    Raises:
        GraphError: the operator refuses its inputs, or makes something else than `types` says.
    """
    try:
        results = evaluate(node.op, [values[name] if name else None for name in node.inputs], node.attributes)
    except OperatorError as error:
        raise GraphError(f"{node}: {error}") from error
    made = dict(zip(node.outputs, results, strict=False))
    for name in node.outputs:
        if name not in made or not types[name].holds(type_of(made[name])):
            raise GraphError(
                f"{node} made {name} = {type_of(made[name]) if name in made else 'nothing'}, not "
                f"{types[name]}"
            )
    return made


def _last_uses(graph: Graph) -> dict[int, list[str]]:
    """Return the values that nothing needs any more, by the place of the node after which that is so."""
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
