"""Weights of fewer than eight bits.

The scale of each output channel is the one of least squared error, in which each input channel weighs as much
as it does on the samples. Weights are rounded one input channel after another. The weights that are not
rounded yet make up for the error of the rounded ones, as far as the input channels correlate on the samples.

Sources: Frantar et al., GPTQ, ICLR 2023, sections 3 and 4 (rounding in the order of the input channels);
Nahshan et al., Loss aware post-training quantization, Machine Learning, 2021 (scales that clip).
"""

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import numpy as np

from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.quantisation.roles import Roles
from vdla.compiler.graph.quantise_weights import Integers, outputs_axis, product_parts, rounded

SHARES = np.linspace(0.4, 1.0, 31)  # of the greatest weight of a channel, which the scale reaches
DAMPING = 0.01  # of the mean power of the input channels, added to each
MOST_INPUTS = 4096  # input channels, above which rounding errors are not made up for
Weights = tuple[str, str, int, float]
"""A constant, and how a product reads it: the operator, the dimension of the output channels, a factor."""


def few_bit_weights(
    roles: Roles, samples: Iterable[Mapping[str, np.ndarray]], bits: int
) -> dict[str, Integers]:
    """Return the weights of all products in symmetric integers of `bits` bits, by the node's first output.

    Products with the same weights, such as the steps of a recurrence, get the same integers.

    Args:
        samples: inputs of the float graph, on which input channels are measured.
    """
    graph, largest = roles.graph, (1 << (bits - 1)) - 1
    sharing: dict[Weights, list[Node]] = {}
    for node in graph.nodes:
        if node.result in roles.products:
            sharing.setdefault(_weights_of(node), []).append(node)
    powers = _powers(graph, samples, sharing)
    integers = {key: _integers(graph, nodes[0], powers.get(key), largest) for key, nodes in sharing.items()}
    return {node.result: integers[key] for key, nodes in sharing.items() for node in nodes}


def _weights_of(node: Node) -> Weights:
    """Return what the weights of a product follow from: equal keys mean equal weights."""
    factor = node.real("alpha") if node.op == "Gemm" else 1.0
    return node.inputs[1], node.op, outputs_axis(node), factor


def _powers(
    graph: Graph, samples: Iterable[Mapping[str, np.ndarray]], sharing: Mapping[Weights, Sequence[Node]]
) -> dict[Weights, np.ndarray]:
    """Return the products of all pairs of input channels, summed over the samples, float64[k, k], for the
    weights of products of rows or pixels."""
    powers: dict[Weights, np.ndarray] = {}
    readers: dict[str, list[tuple[Weights, Node]]] = {}
    for key, nodes in sharing.items():
        for node in nodes:
            readers.setdefault(node.inputs[0], []).append((key, node))

    def add(values: Mapping[str, np.ndarray]) -> None:
        for name in values.keys() & readers.keys():
            for key, node in readers[name]:
                rows = _rows(node, values[name], graph)
                if rows is not None:
                    powers[key] = powers.get(key, 0.0) + rows.T @ rows

    for sample in samples:
        add(sample)
        interpret(graph, sample, lambda _, results: add(results))
    return powers


def _rows(node: Node, x: np.ndarray, graph: Graph) -> np.ndarray | None:
    """Return the input of a product as float64[rows, k]; None for convolutions that read several pixels."""
    if node.op in ("MatMul", "Gemm"):
        rows = x.reshape(-1, x.shape[-1])
    elif node.op == "Conv" and prod(graph.types[node.inputs[1]].shape[2:]) == 1 == node.integer("group"):
        rows = np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])
    else:
        return None
    return rows.astype(np.float64) if rows.shape[1] <= MOST_INPUTS else None


def _integers(graph: Graph, node: Node, powers: np.ndarray | None, largest: int) -> Integers:
    """Return the integer weights of a product.

    Args:
        powers: of its input channels; None: not known, and each counts the same.
    """
    weights, axis, _ = product_parts(graph, node)
    columns = np.moveaxis(weights, axis, -1).reshape(-1, weights.shape[axis]).astype(np.float64)
    importance = np.ones(len(columns)) if powers is None else np.diag(powers)
    scale = _scales(columns, importance, largest)
    if powers is None or not importance.any():
        return rounded(weights, scale, axis, largest)
    values = _compensated(columns, scale, powers, largest)
    shape = np.moveaxis(weights, axis, -1).shape
    return Integers(np.ascontiguousarray(np.moveaxis(values.reshape(shape), -1, axis)), scale, axis)


def _scales(columns: np.ndarray, importance: np.ndarray, largest: int) -> np.ndarray:
    """Return the scale of each column with the least squared error, weighted by rows: float32[columns]."""
    greatest = np.abs(columns).max(axis=0)
    greatest = np.where(greatest > np.finfo(np.float32).tiny * largest, greatest, 1)
    best, least = greatest / largest, np.full(len(greatest), np.inf)
    for share in SHARES:
        scale = greatest * (share / largest)
        error = np.clip(np.rint(columns / scale), -largest, largest) * scale - columns
        cost = importance @ np.square(error)
        best, least = np.where(cost < least, scale, best), np.minimum(cost, least)
    return best.astype(np.float32)


def _compensated(columns: np.ndarray, scale: np.ndarray, powers: np.ndarray, largest: int) -> np.ndarray:
    """Return int8[rows, columns]: rounded weights, the rows of greatest power first, each of whose errors the
    rows after it make up for."""
    damped = powers + DAMPING * np.diag(powers).mean() * np.eye(len(powers))
    order = np.argsort(-np.diag(powers), kind="stable")
    inverse = np.linalg.inv(damped[np.ix_(order, order)])
    factors = np.linalg.cholesky((inverse + inverse.T) / 2).T
    rest, values = columns[order], np.zeros(columns.shape, np.int8)
    for place, row in enumerate(order):
        values[row] = np.clip(np.rint(rest[place] / scale), -largest, largest)
        error = (rest[place] - values[row] * scale) / factors[place, place]
        rest[place + 1 :] -= np.outer(factors[place, place + 1 :], error)
    return values
