"""Grouping of the nodes that onnxruntime runs into as few connected parts as possible.

The stage of a node is the number of switches between the kit and onnxruntime before it. Nodes of the same
stage do not depend on each other through nodes of the kit, so connected nodes of a stage form a part.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from onnx import NodeProto

from vdla.compiler.graph.nodes import Node
from vdla.compiler.graph.onnx.values import LONGEST_NAME
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
        named = [f"{node.op_type} {node.name}".strip() for node in self.protos[:SHOWN]]
        more = len(self.nodes) - SHOWN
        return short(", ".join(named) + (f" and {more} more" if more > 0 else ""), LONGEST_NAME)

    @property
    def reason(self) -> str:
        """Why the kit does not run its nodes."""
        reasons = (node.reason.replace(SEPARATOR, ", ") for node in self.nodes)
        return short(f"onnxruntime runs it: {', '.join(dict.fromkeys(reasons))}", LONGEST_REASON)

    @property
    def protos(self) -> list[NodeProto]:
        """The ONNX nodes."""
        return [node.proto for node in self.nodes]

    def node(self, model: str) -> Node:
        """Return the graph's node that runs the part; `model` names the constant that holds its model."""
        inputs = (model, *self.inputs.values())
        return Node(PART, inputs, tuple(self.outputs.values()), {}, self.name, self.reason)


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
    makers = {name: place for place, step in enumerate(steps) for name in step.outputs}
    before = [[makers[name] for name in step.inputs if name in makers] for step in steps]
    stages = _stages(steps, before, outputs)
    groups = _groups(steps, before, stages)
    members: dict[int, list[int]] = {}
    for place in sorted(range(len(steps)), key=stages.__getitem__):
        members.setdefault(groups[place], []).append(place)
    wanted = set(outputs).union(
        name
        for place, step in enumerate(steps)
        for name in step.inputs
        if name in makers and groups[makers[name]] != groups[place]
    )
    nodes: list[Node] = []
    for places in members.values():
        nodes += (step for place in places if isinstance(step := steps[place], Node))
        part = part_of([step for place in places if isinstance(step := steps[place], HostNode)], wanted)
        nodes += nodes_of_part(part) if part.outputs else ()
    return tuple(nodes)


def _stages(steps: Sequence[Step], before: Sequence[Sequence[int]], outputs: Sequence[str]) -> list[int]:
    """Return the stage of each step; `before` holds the positions of the producers of its inputs.

    Nodes of the kit get their earliest stage, host nodes their latest, so that a part includes its producers.
    """

    def switch(producer: int, consumer: int) -> int:
        return int(isinstance(steps[producer], HostNode) is not isinstance(steps[consumer], HostNode))

    stages: list[int] = []
    for place, makers in enumerate(before):
        stages.append(max((stages[maker] + switch(maker, place) for maker in makers), default=0))
    latest: dict[int, int] = {}  # the latest stage that the readers of a step allow
    for place in reversed(range(len(steps))):
        step = steps[place]
        if isinstance(step, HostNode) and place in latest and set(outputs).isdisjoint(step.outputs):
            stages[place] = max(stages[place], latest[place])
        for maker in before[place]:
            stage = stages[place] - switch(maker, place)
            latest[maker] = min(latest.get(maker, stage), stage)
    return stages


def _groups(steps: Sequence[Step], before: Sequence[Sequence[int]], stages: Sequence[int]) -> list[int]:
    """Return the group of each step, which is the position of a member.

    Connected host nodes of a stage are a group; every node of the kit is a group by itself.
    """
    parent = list(range(len(steps)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    for place, makers in enumerate(before):
        for maker in makers:
            hosts = isinstance(steps[place], HostNode) and isinstance(steps[maker], HostNode)
            if hosts and stages[maker] == stages[place]:
                parent[root(place)] = root(maker)
    return [root(place) for place in parent]


def part_of(nodes: Sequence[HostNode], wanted: Collection[str] | None = None) -> HostPart:
    """Return the part of some nodes; its outputs are the results among `wanted`, or all results."""
    results = {name: key for node in nodes for name, key in node.makes.items()}
    inputs = {name: key for node in nodes for name, key in node.reads.items() if name not in results}
    outputs = {name: key for name, key in results.items() if wanted is None or key in wanted}
    return HostPart(tuple(nodes), inputs, outputs)
