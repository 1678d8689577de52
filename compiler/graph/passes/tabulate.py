"""Element-wise functions of an int8 tensor become a table of their 256 values.

`QuantizeLinear(Gelu(DequantizeLinear(x)))` becomes `Int8Lookup(x, table)`. So does `Int8Mul(x, Int8Lookup(x,
sigmoid))`, as which quantised files write SiLU. The operators themselves fill the table, so that results are
theirs to the last bit, whatever they are and however many.
"""

from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.conversions import CONVERSIONS, Conversions
from vdla.compiler.graph.integer_forms.host import why_on_host
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.rewrite import Rewriting
from vdla.runtime.host import elementwise
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.int8 import BYTES

INTEGER = {"Int8Add": 4, "Int8Lookup": len(BYTES), "Int8Mul": 4, "Int8Requantise": 4}
"""Operators on int8 elements, and the numbers of the constant that all elements share."""
ON_ACCELERATOR = INTEGER.keys() - {"Int8Lookup"}
"""What is worth no table, unless it reads one."""
BY_ELEMENT = (*CONVERSIONS, *elementwise.OPERATORS, *INTEGER)


@dataclass(frozen=True, slots=True)
class Function:
    """A value whose elements follow from those of an int8 tensor.

    Attributes:
        root: the tensor.
        table: of each of its values, from -128 on; of the tensor's rank, all but the first extent are 1.
        name: of the last operator that is no conversion.
        reason: why the first operator that is no conversion runs on the host.
    """

    root: str
    table: np.ndarray
    name: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Tabulate:
    """The pass; it leaves a lone operator on int8 elements or DequantizeLinear as it is."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with tables."""
        return DeadCode().run(_Tabulating(graph).run())


class _Tabulating(Rewriting):
    """A graph with tables in the making.

    Attributes:
        functions: by value.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.conversions = Conversions(graph)
        self.functions: dict[str, Function] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            found = self.function(node)
            alone = found is not None and self.read(node) == {found.root}
            if found is not None and not (alone and node.op in ON_ACCELERATOR):
                self.functions[node.outputs[0]] = found
            if found is None or alone:
                self.nodes.append(node)
            else:
                table = self.constant(f"{node.outputs[0]}_table", found.table.reshape(-1))
                name, reason = found.name or node.name, found.reason or self.reason(node)
                self.nodes.append(Node("Int8Lookup", (found.root, table), node.outputs, {}, name, reason))
        return self.finished()

    def function(self, node: Node) -> Function | None:
        """Return what a node computes of an int8 tensor's elements; None where it is nothing of the kind."""
        read = self.read(node)
        if node.op not in BY_ELEMENT or not all(read) or len(node.outputs) != 1:
            return None
        known = {name: one for name in read if (one := self.known(node, name)) is not None}
        roots = {one.root for one in known.values()}
        if len(known) != len(read) or len(roots) != 1:
            return None
        first = next(iter(known.values()))
        if not self.keeps_shape(node, first.root):
            return None
        arrays = [known[name].table if name in known else self.graph.constants[name] for name in node.inputs]
        (table,) = evaluate(node.op, arrays, node.attributes)
        if node.op in CONVERSIONS:
            return replace(first, table=table)
        reason = next((one.reason for one in known.values() if one.reason), "") or self.reason(node)
        return Function(first.root, table, node.name, reason)

    def read(self, node: Node) -> set[str]:
        """Return the inputs that are not constant."""
        return {name for name in node.inputs if name not in self.graph.constants}

    def reason(self, node: Node) -> str:
        """Return why an operator runs on the host; "" for one on int8 elements, which need not."""
        if node.op in INTEGER:
            return node.reason
        return why_on_host(self.conversions, node).reason

    def known(self, node: Node, name: str) -> Function | None:
        """Return the function that a value is to one of its readers; to a DequantizeLinear or an operator on
        int8 elements, an int8 tensor is a function of itself."""
        type_ = self.graph.types[name]
        starts = node.op in ("DequantizeLinear", *INTEGER) and type_.dtype == "int8" and type_.shape
        if name in self.functions or not starts:
            return self.functions.get(name)
        return Function(name, BYTES.reshape(-1, *[1] * (len(type_.shape) - 1)))

    def keeps_shape(self, node: Node, root: str) -> bool:
        """Whether a node's other inputs are those that all elements share, so that its result has the
        tensor's shape."""
        shape, shared = self.graph.types[root].shape, INTEGER.get(node.op, 1)
        constants = [self.graph.types[name] for name in node.inputs if name in self.graph.constants]
        return self.graph.types[node.outputs[0]].shape == shape and all(
            type_.size == shared for type_ in constants
        )
