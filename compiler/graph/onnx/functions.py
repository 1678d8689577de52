"""Inlining of the functions of a model.

Functions that call each other twice double the number of nodes at each level, so the nodes are counted before
inlining.

Source: ONNX intermediate representation, Model Local Functions: they must not call themselves.
"""

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

from onnx import ModelProto, NodeProto, checker, inliner

from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.subgraphs import nodes_within
from vdla.compiler.graph.onnx.tensors import first_line
from vdla.hw.spec.limits import EXPANDED_NODES, require_room
from vdla.hw.spec.showing import short

Key = tuple[str, str, str]  # domain, name and overload


def without_functions(proto: ModelProto, label: str) -> ModelProto:
    """Return a model with its functions inlined.

    Args:
        label: the model's name in messages.

    Raises:
        GraphError: functions are recursive or damaged, or expand to more than `EXPANDED_NODES` nodes.
    """
    if not proto.functions:
        return proto
    count = expanded_nodes(proto, label)
    subject = f"{label}: with its functions in place of their calls, it has"
    require_room(count, EXPANDED_NODES, subject, GraphError, "nodes")
    try:
        return inliner.inline_local_functions(proto)
    except (RuntimeError, ValueError, checker.ValidationError) as error:
        raise GraphError(
            f"{label}: its functions cannot be put in place of their calls: {first_line(error)}"
        ) from error


def expanded_nodes(proto: ModelProto, label: str) -> int:
    """Return the number of nodes of a model after inlining, those of subgraphs included.

    Raises:
        GraphError: functions are recursive.
    """
    bodies = {(each.domain, each.name, each.overload): each.node for each in proto.functions}
    calls = {key: [_called(node) for node in _all_nodes(nodes)] for key, nodes in bodies.items()}
    counts: dict[Key, int] = {}
    try:
        order = list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        circle = " → ".join(".".join(filter(None, key)) for key in reversed(error.args[1]))
        raise GraphError(
            f"{label}: its functions call each other in a circle: {short(circle, 200)}"
        ) from error
    for key in order:
        counts[key] = sum(counts[each] for each in calls[key]) if key in calls else 1
    return sum(counts.get(_called(node), 1) for node in _all_nodes(proto.graph.node))


def _called(node: NodeProto) -> Key:
    return node.domain, node.op_type, node.overload


def _all_nodes(nodes: Iterable[NodeProto]) -> Iterable[NodeProto]:
    """Yield nodes and those of their subgraphs."""
    return (inner for outer in nodes for inner in nodes_within(outer))
