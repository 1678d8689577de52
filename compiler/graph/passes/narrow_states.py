"""States stay int8 between runs.

A state is an input that takes the value of an output of the run before. Where both have one scale, no run
converts them: the conversions at both ends are removed, and the graph records the scale.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vdla.compiler.graph.conversions import Conversions, has_one_constant_scale
from vdla.compiler.graph.integers import Quantisation
from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.graph.passes.cleanup import DeadCode
from vdla.compiler.graph.rewrite import GraphBuilder, renamed
from vdla.runtime.module.plan import State


@dataclass(frozen=True, slots=True)
class NarrowStates:
    """The pass. A state that an operator reads in float, or with another scale than it is made with, stays in
    float."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with states of int8 elements."""
        for name in graph.states:
            graph = _with_narrow_state(graph, name)
        return graph


def _with_narrow_state(graph: Graph, name: str) -> Graph:
    """Return `graph` with one state as int8, if both of its ends are converted with one scale."""
    conversions, state = Conversions(graph), graph.states[name]
    quantisers = conversions.readers(name)
    made = conversions.maker(state.output, "DequantizeLinear")
    ends = (*quantisers, *(() if made is None else (made,)))
    if made is None or not quantisers or any(node.op != "QuantizeLinear" for node in quantisers):
        return graph
    if not all(has_one_constant_scale(conversions, node) for node in ends):
        return graph
    first, *others = (conversions.quantisation(node) for node in ends)
    source = made.inputs[0]
    if any(other != first for other in others) or source in (*graph.outputs, *graph.inputs, *graph.constants):
        return graph
    changed = _Narrowing(graph, name, state.output, source, quantisers)
    return changed.run(first)


class _Narrowing(GraphBuilder):
    """A graph in which a state becomes int8.

    Args:
        name, output: the input, and the output that it takes.
        source: the int8 value that the output is made of; the output takes its place.
        quantisers: the conversions of the input, which are removed.
    """

    def __init__(self, graph: Graph, name: str, output: str, source: str, quantisers: list[Node]) -> None:
        super().__init__(graph)
        self.name, self.output = name, output
        self.names = {source: output, **{node.result: name for node in quantisers}}
        self.quantisers = quantisers

    def run(self, quantisation: Quantisation) -> Graph:
        """Return the graph; the state stands for numbers by the quantisation."""
        graph, real = self.graph, self.value(f"{self.output}_real", self.graph.types[self.output])
        for node in graph.nodes:
            if node not in self.quantisers:
                self.nodes.append(self.changed(node, {self.output: real}))
        narrow = TensorType(graph.types[self.name].shape, "int8")
        for name in (self.name, self.output):
            self.types[name] = narrow
        state = State(self.output, quantisation.scale, quantisation.zero)
        inputs = {**graph.inputs, self.name: narrow}
        types = {**graph.types, self.name: narrow, self.output: narrow}
        self.graph = replace(graph, inputs=inputs, types=types, states={**graph.states, self.name: state})
        return DeadCode().run(self.finished())

    def changed(self, node: Node, reals: Mapping[str, str]) -> Node:
        """Return a node that reads and makes the int8 values under their new names, and the float output
        under another."""
        node = renamed(renamed(node, reals), self.names)
        outputs = tuple(reals.get(name, self.names.get(name, name)) for name in node.outputs)
        return replace(node, outputs=outputs)
