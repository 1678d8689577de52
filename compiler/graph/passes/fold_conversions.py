"""Conversions of constants are carried out at compile time.

QuantizeLinear of a constant, as quantisation-aware training leaves it before weights, becomes integers.
DequantizeLinear of a constant becomes real numbers, except that the weights and biases of products of
quantised tensors stay narrow. Operators that move the elements of such weights move the integers.
DequantizeLinear with scale 0, of whatever activation, becomes zeros.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from vdla.compiler.graph.interpret import run_node
from vdla.compiler.graph.moves import REARRANGING
from vdla.compiler.graph.nodes import Graph, Node, consumers, producers
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.rewrite import Rewriting
from vdla.runtime.host.evaluate import evaluate

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True, slots=True)
class FoldConversions:
    """The pass; what it folds has constant scales and zero points."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with constants in place of their conversions."""
        return _folded(DeadCode().run(_with_moved_weights(_quantised(_without_scale(graph)))))


def _known(graph: Graph, node: Node) -> bool:
    """Whether all that a conversion reads is constant, and its scales are valid."""
    if not all(name in graph.constants for name in node.inputs):
        return False
    scale = graph.constants[node.inputs[1]]
    return bool((np.isfinite(scale) & (scale > 0 if node.op == "QuantizeLinear" else scale >= 0)).all())


def _carried_out(graph: Graph, op: str, wanted: Callable[[Node], bool] = lambda node: True) -> Graph:
    """Return `graph` with constants in place of conversions `op` of constants, where they are wanted."""
    made = Rewriting(graph)
    for node in graph.nodes:
        if node.op == op and _known(graph, node) and wanted(node):
            made.constants |= run_node(node, graph.constants, graph.types)
        else:
            made.nodes.append(node)
    return made.finished()


def _without_scale(graph: Graph) -> Graph:
    """Return `graph` with zeros in place of DequantizeLinear of activations whose scale is 0."""
    made = Rewriting(graph)
    for node in graph.nodes:
        scale = graph.constants.get(node.inputs[1]) if node.op == "DequantizeLinear" else None
        if scale is None or scale.any() or node.inputs[0] in graph.constants:
            made.nodes.append(node)
        else:
            real = graph.types[node.outputs[0]]
            made.constants[node.outputs[0]] = np.zeros(real.shape, real.dtype)
    return made.finished()


def _quantised(graph: Graph) -> Graph:
    """Return `graph` with integers in place of QuantizeLinear of constants."""
    return _carried_out(graph, "QuantizeLinear")


def _with_moved_weights(graph: Graph) -> Graph:
    """Return `graph` with the elements of constants moved before they are dequantised."""
    made, makers = Rewriting(graph), dict(producers(graph))
    constants = dict(graph.constants)
    for node in graph.nodes:
        before = makers.get(node.inputs[0]) if node.op in REARRANGING else None
        moved = before is not None and _moved(constants, before, node)
        if before is None or not moved:
            made.nodes.append(node)
            continue
        values, axis = moved
        name = made.constant(f"{node.outputs[0]}_integers", values)
        constants[name] = values
        conversion = replace(
            before, inputs=(name, *before.inputs[1:]), outputs=node.outputs, attributes={"axis": axis}
        )
        makers[node.outputs[0]] = conversion
        made.nodes.append(conversion)
    return made.finished()


def _moved(
    constants: Mapping[str, np.ndarray], conversion: Node, node: Node
) -> tuple[np.ndarray, int] | None:
    """Return the integers that a node moves, and the axis along which their scales go then; None where that
    cannot be said."""
    if conversion.op != "DequantizeLinear" or not all(name in constants for name in conversion.inputs):
        return None
    integers = constants[conversion.inputs[0]]
    (values,) = evaluate(node.op, [integers], node.attributes)
    single = constants[conversion.inputs[1]].size == 1
    axis = 0 if single else _moved_axis(node, conversion.integer("axis") % integers.ndim, integers, values)
    return None if axis is None else (np.ascontiguousarray(values), axis)


def _moved_axis(node: Node, axis: int, before: np.ndarray, after: np.ndarray) -> int | None:
    """Return where an axis goes; None where the elements along it do not stay together."""
    if node.op == "Transpose":
        return node.extents("perm").index(axis)
    outer, size = prod(before.shape[:axis]), before.shape[axis]
    places = (
        place
        for place, extent in enumerate(after.shape)
        if extent == size and prod(after.shape[:place]) == outer
    )
    return next(places, None)


def _folded(graph: Graph) -> Graph:
    """Return `graph` with real numbers in place of DequantizeLinear of constants that need not be narrow."""
    makers, readers = producers(graph), consumers(graph)

    def wide(node: Node) -> bool:
        (real,) = node.outputs
        return real in graph.outputs or not all(_narrow(makers, reader, real) for reader in readers[real])

    return _carried_out(graph, "DequantizeLinear", wide)


def _narrow(makers: Mapping[str, Node], reader: Node, real: str) -> bool:
    """Whether a reader of constants is a product of a quantised tensor with them."""
    maker = makers.get(reader.inputs[0])
    quantised = maker is not None and maker.op == "DequantizeLinear"
    return reader.op in PRODUCTS and real in reader.inputs[1:] and quantised
