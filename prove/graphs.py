"""The two graphs that a proof compares with the streams: from the module, or from the compiler."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.verify import verify
from vdla.compiler.network.target_passes import target_passes
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.limits import TENSOR_BYTES, require_room
from vdla.hw.spec.showing import short
from vdla.hw.spec.target import Target
from vdla.runtime.arrays import LONGEST_REASON, UNREADABLE
from vdla.runtime.host.evaluate import check_types
from vdla.runtime.module.plan import ModuleError, Plan


@dataclass(frozen=True, slots=True, eq=False)
class Graphs:
    """The graphs of a compiled network.

    Attributes:
        integers: graph of integer operators, which defines the results.
        target: the same graph after the passes for the target; launches read and write its values.
    """

    integers: Graph
    target: Graph


def graphs_for(integers: Graph, target: Target) -> Graphs:
    """Return the graphs of a network that is compiled for a target."""
    return Graphs(integers, target_passes(target).run(integers))


def carried_graphs(plan: Plan) -> Graphs:
    """Return the graphs that a module carries.

    Raises:
        ModuleError: it carries none.
        GraphError: a text is not a valid graph, a constant is missing or does not match its hash, or an
            attribute is of another type.
    """
    if plan.graphs is None:
        raise ModuleError(
            f"the module {plan.name} carries no graph to compare its streams with; give the model that it "
            "was compiled from, with the options of its compilation (vdla prove MODULE.vdla --model "
            "MODEL.onnx), or compile the network again without --no-graph"
        )
    constants = dict(plan.graphs.constants)
    return Graphs(_graph(plan.graphs.integers, constants), _graph(plan.graphs.target, constants))


def _graph(text: str, constants: Mapping[str, np.ndarray]) -> Graph:
    """Return the graph of a text, after it was checked as a graph from outside has to be."""
    try:
        graph = parse_graph(text, constants)
        verify(graph)
        for node in graph.nodes:
            check_types(node.op, node.attributes)
    except (VdlaError, *UNREADABLE) as error:
        reason = short(next(iter(str(error).splitlines()), type(error).__name__), LONGEST_REASON)
        raise GraphError(f"the module's graph cannot be read: {reason}; compile the network again") from error
    for name, type_ in graph.types.items():
        size = type_.size * np.dtype(type_.dtype).itemsize
        require_room(size, TENSOR_BYTES, f"value {name} is {type_}, which takes", ModuleError)
    return graph
