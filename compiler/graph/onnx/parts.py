"""Grouping of the nodes that onnxruntime runs into as few connected parts as possible.

The stage of a node is the number of switches between the kit and onnxruntime before it. Nodes of the same
stage do not depend on each other through nodes of the kit, so connected nodes of a stage form a part.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto

from vdla.compiler.graph.nodes import Node
from vdla.compiler.graph.onnx.names import LONGEST_NAME
from vdla.hw.spec.showing import short
from vdla.runtime.host.onnx_runtime import PART
from vdla.runtime.module.reasons import SEPARATOR

SHOWN = 3  # nodes that the name of a part lists
LONGEST_REASON = 200


@dataclass(frozen=True, slots=True, eq=False)
class HostNode:
    """A node that onnxruntime runs.

    Attributes:
        proto: the node.
        reason: why the kit does not run it.
        reads: the graph's names of its inputs, by the model's names; without constants.
        constants: the model's names of the constants it reads.
        makes: the graph's names of its results, by the model's names.
        version: the version of the main operator set in which onnxruntime accepts it.
    """

    proto: NodeProto
    reason: str
    reads: Mapping[str, str]
    constants: tuple[str, ...]
    makes: Mapping[str, str]
    version: int

    @property
    def inputs(self) -> tuple[str, ...]:
        """The graph's names of its inputs, without constants."""
        return tuple(self.reads.values())

    @property
    def outputs(self) -> tuple[str, ...]:
        """The graph's names of its results."""
        return tuple(self.makes.values())


@dataclass(frozen=True, slots=True, eq=False)
class HostPart:
    """Connected nodes that onnxruntime runs together.

    Attributes:
        nodes: in topological order.
        inputs: the graph's names of the values it reads from outside, by the model's names.
        outputs: the graph's names of its results that are read outside, by the model's names.
    """

    nodes: tuple[HostNode, ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]

    @property
    def name(self) -> str:
        """The part's name in reports: a list of its first nodes."""
        named = [f"{node.proto.op_type} {node.proto.name}".strip() for node in self.nodes[:SHOWN]]
        more = len(self.nodes) - SHOWN
        return short(", ".join(named) + (f" and {more} more" if more > 0 else ""), LONGEST_NAME)

    @property
    def reason(self) -> str:
        """Why the kit does not run its nodes."""
        reasons = (node.reason.replace(SEPARATOR, ", ") for node in self.nodes)
        return short(f"onnxruntime runs it: {', '.join(dict.fromkeys(reasons))}", LONGEST_REASON)


Step = Node | HostNode


def grouped_into_parts(
    steps: Sequence[Step], outputs: Sequence[str], nodes_of_part: Callable[[HostPart], Sequence[Node]]
) -> tuple[Node, ...]:
    """Return the nodes of a graph in topological order, with host nodes grouped into parts.

    Args:
        steps: nodes of the kit and host nodes, in topological order.
        outputs: the graph's names of the network's outputs.
        nodes_of_part: returns the nodes that run a part; a single node if onnxruntime accepts it whole.
    """
    if not any(isinstance(step, HostNode) for step in steps):
        return tuple(step for step in steps if isinstance(step, Node))
    stages = _stages(steps, outputs)
    order = sorted(range(len(steps)), key=lambda place: stages[place])
    groups = _groups(steps, stages)
    wanted, members = _read_outside(steps, groups) | set(outputs), _members(steps, groups)
    nodes: list[Node] = []
    begun: set[int] = set()
    for place in order:
        step = steps[place]
        if isinstance(step, Node):
            nodes.append(step)
        elif groups[place] not in begun:
            begun.add(groups[place])
            part = _part(
                [member for member in members[groups[place]] if isinstance(member, HostNode)], wanted
            )
            nodes += nodes_of_part(part) if part.outputs else ()
    return tuple(nodes)


def _members(steps: Sequence[Step], groups: Mapping[int, int]) -> dict[int, list[Step]]:
    """Return the steps of each group, in order."""
    members: dict[int, list[Step]] = {}
    for place, step in enumerate(steps):
        if place in groups:
            members.setdefault(groups[place], []).append(step)
    return members


def _stages(steps: Sequence[Step], outputs: Sequence[str]) -> list[int]:
    """Return the stage of each step.

    Nodes of the kit get their earliest stage, host nodes their latest, so that a part includes its producers.
    """
    makers = {name: place for place, step in enumerate(steps) for name in step.outputs}
    stages: list[int] = []
    for step in steps:
        before = (makers[name] for name in step.inputs if name in makers)
        stages.append(max((stages[place] + _switches(steps[place], step) for place in before), default=0))
    every, leaving = _readers(steps, makers), set(outputs)
    for place in reversed(range(len(steps))):
        readers = every[place]
        if isinstance(steps[place], HostNode) and readers and leaving.isdisjoint(steps[place].outputs):
            latest = min(stages[reader] - _switches(steps[place], steps[reader]) for reader in readers)
            stages[place] = max(stages[place], latest)
    return stages


def _switches(producer: Step, consumer: Step) -> int:
    """Return 1 if exactly one of two steps is a host node, else 0."""
    return int(isinstance(producer, HostNode) is not isinstance(consumer, HostNode))


def _readers(steps: Sequence[Step], makers: Mapping[str, int]) -> list[list[int]]:
    """Return the positions of the readers of each step's results."""
    readers: list[list[int]] = [[] for _ in steps]
    for place, step in enumerate(steps):
        for name in step.inputs:
            if name in makers:
                readers[makers[name]].append(place)
    return readers


def _groups(steps: Sequence[Step], stages: Sequence[int]) -> dict[int, int]:
    """Return the group of each host node by its position; a group is identified by a member's position."""
    makers = {name: place for place, step in enumerate(steps) for name in step.outputs}
    parent = {place: place for place, step in enumerate(steps) if isinstance(step, HostNode)}

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    for place in parent:
        for name in steps[place].inputs:
            maker = makers.get(name)
            if maker in parent and stages[maker] == stages[place]:
                parent[root(place)] = root(maker)
    return {place: root(place) for place in parent}


def _read_outside(steps: Sequence[Step], groups: Mapping[int, int]) -> set[str]:
    """Return the values that are read outside the group that computes them."""
    makers = {name: groups.get(place) for place, step in enumerate(steps) for name in step.outputs}
    return {
        name
        for place, step in enumerate(steps)
        for name in step.inputs
        if groups.get(place) is None or makers.get(name) != groups[place]
    }


def _part(nodes: list[HostNode], wanted: set[str]) -> HostPart:
    results = {name: key for node in nodes for name, key in node.makes.items()}
    inputs = {name: key for node in nodes for name, key in node.reads.items() if name not in results}
    return HostPart(tuple(nodes), inputs, {name: key for name, key in results.items() if key in wanted})


def split(part: HostPart) -> list[HostPart]:
    """Return a separate part for each node of a part."""
    return [HostPart((node,), node.reads, node.makes) for node in part.nodes]


def node_of(part: HostPart, model: str) -> Node:
    """Return the graph's node that runs a part; `model` names the constant that holds the part's model."""
    inputs = (model, *part.inputs.values())
    return Node(PART, inputs, tuple(part.outputs.values()), {}, part.name, part.reason)


def bytes_of(model: ModelProto) -> np.ndarray:
    """Return the serialised model as uint8[n]."""
    return np.frombuffer(model.SerializeToString(deterministic=True), np.uint8)


def onnx_nodes(part: HostPart) -> Iterator[NodeProto]:
    """Yield the ONNX nodes of a part."""
    yield from (node.proto for node in part.nodes)
