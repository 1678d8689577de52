"""Replaces elementwise functions of an int8 tensor by a table of their 256 values.

`QuantizeLinear(Gelu(DequantizeLinear(x)))` becomes `Int8Lookup(x, table)`. So does `Int8Mul(x, Int8Lookup(x,
sigmoid))`, the form of SiLU in quantised models. The table is filled by evaluating the operators, so results
are bit-exact for any number of operators. Operators that change no value are removed.

If the accelerator has tables, `Int8Mul(x, Int8Add(x, 3))` also becomes a table. Models in which every
operator is quantised contain HardSwish in this form.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.by_element import SHARED, as_column, shares_constants
from vdla.compiler.graph.conversions import CONVERSIONS
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.passes.cleanup import DeadCode
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.runtime.host import elementwise
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.int8 import BYTES

ON_ACCELERATOR = SHARED.keys() - {"Int8Lookup"}
"""Operators that run on the accelerator without a table; a table replaces them only together with others."""
BY_ELEMENT = (*CONVERSIONS, *elementwise.OPERATORS, *SHARED)


@dataclass(frozen=True, slots=True)
class ByteFunction:
    """A value that is an elementwise function of an int8 tensor.

    Attributes:
        root: the int8 tensor.
        table: [256, 1, ...]: the function of -128 to 127, with the tensor's rank.
        name: name of the last operator that is no conversion.
        reason: reason why the first operator that is no conversion runs on the host.
        on_accelerator: all operators run on the accelerator, except perhaps a DequantizeLinear at the end.
        steps: length of the chain of operators on int8 elements.
    """

    root: str
    table: np.ndarray
    name: str = ""
    reason: str = ""
    on_accelerator: bool = False
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Tabulate:
    """The pass. A lone DequantizeLinear remains, and so do operators that all run on the accelerator.

    Attributes:
        chains: chains of two or more operators on the accelerator also become a table: on an accelerator with
            tables, a lookup is faster than several operators.
    """

    chains: bool = False

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with tables."""
        return DeadCode().run(_Tabulator(graph, self.chains).run())


class _Tabulator(GraphBuilder):
    """The new graph under construction.

    Attributes:
        functions: for each value that is an elementwise function of an int8 tensor, the function.
    """

    def __init__(self, graph: Graph, chains: bool) -> None:
        super().__init__(graph)
        self.chains = chains
        self.functions: dict[str, ByteFunction] = {}

    def run(self) -> Graph:
        """Return the graph with tables; it may contain dead code."""
        for node in self.graph.nodes:
            function = self.function(node)
            if function is not None:
                self.functions[node.result] = function
            self.nodes.append(node if function is None else self.shortest(node, function))
        return self.finished()

    def shortest(self, node: Node, function: ByteFunction) -> Node:
        """Return a node, or an equivalent Identity or Int8Lookup."""
        if function.on_accelerator and function.table.tobytes() == BYTES.tobytes():
            return Node("Identity", (function.root,), node.outputs, {}, node.name)
        alone = function.on_accelerator and not (self.chains and function.steps > 1)
        if alone or self.variable_inputs(node) == {function.root}:
            return node
        table = self.constant(f"{node.result}_table", function.table.reshape(-1))
        name, reason = function.name or node.name, function.reason or node.reason
        return Node("Int8Lookup", (function.root, table), node.outputs, {}, name, reason)

    def function(self, node: Node) -> ByteFunction | None:
        """Return a node's result as an elementwise function of an int8 tensor; None if it is no such
        function."""
        read = self.variable_inputs(node)
        if node.op not in BY_ELEMENT or not all(read) or len(node.outputs) != 1:
            return None
        functions = {name: self.function_of(node, name) for name in read}
        known = {name: function for name, function in functions.items() if function is not None}
        roots = {function.root for function in known.values()}
        if len(known) != len(read) or len(roots) != 1:
            return None
        operands = tuple(known.values())
        first = operands[0]
        if not self.keeps_shape(node, first.root):
            return None
        table = self.table(node, known)
        if node.op in CONVERSIONS:
            whole = first.on_accelerator and node.op == "DequantizeLinear"
            return replace(first, table=table, on_accelerator=whole)
        reason = next((operand.reason for operand in operands if operand.reason), node.reason)
        steps = max(operand.steps for operand in operands) + 1
        on_accelerator = node.op in ON_ACCELERATOR and all(operand.on_accelerator for operand in operands)
        if on_accelerator and table.tobytes() == BYTES.tobytes():
            steps = 0
        return ByteFunction(first.root, table, node.name, reason, on_accelerator, steps)

    def table(self, node: Node, known: Mapping[str, ByteFunction]) -> np.ndarray:
        """Return a node's result for all 256 values of the tensor."""
        arrays = [known[name].table if name in known else self.graph.constants[name] for name in node.inputs]
        (table,) = evaluate(node.op, arrays, node.attributes)
        return table

    def variable_inputs(self, node: Node) -> set[str]:
        """Return the inputs that are not constant."""
        return {name for name in node.inputs if name not in self.graph.constants}

    def function_of(self, node: Node, name: str) -> ByteFunction | None:
        """Return a value that `node` reads as an elementwise function. An int8 tensor is the identity of
        itself if the node is a DequantizeLinear or an operator on int8 elements. None if it is no such
        function."""
        type_ = self.graph.types[name]
        starts = node.op in ("DequantizeLinear", *SHARED)
        if name in self.functions or not (starts and type_.dtype == "int8" and type_.shape):
            return self.functions.get(name)
        return ByteFunction(name, as_column(type_.shape), on_accelerator=True)

    def keeps_shape(self, node: Node, root: str) -> bool:
        """Whether all elements share a node's constants, and its result has the tensor's shape."""
        if self.graph.types[node.result].shape != self.graph.types[root].shape:
            return False
        if node.op in SHARED:
            return shares_constants(self.graph, node)
        return all(self.graph.types[name].size == 1 for name in node.inputs if name in self.graph.constants)
