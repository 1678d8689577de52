"""What errors in each int8 tensor cost: the squared error of what reads it."""

from collections.abc import Mapping, Sequence

import numpy as np

from vdla.compiler.graph.integers import GREATEST, LEAST
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.quantisation.grids import Case, Function
from vdla.compiler.graph.quantisation.observe import Observed
from vdla.compiler.graph.quantisation.roles import Roles
from vdla.compiler.graph.quantise_weights import product_parts
from vdla.runtime.host.evaluate import evaluate

SYMMETRIC_READERS = ("ConvTranspose",)  # inputs of another zero point than 0 cost them as much again
"""Products of two activations take any zero point, but each one that is not 0 doubles the work."""
FACTORS = ("Mul",)
"""The array multiplies by the negative zero point of each factor, which takes twice the work beyond int8."""


def weights_of(roles: Roles) -> dict[str, np.ndarray | None]:
    """Return for each tensor that has a scale of its own what the error of an element counts: the sum of the
    squares of the weights that it is multiplied by; None where it is not read by products alone."""
    return {name: _weight(roles, name) for name in dict.fromkeys(roles.leaders.values())}


def cases_of(roles: Roles, observed: Mapping[str, Observed]) -> dict[str, Case]:
    """Return each tensor that has a scale of its own as its grid is chosen."""
    symmetric = {
        roles.leaders[name]
        for node in roles.graph.nodes
        if (node.op in SYMMETRIC_READERS and node.outputs[0] in roles.products)
        or node.outputs[0] in roles.pairs
        for name in roles.activations(node)
    }
    factors = {
        roles.leaders[name]
        for node in roles.graph.nodes
        if node.op in FACTORS and node.outputs[0] in roles.others
        for name in roles.activations(node)
    }
    lowest = {name: -GREATEST if name in factors else LEAST for name in observed}
    return {
        name: Case(seen, _function(roles, name), name in symmetric, lowest[name])
        for name, seen in observed.items()
    }


def input_power(graph: Graph, node: Node) -> np.ndarray | None:
    """Return the sum of the squares of the weights for each input channel of a product, shaped to broadcast
    to its input; None where channels are in groups that are not single ones."""
    weights, axis, _ = product_parts(graph, node)
    shape = graph.types[node.inputs[0]].shape
    rows: np.ndarray = np.square(weights, dtype=np.float64)
    found: np.ndarray
    if node.op in ("Gemm", "MatMul"):
        found = rows.sum(axis)
        return found
    channels, groups = shape[1], node.integer("group")
    if groups not in (1, channels):
        return None
    if groups == 1:
        found = rows.sum(axis=tuple(place for place in range(rows.ndim) if place != 1 - axis))
    else:
        found = rows.reshape(channels, -1).sum(1)
    return found.reshape(-1, *[1] * (len(shape) - 2))


def _weight(roles: Roles, name: str) -> np.ndarray | None:
    readers = roles.readers[name]
    if not readers or name in roles.graph.outputs:
        return None
    total: np.ndarray | None = None
    for reader in readers:
        power = input_power(roles.graph, reader) if reader.outputs[0] in roles.products else None
        if power is None:
            return None
        total = power if total is None else total + power
    return total if total is not None and total.any() else None


def _function(roles: Roles, name: str) -> Function | None:
    """Return what the readers of a tensor make of its elements, if all of them are functions of these."""
    readers = roles.readers[name]
    inside = [node for node in roles.graph.nodes if roles.roots.get(node.outputs[0]) == name]
    made = {node.outputs[0] for node in inside}
    if not readers or name in roles.graph.outputs or any(node.outputs[0] not in made for node in readers):
        return None
    leaves = [
        out
        for out in made
        if out in roles.graph.outputs or any(node.outputs[0] not in made for node in roles.readers[out])
    ]
    return lambda values: _applied(roles.graph, name, inside, sorted(leaves), values)


def _applied(
    graph: Graph, name: str, nodes: Sequence[Node], leaves: Sequence[str], values: np.ndarray
) -> list[np.ndarray]:
    rank = len(graph.types[name].shape)
    known = {name: values.astype(np.float32).reshape(-1, *[1] * (rank - 1))}
    for node in nodes:
        arrays = [known[part] if part in known else graph.constants[part] for part in node.inputs if part]
        (known[node.outputs[0]],) = evaluate(node.op, arrays, node.attributes)
    return [known[leaf].astype(np.float64).reshape(values.shape) for leaf in leaves]
