"""Integer operators that apply the same int8 function to every element of a tensor."""

from collections.abc import Mapping

import numpy as np

from vdla.compiler.graph.nodes import Node, Values
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.int8 import BYTES

SHARED: Mapping[str, tuple[int, ...]] = {
    "Int8Add": (4,),
    "Int8Lookup": (len(BYTES),),
    "Int8Mul": (4,),
    "Int8Requantise": (4,),
    "Int8Scale": (1, 4),
}
"""The sizes of an operator's constants if all elements share them."""
UNARY = ("Int8Lookup", "Int8Requantise", "Int8Scale")


def shares_constants(graph: Values, node: Node) -> bool:
    """Whether all elements share the constants of an operator of `SHARED`."""
    sizes = tuple(graph.types[name].size for name in node.inputs if name in graph.constants)
    return sizes == SHARED[node.op]


def as_column(shape: tuple[int, ...]) -> np.ndarray:
    """Return int8[256, 1, ...]: all int8 values, in a tensor of the rank of `shape`."""
    return BYTES.reshape(-1, *[1] * (len(shape) - 1))


def table_of(graph: Values, node: Node) -> np.ndarray | None:
    """Return the lookup table int8[256] of an operator, for the elements -128 to 127.

    The result is None if the operator is not an elementwise function of a single int8 tensor, or if its
    results are not int8.
    """
    if node.op not in UNARY or not shares_constants(graph, node):
        return None
    shape = graph.types[node.inputs[0]].shape
    if not shape:
        return None
    constants = [graph.constants[name] for name in node.inputs[1:]]
    (table,) = evaluate(node.op, [as_column(shape), *constants], node.attributes)
    return table.reshape(-1) if table.dtype == np.int8 else None
