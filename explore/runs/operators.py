"""The operators of a network that each layer of its run computes.

A compiler may compute several operators of a network in one layer, and one operator in several layers. Layers
of different compilations are therefore compared by their operators.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping

from vdla.compiler.graph.nodes import Graph, Node
from vdla.runtime.module.plan import HostStep, LaunchStep, Layer

Nodes = Mapping[str, Node]
"""Nodes by the names of their results, or by the name of their first result."""


def layer_operators(
    steps: Iterable[HostStep | LaunchStep], integers: Graph, target: Graph
) -> tuple[tuple[str, ...], ...]:
    """Return the names of the operators of each layer, in the order of the layers of a report.

    An operator has the name of its node in the model, or the name of its result if several nodes, or none,
    have that name.

    Args:
        integers: graph of integer operators, which does not depend on the target.
        target: the same graph after the passes for the target; layers compute its values.
    """
    results = list(_results(steps, target))
    ends = {name for names in results for name in names}
    makers, meanings = _makers(target), _meanings(integers, target)
    names = _names(integers)
    order = {name: place for place, name in enumerate(names)}
    layers = []
    for values in results:
        operators = {name for node in _region(makers, values, ends) for name in meanings.get(node, ())}
        layers.append(tuple(names[name] for name in sorted(operators, key=order.__getitem__)))
    return tuple(layers)


def _results(steps: Iterable[HostStep | LaunchStep], target: Graph) -> Iterator[tuple[str, ...]]:
    """Yield the values that each layer makes."""
    steps = list(steps)
    labels = {layer.label for step in steps if isinstance(step, LaunchStep) for layer in step.layers}
    free: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for node in target.nodes:
        if node.result not in labels:
            free.setdefault((node.name or node.result, node.op), []).append(node.outputs)
    for step in steps:
        if isinstance(step, HostStep):
            yield step.outputs
        else:
            yield from (_result(layer, free) for layer in step.layers)


def _result(layer: Layer, free: Mapping[tuple[str, str], list[tuple[str, ...]]]) -> tuple[str, ...]:
    """Return the values that a layer on the accelerator makes; `free` has the values of other layers."""
    if layer.label:
        return (layer.label,)
    nodes = free.get((layer.name, layer.op))
    return nodes.pop(0) if nodes else ()


def _makers(graph: Graph) -> Nodes:
    """Return the node that makes each value."""
    return {name: node for node in graph.nodes for name in node.outputs}


def _region(makers: Nodes, values: Iterable[str], ends: Container[str]) -> Nodes:
    """Return the nodes on which values depend, as far as the values in `ends`; by their first results."""
    region, left = dict[str, Node](), list(values)
    while left:
        node = makers.get(left.pop())
        if node is not None and node.result not in region:
            region[node.result] = node
            left += [name for name in node.inputs if name not in ends]
    return region


def _meanings(integers: Graph, target: Graph) -> dict[str, set[str]]:
    """Return the operators that each node of the graph for the target takes part in, as their first results.

    Between values that both graphs have, all nodes of one graph stand for all nodes of the other.
    """
    before, after = _makers(integers), _makers(target)
    shared = before.keys() & after.keys()
    meanings: dict[str, set[str]] = {}
    for value in shared:
        operators = _region(before, [value], shared)
        for node in _region(after, [value], shared):
            meanings.setdefault(node, set()).update(operators)
    return meanings


def _names(graph: Graph) -> dict[str, str]:
    """Return the name of each operator, by its first result, in the order of the graph."""
    counts = Counter(node.name for node in graph.nodes)
    return {
        node.result: node.name if node.name and counts[node.name] == 1 else node.result
        for node in graph.nodes
    }
