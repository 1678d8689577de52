"""The first half of a proof: each step of a plan computes its part of the target-level graph."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph.nodes import Graph, Node
from vdla.hw.spec import isa
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.vocabulary import MemoryType
from vdla.prove.demanded import DemandedValues
from vdla.prove.domain import Domain
from vdla.prove.elements import Elements, equal
from vdla.prove.machine import StreamMachine, require_covered
from vdla.prove.memory import NO_WRITER, Dram, Lanes
from vdla.prove.positions import positions_of
from vdla.prove.proof import LayerProof
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.plan import Crossing, HostStep, LaunchStep, Layer, Plan
from vdla.runtime.session.launch import Launch
from vdla.runtime.session.placement import PlacedPlan, place_plan
from vdla.runtime.stream.builder import Stream
from vdla.sim.decoded import DecodedStream
from vdla.sim.interleave import interleave

Indices = NDArray[np.int64]
NO_INSTRUCTION = -1


class DifferenceError(VdlaError):
    """A plan and a graph differ."""


@dataclass(frozen=True)
class Segment:
    """Instructions of a stream that run one after another.

    Attributes:
        layer: whose last instruction is the last of them; None: they complete no layer.
        order: positions in the stream.
    """

    layer: Layer | None
    order: Indices


class StreamProof:
    """Compares the steps of a plan with the target-level graph.

    Args:
        domain: of the proof.
        plan: the plan.
        graph: the graph that it was made of.
        progress: called with a text for each layer.

    Attributes:
        layers: the layers that have been compared.
    """

    def __init__(self, domain: Domain, plan: Plan, graph: Graph, progress: Callable[[str], None]) -> None:
        self._domain, self._plan, self._graph, self._progress = domain, plan, graph, progress
        self._values = DemandedValues(domain, graph, [*_uses(plan), *graph.outputs])
        self.layers: list[LayerProof] = []

    def run(self) -> None:
        """Compare every step.

        Raises:
            VdlaError: they differ, a stream is unsafe, or the proof does not cover what they do.
        """
        plan = self._plan
        require_covered(plan.config)
        _require_same_ends(plan, self._graph)
        device = FunctionalDevice(plan.config, plan.dram_bytes)
        placed = place_plan(device, plan)
        dram = _dram(plan, placed, device.dram)
        nodes = {node.outputs: node for node in self._graph.nodes}
        for step in plan.steps:
            if isinstance(step, HostStep):
                _require_same_step(plan, self._graph, step, nodes.get(step.outputs))
            else:
                self._compare_launch(step, placed, dram)

    def outputs(self) -> dict[str, Elements]:
        """Return the outputs of the graph by name."""
        return {name: self._values.take(name) for name in self._graph.outputs}

    def _compare_launch(self, step: LaunchStep, placed: PlacedPlan, dram: Dram) -> None:
        """Run a launch layer by layer, and compare the results of each."""
        launch, stream = placed.launches[step.stream], self._plan.streams[step.stream]
        program = launch.program()
        launch.verify(program)
        for crossing in step.packs:
            self._pack(crossing, placed, dram)
        machine = StreamMachine(self._plan.config, self._domain, dram)
        for segment in _segments(step, stream, program):
            if segment.layer is None:
                machine.run(program, segment.order.tolist())
                continue
            self._progress(f"{step.stream}: {segment.layer.name}")
            _require_own_stores(segment.layer, stream, program)
            machine.run(program, segment.order.tolist())
            if segment.layer.result is not None:
                self._compare_layer(step, segment.layer, segment.layer.result, placed, dram, program)
        for crossing in step.unpacks:
            difference = self._difference(crossing, placed, dram, program)
            if difference:
                raise DifferenceError(f"{step.stream}, what it hands over: {difference}")

    def _pack(self, crossing: Crossing, placed: PlacedPlan, dram: Dram) -> None:
        """Copy a value into DRAM."""
        value = self._values.take(crossing.value)
        positions = positions_of(crossing.layout)
        lanes = Lanes.of_constants(self._domain, positions.padding[:, None])
        elements = value.reshape(-1)[positions.numbers, None]
        lanes.put(positions.bytes, Lanes(elements, self._domain.values(elements).residues))
        dram.write(placed.tensors[crossing.tensor].address, lanes)

    def _compare_layer(
        self,
        step: LaunchStep,
        layer: Layer,
        result: Crossing,
        placed: PlacedPlan,
        dram: Dram,
        program: DecodedStream,
    ) -> None:
        difference = self._difference(result, placed, dram, program)
        size = len(positions_of(result.layout).numbers)
        self.layers.append(LayerProof(layer.name, layer.op, step.stream, size, not difference))
        if difference:
            raise DifferenceError(f"{step.stream}, layer {layer.name} ({layer.op}): {difference}")

    def _difference(self, crossing: Crossing, placed: PlacedPlan, dram: Dram, program: DecodedStream) -> str:
        """Describe the first element of a value that is not what the graph has; "" if there is none."""
        expected = self._values.take(crossing.value)
        positions = positions_of(crossing.layout)
        places = placed.tensors[crossing.tensor].address - dram.low + positions.bytes
        wanted = expected.reshape(-1)[positions.numbers]
        wrong = ~equal(dram.elements[places], wanted)
        if not wrong.any():
            return ""
        first = int(np.argmax(np.where(wrong, -positions.numbers, np.iinfo(np.int64).min)))
        index = list(map(int, np.unravel_index(positions.numbers[first], expected.shape)))
        writer = int(dram.writers[places[first]])
        by = program.describe(writer) if writer != NO_WRITER else "no instruction"
        return (
            f"element {index} of {crossing.value} differs, which {by} wrote; "
            f"{np.count_nonzero(wrong):,} of {wrong.size:,} elements differ"
        )


def _uses(plan: Plan) -> Iterator[str]:
    """Yield the values of the graph that the comparison of a plan asks for, once for each time."""
    for step in plan.launches:
        yield from (crossing.value for crossing in (*step.packs, *step.unpacks))
        yield from (layer.result.value for layer in step.layers if layer.result is not None)


def _require_same_ends(plan: Plan, graph: Graph) -> None:
    """Refuse a plan whose inputs or outputs are not those of the graph."""
    for what, ours, theirs in (
        ("inputs", tuple(plan.inputs), tuple(graph.inputs)),
        ("outputs", tuple(plan.outputs), tuple(graph.outputs)),
    ):
        if ours != theirs:
            raise DifferenceError(
                f"the plan's {what} are {', '.join(ours)}, and the graph's {', '.join(theirs)}"
            )
    for name in plan.outputs:
        if name in graph.constants:
            _require_same_constant(plan, graph, name, f"output {name}")


def _require_same_step(plan: Plan, graph: Graph, step: HostStep, node: Node | None) -> None:
    """Refuse a step on the host that is no operator of the graph."""
    who = f"{step.op} {step.name} on the host"
    if node is None:
        raise DifferenceError(f"{who} makes {', '.join(step.outputs)}, and no operator of the graph does")
    same = (node.op, node.inputs, dict(node.attributes)) == (step.op, step.inputs, step.attributes)
    if not same:
        raise DifferenceError(f"{who} is {node} in the graph, of other inputs or attributes")
    for name in step.inputs:
        if name in graph.constants:
            _require_same_constant(plan, graph, name, who)


def _require_same_constant(plan: Plan, graph: Graph, name: str, who: str) -> None:
    ours, theirs = plan.constants[name], graph.constants[name]
    if ours is not theirs and not (ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()):
        raise DifferenceError(f"{who} reads the constant {name}, which differs from the graph's")


def _dram(plan: Plan, placed: PlacedPlan, constants: NDArray[np.uint8]) -> Dram:
    """Return DRAM with the tensors of a plan as activations."""
    tensors = [placed.tensors[name] for name in plan.tensors]
    alignment = max(plan.config.element_bytes(memory) for memory in MemoryType)
    low = min((tensor.address for tensor in tensors), default=0) // alignment * alignment
    high = max((tensor.end for tensor in tensors), default=0)
    return Dram(constants, low, high, alignment)


def _segments(step: LaunchStep, stream: Stream, program: DecodedStream) -> Iterator[Segment]:
    """Yield the instructions of a stream in a legal order, divided after the last of each layer."""
    order = interleave(program).order
    rank = np.zeros(len(program), np.int64)
    rank[order] = np.arange(len(order))
    ends = sorted(
        (
            (int(rank[stream.labels[layer.label]].max(initial=0)), layer)
            for layer in step.layers
            if layer.label
        ),
        key=lambda end: end[0],
    )
    begin = 0
    for end, layer in ends:
        yield Segment(layer, order[begin : end + 1])
        begin = end + 1
    yield Segment(None, order[begin:])


def _require_own_stores(layer: Layer, stream: Stream, program: DecodedStream) -> None:
    """Refuse a layer that writes tensors other than its result and its scratch tensors."""
    own = {*layer.scratch, *(() if layer.result is None else (layer.result.tensor,))}
    members = stream.labels[layer.label]
    stores = members[program.opcode[members] == isa.Opcode.STORE]
    for name, positions in stream.tensors.items():
        strange = np.intersect1d(stores, positions)
        if name not in own and strange.size:
            raise DifferenceError(
                f"layer {layer.name} ({layer.op}): {program.describe(int(strange[0]))} writes the tensor "
                f"{name}, and the layer's result is in {', '.join(sorted(own)) or 'none'}"
            )
