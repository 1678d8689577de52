"""The cost of errors in each int8 tensor: the squared error of the results of its readers."""

from collections.abc import Mapping, Sequence

import numpy as np

from vdla.compiler.graph.integers import GREATEST, LEAST
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.quantisation.grids import Calibration, ReaderFunction
from vdla.compiler.graph.quantisation.observe import Observed
from vdla.compiler.graph.quantisation.roles import Roles
from vdla.compiler.graph.quantise_weights import product_parts
from vdla.runtime.host.evaluate import evaluate

SYMMETRIC_READERS = ("ConvTranspose",)
"""Products that take twice the work if the zero point of their input is not 0.

Products of two activations take any zero point, but each nonzero zero point doubles their work.
"""
FACTORS = ("Mul",)
"""Operators that multiply by the negative zero point of each factor, at twice the work if it is not int8."""


def error_weights(roles: Roles) -> dict[str, np.ndarray | None]:
    """Return the weight of the squared error of an element, for each leader of int8 values.

    The weight is the sum of the squares of the weights that multiply the element. It is None unless all
    readers of the tensor are products.
    """
    return {name: _error_weight(roles, name) for name in dict.fromkeys(roles.leaders.values())}


def calibrations_of(roles: Roles, observed: Mapping[str, Observed]) -> dict[str, Calibration]:
    """Return the calibration data of each leader of int8 values.

    Args:
        observed: observations of each leader on the samples.
    """
    symmetric = {
        roles.leaders[name]
        for node in roles.graph.nodes
        if (node.op in SYMMETRIC_READERS and node.result in roles.products) or node.result in roles.pairs
        for name in roles.activations(node)
    }
    factors = {
        roles.leaders[name]
        for node in roles.graph.nodes
        if node.op in FACTORS and node.result in roles.others
        for name in roles.activations(node)
    }
    lowest = {name: -GREATEST if name in factors else LEAST for name in observed}
    return {
        name: Calibration(seen, _reader_function(roles, name), name in symmetric, lowest[name])
        for name, seen in observed.items()
    }


def input_power(graph: Graph, node: Node) -> np.ndarray | None:
    """Return the sum of the squares of the weights of each input channel of a product.

    The result broadcasts to the product's input. It is None for a grouped convolution that is not depthwise.
    """
    weights, axis, _ = product_parts(graph, node)
    shape = graph.types[node.inputs[0]].shape
    squares: np.ndarray = np.square(weights, dtype=np.float64)
    power: np.ndarray
    if node.op in ("Gemm", "MatMul"):
        power = squares.sum(axis)
        return power
    channels, groups = shape[1], node.integer("group")
    if groups not in (1, channels):
        return None
    if groups == 1:
        power = squares.sum(axis=tuple(place for place in range(squares.ndim) if place != 1 - axis))
    else:
        power = squares.reshape(channels, -1).sum(1)
    return power.reshape(-1, *[1] * (len(shape) - 2))


def _error_weight(roles: Roles, name: str) -> np.ndarray | None:
    readers = roles.readers[name]
    if not readers or name in roles.graph.outputs:
        return None
    total: np.ndarray | None = None
    for reader in readers:
        power = input_power(roles.graph, reader) if reader.result in roles.products else None
        if power is None:
            return None
        total = power if total is None else total + power
    return total if total is not None and total.any() else None


def _reader_function(roles: Roles, name: str) -> ReaderFunction | None:
    """Return the function that the readers of a tensor compute; None unless all readers are elementwise."""
    readers = roles.readers[name]
    inside = [node for node in roles.graph.nodes if roles.roots.get(node.result) == name]
    results = {node.result for node in inside}
    if not readers or name in roles.graph.outputs or any(node.result not in results for node in readers):
        return None
    leaves = [
        out
        for out in results
        if out in roles.graph.outputs or any(node.result not in results for node in roles.readers[out])
    ]
    return lambda values: _evaluated(roles.graph, name, inside, sorted(leaves), values)


def _evaluated(
    graph: Graph, name: str, nodes: Sequence[Node], leaves: Sequence[str], values: np.ndarray
) -> list[np.ndarray]:
    """Return the values of `leaves`, float64[n], that `nodes` compute from the elements `values` of a
    tensor."""
    rank = len(graph.types[name].shape)
    known = {name: values.astype(np.float32).reshape(-1, *[1] * (rank - 1))}
    for node in nodes:
        arrays = [known[part] if part in known else graph.constants[part] for part in node.inputs if part]
        (known[node.result],) = evaluate(node.op, arrays, node.attributes)
    return [known[leaf].astype(np.float64).reshape(values.shape) for leaf in leaves]
