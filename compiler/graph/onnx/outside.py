"""Nodes that the kit leaves to onnxruntime, and their grouping into connected parts, as few as possible.

A node has a stage: how often the kit and onnxruntime take turns before it. Nodes of one stage cannot depend
on each other by way of the kit, so those that are connected make one part.
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

SHOWN = 3  # nodes of a part that its name names
LONGEST_REASON = 200


@dataclass(frozen=True, slots=True, eq=False)
class Outside:
    """A node that onnxruntime runs.

    Attributes:
        proto: the node.
        reason: why the kit does not run it.
        reads: the graph's names of the values it reads, by the model's; without constants.
        constants: the model's names of the constants it reads.
        makes: the graph's names of the values it makes, by the model's.
        version: of the main operator set, in which onnxruntime takes it.
    """

    proto: NodeProto
    reason: str
    reads: Mapping[str, str]
    constants: tuple[str, ...]
    makes: Mapping[str, str]
    version: int

    @property
    def inputs(self) -> tuple[str, ...]:
        """The graph's names of what it reads."""
        return tuple(self.reads.values())

    @property
    def outputs(self) -> tuple[str, ...]:
        """The graph's names of what it makes."""
        return tuple(self.makes.values())


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Connected nodes that onnxruntime runs together.

    Attributes:
        nodes: in order.
        inputs: the graph's names of the values that come from outside, by the model's.
        outputs: of those that others read, or that leave the network.
    """

    nodes: tuple[Outside, ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]

    @property
    def name(self) -> str:
        """What reports call it: its first nodes."""
        named = [f"{one.proto.op_type} {one.proto.name}".strip() for one in self.nodes[:SHOWN]]
        more = len(self.nodes) - SHOWN
        return short(", ".join(named) + (f" and {more} more" if more > 0 else ""), LONGEST_NAME)

    @property
    def reason(self) -> str:
        """Why the kit does not run its nodes."""
        found = (one.reason.replace(SEPARATOR, ", ") for one in self.nodes)
        return short(f"onnxruntime runs it: {', '.join(dict.fromkeys(found))}", LONGEST_REASON)


Step = Node | Outside


def in_parts(
    steps: Sequence[Step], outputs: Sequence[str], made: Callable[[Part], Sequence[Node]]
) -> tuple[Node, ...]:
    """Return the nodes of a graph, in an order in which they can run.

    Args:
        steps: in an order in which they can run.
        outputs: the graph's names of what leaves the network.
        made: makes the nodes of a part: one, where onnxruntime takes it whole.
    """
    if not any(isinstance(step, Outside) for step in steps):
        return tuple(step for step in steps if isinstance(step, Node))
    stages = _stages(steps, outputs)
    order = sorted(range(len(steps)), key=lambda place: stages[place])
    groups = _groups(steps, stages)
    wanted, members = _read_outside(steps, groups) | set(outputs), _members(steps, groups)
    found: list[Node] = []
    begun: set[int] = set()
    for place in order:
        step = steps[place]
        if isinstance(step, Node):
            found.append(step)
        elif groups[place] not in begun:
            begun.add(groups[place])
            part = _part([one for one in members[groups[place]] if isinstance(one, Outside)], wanted)
            found += made(part) if part.outputs else ()
    return tuple(found)


def _members(steps: Sequence[Step], groups: Mapping[int, int]) -> dict[int, list[Step]]:
    """Return the steps of each group, in order."""
    found: dict[int, list[Step]] = {}
    for place, step in enumerate(steps):
        if place in groups:
            found.setdefault(groups[place], []).append(step)
    return found


def _stages(steps: Sequence[Step], outputs: Sequence[str]) -> list[int]:
    """Return the stage of each step: the earliest for the kit's, the latest for those of onnxruntime, so
    that they meet what they feed."""
    makers = {name: place for place, step in enumerate(steps) for name in step.outputs}
    stages: list[int] = []
    for step in steps:
        before = (makers[name] for name in step.inputs if name in makers)
        stages.append(max((stages[place] + _turns(steps[place], step) for place in before), default=0))
    every, leaving = _readers(steps, makers), set(outputs)
    for place in reversed(range(len(steps))):
        readers = every[place]
        if isinstance(steps[place], Outside) and readers and leaving.isdisjoint(steps[place].outputs):
            latest = min(stages[reader] - _turns(steps[place], steps[reader]) for reader in readers)
            stages[place] = max(stages[place], latest)
    return stages


def _turns(one: Step, other: Step) -> int:
    return int(isinstance(one, Outside) is not isinstance(other, Outside))


def _readers(steps: Sequence[Step], makers: Mapping[str, int]) -> list[list[int]]:
    """Return the steps that read what each step makes."""
    found: list[list[int]] = [[] for _ in steps]
    for place, step in enumerate(steps):
        for name in step.inputs:
            if name in makers:
                found[makers[name]].append(place)
    return found


def _groups(steps: Sequence[Step], stages: Sequence[int]) -> dict[int, int]:
    """Return the group of each step of onnxruntime, by its position: the position of one of its members."""
    makers = {name: place for place, step in enumerate(steps) for name in step.outputs}
    parent = {place: place for place, step in enumerate(steps) if isinstance(step, Outside)}

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
    """Return the values that are read in another group than the one that makes them."""
    makers = {name: groups.get(place) for place, step in enumerate(steps) for name in step.outputs}
    return {
        name
        for place, step in enumerate(steps)
        for name in step.inputs
        if groups.get(place) is None or makers.get(name) != groups[place]
    }


def _part(nodes: list[Outside], wanted: set[str]) -> Part:
    own = {name for one in nodes for name in one.makes}
    inputs = {name: key for one in nodes for name, key in one.reads.items() if name not in own}
    made = {name: key for one in nodes for name, key in one.makes.items()}
    return Part(tuple(nodes), inputs, {name: key for name, key in made.items() if key in wanted})


def alone(part: Part) -> list[Part]:
    """Return a part for each node of one."""
    return [Part((one,), one.reads, one.makes) for one in part.nodes]


def node_of(part: Part, model: str) -> Node:
    """Return the node that runs a part, whose model is the constant `model`."""
    inputs = (model, *part.inputs.values())
    return Node(PART, inputs, tuple(part.outputs.values()), {}, part.name, part.reason)


def bytes_of(model: ModelProto) -> np.ndarray:
    """Return a model as uint8[n]."""
    return np.frombuffer(model.SerializeToString(deterministic=True), np.uint8)


def protos(part: Part) -> Iterator[NodeProto]:
    """Yield the nodes of a part."""
    yield from (one.proto for one in part.nodes)
