"""Element-wise functions of an int8 tensor become a table of their 256 values.

`QuantizeLinear(Gelu(DequantizeLinear(x)))` becomes `Int8Lookup(x, table)`. So does `Int8Mul(x, Int8Lookup(x,
sigmoid))`, as which quantised files write SiLU. The operators themselves fill the table, so that results are
theirs to the last bit, whatever they are and however many. Operators that change no value are removed.

Where the accelerator has tables, so does `Int8Mul(x, Int8Add(x, 3))`: files that quantise every operator
write HardSwish in such pieces.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.by_element import SHARED, as_column, shares_constants
from vdla.compiler.graph.conversions import CONVERSIONS, Conversions
from vdla.compiler.graph.integer_forms.host import why_on_host
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.runtime.host import elementwise
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.int8 import BYTES

ON_ACCELERATOR = SHARED.keys() - {"Int8Lookup"}
"""What is worth no table, unless something else is part of it."""
BY_ELEMENT = (*CONVERSIONS, *elementwise.OPERATORS, *SHARED)


@dataclass(frozen=True, slots=True)
class Function:
    """A value whose elements follow from those of an int8 tensor.

    Attributes:
        root: the tensor.
        table: of each of its values, from -128 on; of the tensor's rank, all but the first extent are 1.
        name: of the last operator that is no conversion.
        reason: why the first operator that is no conversion runs on the host.
        on_accelerator: all of it is worth no table, but perhaps for a DequantizeLinear at its end.
        steps: operators that change int8 elements, one after the other.
    """

    root: str
    table: np.ndarray
    name: str = ""
    reason: str = ""
    on_accelerator: bool = False
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Tabulate:
    """The pass; it leaves a lone DequantizeLinear as it is, and operators that all run on the accelerator.

    Attributes:
        chains: two operators or more, one after the other, become a table wherever they run: where the
            accelerator has tables, one step takes less than several.
    """

    chains: bool = False

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with tables."""
        return DeadCode().run(_Tabulating(graph, self.chains).run())


class _Tabulating(GraphBuilder):
    """A graph with tables in the making.

    Attributes:
        functions: by value.
    """

    def __init__(self, graph: Graph, chains: bool) -> None:
        super().__init__(graph)
        self.chains = chains
        self.conversions = Conversions(graph)
        self.functions: dict[str, Function] = {}

    def run(self) -> Graph:
        """Return the graph with tables, beside what then nothing reads."""
        for node in self.graph.nodes:
            found = self.function(node)
            if found is not None:
                self.functions[node.outputs[0]] = found
            self.nodes.append(node if found is None else self.shortest(node, found))
        return self.finished()

    def shortest(self, node: Node, found: Function) -> Node:
        """Return a node, or what does the same in fewer steps."""
        if found.on_accelerator and found.table.tobytes() == BYTES.tobytes():
            return Node("Identity", (found.root,), node.outputs, {}, node.name)
        alone = found.on_accelerator and not (self.chains and found.steps > 1)
        if alone or self.read(node) == {found.root}:
            return node
        table = self.constant(f"{node.outputs[0]}_table", found.table.reshape(-1))
        name, reason = found.name or node.name, found.reason or self.reason(node)
        return Node("Int8Lookup", (found.root, table), node.outputs, {}, name, reason)

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
        table = self.table(node, known)
        if node.op in CONVERSIONS:
            whole = first.on_accelerator and node.op == "DequantizeLinear"
            return replace(first, table=table, on_accelerator=whole)
        reason = next((one.reason for one in known.values() if one.reason), "") or self.reason(node)
        steps = max(one.steps for one in known.values()) + 1
        on_accelerator = node.op in ON_ACCELERATOR and all(one.on_accelerator for one in known.values())
        if on_accelerator and table.tobytes() == BYTES.tobytes():
            steps = 0
        return Function(first.root, table, node.name, reason, on_accelerator, steps)

    def table(self, node: Node, known: Mapping[str, Function]) -> np.ndarray:
        """Return what a node makes of all values of the tensor."""
        arrays = [known[name].table if name in known else self.graph.constants[name] for name in node.inputs]
        (table,) = evaluate(node.op, arrays, node.attributes)
        return table

    def read(self, node: Node) -> set[str]:
        """Return the inputs that are not constant."""
        return {name for name in node.inputs if name not in self.graph.constants}

    def reason(self, node: Node) -> str:
        """Return why an operator runs on the host; "" for one on int8 elements, which need not."""
        if node.op in SHARED:
            return node.reason
        return why_on_host(self.conversions, node).reason

    def known(self, node: Node, name: str) -> Function | None:
        """Return the function that a value is to one of its readers; to a DequantizeLinear or an operator on
        int8 elements, an int8 tensor is a function of itself."""
        type_ = self.graph.types[name]
        starts = node.op in ("DequantizeLinear", *SHARED)
        if name in self.functions or not (starts and type_.dtype == "int8" and type_.shape):
            return self.functions.get(name)
        return Function(name, as_column(type_.shape), on_accelerator=True)

    def keeps_shape(self, node: Node, root: str) -> bool:
        """Whether all elements share a node's constants, and its result has the tensor's shape."""
        if self.graph.types[node.outputs[0]].shape != self.graph.types[root].shape:
            return False
        if node.op in SHARED:
            return shares_constants(self.graph, node)
        return all(self.graph.types[name].size == 1 for name in node.inputs if name in self.graph.constants)
