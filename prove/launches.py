"""The first half of a proof: each step of a plan computes its part of the target-level graph."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph.nodes import Graph, Node
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.vocabulary import MemoryType
from vdla.prove.domain import Domain
from vdla.prove.elements import Elements
from vdla.prove.kernels import mark_different
from vdla.prove.machine import StreamMachine, require_covered
from vdla.prove.memory import NO_WRITER, Dram, Lanes, spare_bytes
from vdla.prove.proof import LayerProof
from vdla.prove.reference import DemandedValues, ValuesAhead
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.layout import IMAGE_RANK, Layout
from vdla.runtime.module.plan import Crossing, HostStep, LaunchStep, Layer, Plan
from vdla.runtime.session.placement import PlacedPlan, place_plan
from vdla.runtime.stream.builder import Stream
from vdla.sim.decoded import DecodedStream
from vdla.sim.interleave import interleave

Indices = NDArray[np.int64]
BASE = 1 << 40
"""Numbers of the values in a packed tensor begin here, so that they differ from the bytes of its padding."""
KNOWN_LAYOUTS = 64
MOST_COMPARED = 40
MOST_SHOWN = 3


@dataclass(frozen=True, eq=False)
class WrongElement:
    """An element of a value that a launch computes otherwise than the graph.

    Attributes:
        stream: of the launch.
        value, index: the element, in the graph's shape.
        place: of its byte among the bytes of activations.
        writer: instruction that wrote it; NO_WRITER if there is none.
        program: the stream, placed in DRAM.
        order: its instructions up to the end of the layer, in a legal order.
        standing: values of the graph that are in DRAM before the layer.
        placed: the plan in DRAM.
    """

    stream: str
    value: str
    index: tuple[int, ...]
    place: int
    writer: int
    program: DecodedStream
    order: tuple[int, ...]
    standing: frozenset[str]
    placed: PlacedPlan


class DifferenceError(VdlaError):
    """A plan and a graph differ.

    Attributes:
        wrong: the first element that differs; None if the difference is no element.
    """

    def __init__(self, message: str, wrong: WrongElement | None = None) -> None:
        super().__init__(message)
        self.wrong = wrong


MachineOf = Callable[[str, AcceleratorConfig, Domain, Dram], StreamMachine]
"""Returns the machine that interprets the stream of a name."""


def plain_machine(stream: str, config: AcceleratorConfig, domain: Domain, dram: Dram) -> StreamMachine:
    """Return a machine that notes nothing."""
    return StreamMachine(config, domain, dram)


@dataclass(frozen=True)
class LayerEnd:
    """The end of a layer in a stream.

    Attributes:
        layer: None behind the last layer.
        order: the instructions from the end of the layer before on, in a legal order.
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
        machine_of: returns the machine for each stream.

    Attributes:
        layers: the layers that have been compared.
    """

    def __init__(
        self,
        domain: Domain,
        plan: Plan,
        graph: Graph,
        progress: Callable[[str], None] = lambda text: None,
        machine_of: MachineOf = plain_machine,
    ) -> None:
        self._domain, self._plan, self._graph, self._progress = domain, plan, graph, progress
        self._machine_of, self._standing = machine_of, {*plan.inputs}
        self._values = DemandedValues(domain, graph, _uses(plan))
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
        dram = _dram(self._domain, plan, placed, device.dram)
        nodes = {node.outputs: node for node in self._graph.nodes}
        known = {*plan.inputs, *self._graph.constants}
        for step in plan.steps:
            _require_known(step, known)
            if isinstance(step, HostStep):
                _require_same_step(plan, self._graph, step, nodes.get(step.outputs))
                known |= set(step.outputs)
            else:
                _LaunchProof(self, step, placed, dram).run()
                known |= {crossing.value for crossing in step.unpacks}
        missing = [name for name in plan.outputs if name not in known]
        if missing:
            raise DifferenceError(f"no step of the plan makes the output {missing[0]}")


class _LaunchProof:
    """The comparison of a launch."""

    def __init__(self, proof: StreamProof, step: LaunchStep, placed: PlacedPlan, dram: Dram) -> None:
        self.step, self.placed, self.dram, self.layers = step, placed, dram, proof.layers
        self.domain, self.progress = proof._domain, proof._progress
        self.stream = proof._plan.streams[step.stream]
        self.program = placed.launches[step.stream].program()
        placed.launches[step.stream].verify(self.program)
        self.ends = list(_layer_ends(step, self.stream, self.program))
        self.values = ValuesAhead(proof._values, _values_of(step, self.ends))
        self.machine = proof._machine_of(step.stream, proof._plan.config, self.domain, dram)
        self.standing, self.order = proof._standing, list[int]()

    def run(self) -> None:
        """Run the stream layer by layer, and compare the result of each. A thread computes the values of the
        graph meanwhile."""
        self.dram.writers[:] = NO_WRITER  # instructions of this stream are counted
        with self.values:
            self.run_layers()

    def run_layers(self) -> None:
        """Run the stream layer by layer."""
        for crossing in self.step.packs:
            self.pack(crossing)
            self.standing.add(crossing.value)
        for end in self.ends:
            if end.layer is not None:
                self.progress(f"{self.step.stream}: {end.layer.name}")
                _require_own_stores(end.layer, self.stream, self.program)
            self.order += end.order.tolist()
            self.machine.run(self.program, end.order.tolist())
            if end.layer is not None and end.layer.result is not None:
                self.compare(end.layer, end.layer.result)
                self.standing.add(end.layer.result.value)
        for crossing in self.step.unpacks:
            self.require_equal(crossing, f"{self.step.stream}, what it hands over")

    def pack(self, crossing: Crossing) -> None:
        """Copy a value into DRAM."""
        value = self.values.take(crossing.value)
        positions = positions_of(crossing.layout)
        elements = self.domain.constants(positions.padding)
        elements[positions.bytes] = value.reshape(-1)[positions.numbers]
        beyond = f"what fills up the batch of {crossing.value} in {self.step.stream}"
        elements[positions.beyond] = self.domain.fresh(beyond, positions.beyond.shape)
        lanes = Lanes(elements[:, None], self.domain.values(elements).residues[..., None])
        self.dram.write(self.address(crossing), lanes)

    def address(self, crossing: Crossing) -> int:
        """Return the address of a value in DRAM."""
        return self.placed.tensors[crossing.tensor].address + crossing.begin

    def value(self, crossing: Crossing) -> Elements:
        """Return a value of the graph that stands in DRAM in some layout."""
        value = self.values.take(crossing.value)
        if value.shape != crossing.layout.shape:
            raise DifferenceError(
                f"{self.step.stream} has {crossing.value} of shape {list(crossing.layout.shape)}, and in the "
                f"graph it has {list(value.shape)}"
            )
        return value

    def compare(self, layer: Layer, result: Crossing) -> None:
        """Compare the result of a layer."""
        size = len(positions_of(result.layout).numbers)
        self.layers.append(LayerProof(layer.name, layer.op, self.step.stream, size, False))
        self.require_equal(result, f"{self.step.stream}, layer {layer.name} ({layer.op})")
        self.layers[-1] = replace(self.layers[-1], proved=True)

    def require_equal(self, crossing: Crossing, what: str) -> None:
        """Refuse a value that differs from the graph's.

        Raises:
            DifferenceError: it does; the message begins with `what`, and describes the first element.
        """
        expected, positions = self.value(crossing), positions_of(crossing.layout)
        if not positions.is_whole:
            raise DifferenceError(f"{what}: its layout leaves out elements of {crossing.value}")
        places = self.address(crossing) - self.dram.low + positions.bytes
        differs, flat = np.empty(len(places), bool), np.ascontiguousarray(expected).reshape(-1)
        mark_different(self.dram.elements, places, flat, positions.numbers, differs)
        wrong = np.flatnonzero(differs)
        if not wrong.size:
            return
        first = wrong[np.argmin(positions.numbers[wrong])]
        index = tuple(int(place) for place in np.unravel_index(positions.numbers[first], expected.shape))
        writer = int(self.dram.writers[places[first]])
        by = "no instruction wrote" if writer == NO_WRITER else f"{self.program.describe(writer)} wrote"
        raise DifferenceError(
            f"{what}: element {list(index)} of {crossing.value} differs, which {by}; {wrong.size:,} of "
            f"{expected.size:,} elements differ{self._suspects(places[wrong], np.delete(places, wrong))}",
            self._wrong_element(crossing.value, index, int(places[first]), writer),
        )

    def _wrong_element(self, value: str, index: tuple[int, ...], place: int, writer: int) -> WrongElement:
        standing, order = frozenset(self.standing), tuple(self.order)
        return WrongElement(
            self.step.stream, value, index, place, writer, self.program, order, standing, self.placed
        )

    def _suspects(self, wrong: Indices, right: Indices) -> str:
        """Describe the instructions that computed every wrong byte that was looked at, and no right byte of
        as many; these instructions are the first to look at."""
        common, others = (
            [self._computing(place) for place in part[:MOST_COMPARED]] for part in (wrong, right)
        )
        suspects = set.intersection(*common) - set().union(*others) if common else set()
        named = sorted(suspects or (common[0] if common else ()))
        if not named:
            return ""
        shown = "; ".join(self.program.describe(index) for index in named[:MOST_SHOWN])
        more = f"; and {len(named) - MOST_SHOWN} others" if len(named) > MOST_SHOWN else ""
        return (
            f"; what computed only such elements: {shown}{more}"
            if suspects
            else f"; computed by {shown}{more}"
        )

    def _computing(self, place: int) -> set[int]:
        """Return the instructions that computed a byte of activations."""
        writer = int(self.dram.writers[place])
        if writer == NO_WRITER:
            return set()
        size = self.machine.config.element_bytes(MemoryType.OUT)
        return {writer, *self.machine.contributors(writer, self.program, int(place) // size)}


def _uses(plan: Plan) -> Iterator[str]:
    """Yield the values of the graph that the comparison of a plan asks for, once for each time."""
    for step in plan.launches:
        yield from (crossing.value for crossing in (*step.packs, *step.unpacks))
        yield from (layer.result.value for layer in step.layers if layer.result is not None)


def _require_same_ends(plan: Plan, graph: Graph) -> None:
    """Refuse a plan whose inputs or outputs differ from the graph's."""
    inputs = {name: (value.shape, value.dtype) for name, value in plan.inputs.items()}
    expected = {name: (type_.shape, type_.dtype) for name, type_ in graph.inputs.items()}
    for what, ours, theirs in (
        ("inputs", inputs, expected),
        ("outputs", list(plan.outputs), list(graph.outputs)),
    ):
        if ours != theirs:
            raise DifferenceError(f"the plan's {what} are {ours}, and the graph's {theirs}")
    for name in plan.outputs:
        if name in graph.constants:
            _require_same_constant(plan, graph, name, f"output {name}")


def _require_known(step: HostStep | LaunchStep, known: set[str]) -> None:
    """Refuse a step that reads what no step before has made."""
    names = step.inputs if isinstance(step, HostStep) else [crossing.value for crossing in step.packs]
    for name in names:
        if name and name not in known:
            who = step.name if isinstance(step, HostStep) else step.stream
            raise DifferenceError(f"{who} reads {name}, which no step before makes")


def _require_same_step(plan: Plan, graph: Graph, step: HostStep, node: Node | None) -> None:
    """Refuse a step on the host that is no operator of the graph."""
    who = f"{step.op} {step.name} on the host"
    if node is None:
        raise DifferenceError(f"{who} makes {', '.join(step.outputs)}, and no operator of the graph does")
    if (node.op, node.inputs, dict(node.attributes)) != (step.op, step.inputs, step.attributes):
        raise DifferenceError(f"{who} is {node} in the graph, of other inputs or attributes")
    for name in step.inputs:
        if name in graph.constants:
            _require_same_constant(plan, graph, name, who)


def _require_same_constant(plan: Plan, graph: Graph, name: str, who: str) -> None:
    ours, theirs = plan.constants.get(name), graph.constants[name]
    if ours is theirs:
        return
    if ours is None or (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        raise DifferenceError(f"{who} reads the constant {name}, which is of another type in the graph")
    if ours.tobytes() != theirs.tobytes():
        raise DifferenceError(f"{who} reads the constant {name}, which has other values in the graph")


def _dram(domain: Domain, plan: Plan, placed: PlacedPlan, constants: NDArray[np.uint8]) -> Dram:
    """Return DRAM with the tensors of a plan as activations."""
    tensors = [placed.tensors[name] for name in plan.tensors]
    alignment = max(plan.config.element_bytes(memory) for memory in MemoryType)
    low = min((tensor.address for tensor in tensors), default=0) // alignment * alignment
    high = max((tensor.end for tensor in tensors), default=0)
    return Dram(domain, constants, low, high, alignment, spare_bytes(plan.config))


def _layer_ends(step: LaunchStep, stream: Stream, program: DecodedStream) -> Iterator[LayerEnd]:
    """Yield the instructions of a stream in a legal order, divided after the last of each layer."""
    order = interleave(program).order
    rank = np.zeros(len(program), np.int64)
    rank[order] = np.arange(len(order))
    last = [
        (int(rank[stream.labels[layer.label]].max(initial=0)), layer) for layer in step.layers if layer.label
    ]
    begin = 0
    for end, layer in sorted(last, key=lambda each: each[0]):
        yield LayerEnd(layer, order[begin : end + 1])
        begin = end + 1
    yield LayerEnd(None, order[begin:])


def _values_of(step: LaunchStep, ends: Iterable[LayerEnd]) -> Iterator[str]:
    """Yield the values of the graph that the comparison of a launch takes, in order."""
    yield from (crossing.value for crossing in step.packs)
    layers = (end.layer for end in ends if end.layer is not None)
    yield from (layer.result.value for layer in layers if layer.result is not None)
    yield from (crossing.value for crossing in step.unpacks)


def _require_own_stores(layer: Layer, stream: Stream, program: DecodedStream) -> None:
    """Refuse a layer that writes tensors other than its result and its scratch tensors."""
    allowed = {*layer.scratch, *(() if layer.result is None else (layer.result.tensor,))}
    members = stream.labels[layer.label]
    is_own_store = np.zeros(len(program), bool)
    is_own_store[members] = program.opcode[members] == isa.Opcode.STORE
    for name, positions in stream.tensors.items():
        strange = positions[is_own_store[positions]]
        if name not in allowed and strange.size:
            raise DifferenceError(
                f"layer {layer.name} ({layer.op}): {program.describe(int(strange[0]))} writes the tensor "
                f"{name}, and the layer's result is in {', '.join(sorted(allowed)) or 'none'}"
            )


@dataclass(frozen=True)
class Positions:
    """Where the elements of a tensor stand in DRAM.

    Attributes:
        size: bytes of the tensor in DRAM.
        bytes, numbers: int64[n], the place of each byte that holds a value, and the number of the value.
        padding: int8[size], the bytes that hold none.
        beyond: int64[m], the bytes of images, or rows, behind the last, which fill up a batch. Nothing may
            depend on them.
        is_whole: whether every element of the tensor stands in DRAM.
    """

    size: int
    bytes: Indices
    numbers: Indices
    padding: NDArray[np.int8]
    beyond: Indices
    is_whole: bool


@lru_cache(KNOWN_LAYOUTS)
def positions_of(layout: Layout) -> Positions:
    """Return where the elements of a tensor stand in a layout."""
    numbers = np.arange(prod(layout.shape), dtype=np.int64).reshape(layout.shape)
    packed = layout.pack(numbers + BASE).reshape(-1)
    held = packed >= BASE
    padding = np.where(held, 0, packed).astype(np.int8)
    stands = packed[held] - BASE
    is_whole = bool(np.bincount(stands, minlength=numbers.size).all())
    return Positions(len(packed), np.flatnonzero(held), stands, padding, _beyond(layout), is_whole)


def _beyond(layout: Layout) -> Indices:
    """Return the bytes of images, or rows, behind the last."""
    if layout.batch == 1:
        return np.zeros(0, np.int64)
    outer, _, high, _, batch, _ = layout.blocks
    is_image = len(layout.shape) == IMAGE_RANK
    first = np.arange(outer).reshape(-1, 1, 1, 1, 1, 1) if is_image else np.arange(high).reshape(-1, 1, 1, 1)
    number = first * batch + np.arange(batch).reshape(-1, 1)
    count = layout.image[0] if is_image else prod(layout.shape[:-1])
    return np.flatnonzero(np.broadcast_to(number >= count, layout.blocks))
