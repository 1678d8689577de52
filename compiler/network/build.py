"""Linking: from placed operators and their programs to a module's streams, transfers and memory plan."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.codegen.choose import timing_of
from vdla.compiler.codegen.epilogue import Epilogue, tables_held
from vdla.compiler.codegen.normalising_stores import TABLES_OF_POWERS, Normal
from vdla.compiler.codegen.stream import emit_calls
from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.ir.nodes import Func, IrError
from vdla.compiler.layouts.joined import copied
from vdla.compiler.network.memory_plan import DramValues, Life, share
from vdla.compiler.network.partition import Part
from vdla.compiler.network.placed import Offloaded, OnHost, Piece, Stored
from vdla.compiler.operands.address_map import DENSE, Operand
from vdla.compiler.tasks.base import WEIGHTS, Task
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.sdram import AnyMemory, reference_like
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.arrays import digest
from vdla.runtime.host.dtypes import dtype_of
from vdla.runtime.host.onnx_runtime import PART
from vdla.runtime.module.plan import Crossing, HostStep, LaunchStep, Layer, Plan, Step, Value
from vdla.runtime.stream.builder import Stream, StreamBuilder
from vdla.runtime.stream.prefetch import Schedule, prefetch
from vdla.runtime.stream.repeats import without_repeats
from vdla.runtime.stream.weights import weights_of
from vdla.sim.decoded import DecodedStream, decode_stream
from vdla.sim.rows import dram_rows
from vdla.sim.timing.result import Timing

LEAST_LASTING = 4  # elements of weights, up to which a LOAD costs no more than the micro-kernels of a place
ROUNDS = 2  # of prefetch: each takes the waits of the stream of the round before


@dataclass(frozen=True, slots=True)
class Constants:
    """The tensors of a network's constants in DRAM.

    Attributes:
        tensors: the tensor that holds a constant, by the name of the tensor that only its operator has. The
            steps of an unrolled recurrence have equal weights, which are in DRAM once.
        lasting: tensors of weights that several operators read, and that stay on chip; none if WGT cannot
            hold all of them at once.
    """

    tensors: Mapping[str, str]
    lasting: frozenset[str]

    def of(self, operator: Offloaded, name: str) -> str | None:
        """Return the tensor of an operator's constant; None if the operator has no such constant."""
        return self.tensors.get(operator.tensor(name))


def constants_of(parts: Iterable[Part], config: AcceleratorConfig) -> Constants:
    """Return the tensors of the operators' constants. Constants of the same bytes and type share a tensor."""
    tensors, first = dict[str, str](), dict[tuple[str, str], str]()
    weights, shared = dict[str, int](), set[str]()
    for operator in operators_of(parts):
        for name, values in operator.constants.items():
            tensor = first.setdefault((values.dtype.str, digest(values)), operator.tensor(name))
            tensors[operator.tensor(name)] = tensor
            if name == WEIGHTS and values.nbytes > LEAST_LASTING * config.element_bytes(MemoryType.WGT):
                shared |= {tensor} & weights.keys()
                weights[tensor] = values.nbytes
    fit = sum(weights[tensor] for tensor in shared) <= config.wgt_buffer_bytes
    return Constants(tensors, frozenset(shared if fit else ()))


def operators_of(parts: Iterable[Part]) -> Iterator[Offloaded]:
    """Yield the operators on the accelerator, in order."""
    return (placed for part in parts for placed in part if isinstance(placed, Offloaded))


def build(
    graph: Graph,
    parts: list[Part],
    target: Target,
    programs: Mapping[Task, Func],
    constants: Constants,
    report: Callable[[Offloaded], None] = lambda operator: None,
) -> Plan:
    """Return the plan of a network from its placed operators.

    Args:
        programs: of every task of `parts`, as `vdla.compiler.codegen.stream.lowered_task` returns them.
        constants: of `parts`.
        report: called with each operator before its instructions are emitted.
    """
    return _Linker(graph, target, parts, programs, constants).plan(report)


class _Linker:
    """The values of a network in DRAM, and the streams recorded so far.

    Attributes:
        values: where each value lies.
        places, sizes: the place in DRAM of each tensor, and the bytes of each place.
        weights: constants in DRAM, by the name of their tensor.
        tables: number of the table on chip that was taken last.
    """

    def __init__(
        self,
        graph: Graph,
        target: Target,
        parts: list[Part],
        programs: Mapping[Task, Func],
        constants: Constants,
    ) -> None:
        self.graph, self.target, self.parts, self.programs = graph, target, parts, programs
        self.config = target.config
        self.values = DramValues(parts, graph.outputs, self.config)
        self.weights = self.constant_operands()
        self.places, self.sizes = share(self.lives())
        self.places |= {tensor: tensor for tensor in self.weights}
        self.constants = constants
        self.tables = 1

    def plan(self, report: Callable[[Offloaded], None]) -> Plan:
        """Return the plan; `report` is called with each operator of the accelerator before it is emitted."""
        steps: list[Step] = []
        streams: dict[str, Stream] = {}
        for number, part in enumerate(self.parts):
            on_host = [placed for placed in part if isinstance(placed, OnHost)]
            steps += [self.host_step(placed) for placed in on_host]
            if not on_host:
                name = f"launch{number}"
                streams[name] = self.stream(part, report)
                steps.append(self.launch(name, part, number, streams[name]))
        constants = {name: self.graph.constants[name] for name in self.host_constants()}
        inputs, outputs = (
            {name: _value(self.graph, name) for name in names}
            for names in (self.graph.inputs, self.graph.outputs)
        )
        name, places = self.graph.name, self.sizes
        return Plan(
            name,
            self.target,
            inputs,
            outputs,
            tuple(steps),
            streams,
            places,
            self.weights,
            constants,
            states=self.graph.states,
        )

    def constant_operands(self) -> dict[str, np.ndarray]:
        """Return the constants that operators read like other values, by their tensors."""
        return {
            self.values.operand(stored).tensor: stored.layout.pack(self.graph.constants[stored.value])
            for operator in operators_of(self.parts)
            for stored in operator.inputs.values()
            if stored.value in self.graph.constants
        }

    def lives(self) -> list[Life]:
        """Return the lifetime of each tensor, in steps; each operator on the accelerator is a step.

        A tensor that the host or another launch reads lives until the end of the last part that accesses it.
        """
        values = self.values
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        size: dict[str, int] = {}
        clock = 0
        for number, part in enumerate(self.parts):
            begin = clock
            for operator in part:
                if isinstance(operator, Offloaded):
                    for stored in (*operator.inputs.values(), operator.output):
                        for tensor in values.operand(stored).tensors:
                            if tensor in self.weights:
                                continue
                            first.setdefault(
                                tensor, begin if values.comes_in(stored.value, number) else clock
                            )
                            last[tensor] = clock
                            size[tensor] = max(size.get(tensor, 0), values.size(stored))
                    for name, needed in operator.scratch.items():
                        tensor = operator.tensor(name)
                        first[tensor] = last[tensor] = clock
                        size[tensor] = needed
                clock += 1
            for name in values.leaving[number]:
                if name in values.written:
                    last |= dict.fromkeys(values.operand(values.written[name]).tensors, clock)
            clock += 1
        return [Life(tensor, size[tensor], first[tensor], last[tensor]) for tensor in first]

    def host_constants(self) -> list[str]:
        """Return the constants that the host reads or that are outputs of the network."""
        used = [
            name
            for part in self.parts
            if isinstance(part[0], OnHost)
            for operator in part
            for name in operator.node.inputs
        ]
        return [name for name in dict.fromkeys((*used, *self.graph.outputs)) if name in self.graph.constants]

    def host_step(self, operator: OnHost) -> HostStep:
        """Return the step of an operator on the host."""
        node, uncounted = operator.node, tuple[str, ...]()
        if node.op == PART:
            from vdla.compiler.graph.onnx.part_macs import macs_of_part

            counts = macs_of_part(self.graph.constants[node.inputs[0]].tobytes())
            count, uncounted = counts.macs, counts.open
        else:
            count = macs(self.graph, node)
        name, attributes = node.name or node.result, dict(node.attributes)
        return HostStep(
            name, node.op, node.inputs, node.outputs, attributes, operator.reason, count, uncounted
        )

    def stream(self, part: Part, report: Callable[[Offloaded], None]) -> Stream:
        """Record the instructions of a part."""
        builder = StreamBuilder(self.config)
        for placed in part:
            if isinstance(placed, Offloaded):
                report(placed)
                if self.values.takes_instructions(placed):
                    self.emit(placed, builder)
        edit = without_repeats(builder.record, self.config)
        return with_prefetch(builder if edit is None else builder.edited(edit), self.target.memory)

    def launch(self, name: str, part: Part, number: int, stream: Stream) -> LaunchStep:
        """Return the step of a part: the values that cross between host and accelerator, and its layers. All
        values that the host or another launch reads cross to the host."""
        operators = [placed for placed in part if isinstance(placed, Offloaded)]
        read = dict.fromkeys(stored for operator in operators for stored in operator.inputs.values())
        packs = [self.crossing(each) for each in read if self.comes_in(each.value, number)]
        unpacks = [self.crossing(self.values.written[name]) for name in self.values.leaving[number]]
        return LaunchStep(name, tuple(packs), tuple(unpacks), self.layers(part, stream))

    def comes_in(self, name: str, number: int) -> bool:
        """Whether part `number` reads a value that the host or another launch makes."""
        return name not in self.graph.constants and self.values.comes_in(name, number)

    def crossing(self, stored: Stored) -> Crossing:
        """Return the transfer of a value between host and accelerator."""
        operand = self.operand(stored)
        begin = operand.begin * self.config.element_bytes(MemoryType.OUT)
        return Crossing(stored.value, operand.tensor, stored.layout, begin)

    def layers(self, part: Part, stream: Stream) -> tuple[Layer, ...]:
        """Return the layers of a part, with the bytes that their instructions load and store."""
        program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), stream.config)
        layers, read = [], set[str]()
        for placed in part:
            name, label = placed.node.name or placed.node.result, placed.node.result
            if isinstance(placed, Offloaded) and label in stream.labels:
                layers.append(self.layer(name, placed, program.part(stream.labels[label]), read))
            else:  # it needs no instruction
                layers.append(Layer(name, placed.node.op, "", 0, 0, 0, 0))
        return tuple(layers)

    def layer(self, name: str, operator: Offloaded, instructions: DecodedStream, read: set[str]) -> Layer:
        """Return the layer of an operator, whose instructions are given. A result in a layout that only the
        compiler knows counts as scratch memory.

        Args:
            read: tensors of the constants that layers before it read, to which its constants are added.
        """
        result = self.operand(operator.output)
        dense = result.address_map == DENSE
        scratch = [self.places[operator.tensor(name)] for name in operator.scratch]
        return Layer(
            name,
            operator.node.op,
            operator.node.result,
            operator.macs,
            _moved(instructions, isa.Load, isa.Gather),
            _moved(instructions, isa.Store, isa.Normalise),
            _activation_bytes(operator) + self.new_constants(operator, read),
            self.crossing(operator.output) if dense else None,
            tuple(scratch if dense else (*scratch, *result.tensors)),
        )

    def new_constants(self, operator: Offloaded, read: set[str]) -> int:
        """Return the bytes of the constants whose tensors are not in `read`, and add these to it."""
        sizes = {
            self.constants.tensors[operator.tensor(name)]: array.nbytes
            for name, array in operator.constants.items()
        }
        new = sizes.keys() - read
        read |= new
        return sum(sizes[tensor] for tensor in new)

    def emit(self, operator: Offloaded, builder: StreamBuilder) -> None:
        """Record the instructions of an operator."""
        builder.label(operator.node.result)
        constants = {name: self.constants.tensors[operator.tensor(name)] for name in operator.constants}
        self.weights |= {constants[name]: values for name, values in operator.constants.items()}
        lasting = tuple(tensor for tensor in constants.values() if tensor in self.constants.lasting)
        operands = {name: Operand(tensor) for name, tensor in constants.items()}
        operands |= {name: Operand(self.places[operator.tensor(name)]) for name in operator.scratch}
        operands |= {name: self.operand(stored) for name, stored in operator.inputs.items()}
        operands["Z"] = self.operand(operator.output)
        if operator.copied:
            operands["A"] = copied(operator, self.values.operand).renamed(self.places)
        for piece in operator.pieces:
            emit_calls(
                self.programs[piece.task],
                builder,
                _of_piece(piece, operands, self.config),
                self.with_next_table(operator.epilogue if piece.epilogue is None else piece.epilogue),
                lasting,
            )

    def operand(self, stored: Stored) -> Operand:
        """Return where a value lies in the places of DRAM."""
        return self.values.operand(stored).renamed(self.places)

    def with_next_table(self, epilogue: Epilogue) -> Epilogue:
        """Return an epilogue with the next tables on chip, so that loading a table does not wait for the
        preceding operator."""
        return replace(
            epilogue,
            inner=tuple(inner._replace(number=self.next_table()) for inner in epilogue.inner),
            table=self.next_table() if epilogue.table else 0,
            normal=self.with_next_powers(epilogue.normal),
        )

    def with_next_powers(self, normal: Normal | None) -> Normal | None:
        """Return a normalisation with the next place on chip for a table of powers."""
        if normal is None or not normal.has_powers:
            return normal
        return replace(normal, table=self.next_table(TABLES_OF_POWERS))

    def next_table(self, count: int = 1) -> int:
        """Return the number of the next table on chip with `count` - 1 others behind it."""
        if self.tables + count > tables_held(self.config):
            self.tables = 0
        first, self.tables = self.tables + 1, self.tables + count
        return first


@dataclass(frozen=True)
class _Run:
    """A recorded launch, its stream, and the cycles of its instructions.

    Attributes:
        numbers: int64[n], with which the instructions of the stream were recorded.
    """

    builder: StreamBuilder
    stream: Stream
    numbers: np.ndarray
    timing: Timing


def with_prefetch(builder: StreamBuilder, memory: AnyMemory) -> Stream:
    """Return the finished stream of what was recorded, or a stream with LOADs of weights moved that takes
    fewer cycles on `memory`."""
    best = _run(builder, memory)
    for _ in range(ROUNDS):
        moved = (_run(each, memory) for each in _with_moved_weights(best, memory))
        faster = next((run for run in moved if run.timing.cycles < best.timing.cycles), None)
        if faster is None:
            break
        best = faster
    return best.stream


def _with_moved_weights(run: _Run, memory: AnyMemory) -> Iterator[StreamBuilder]:
    """Yield builders in which LOADs of weights are recorded earlier: first with weights that may also move to
    other addresses in WGT, then with weights at their original addresses. Other addresses need more
    micro-kernels, whose loads cost more than they save if the latency of DRAM is high."""
    schedule = _schedule(run.timing, run.numbers, reference_like(memory, run.builder.config))
    weights = weights_of(run.builder.record, run.builder.config)
    for renames in (True, False):
        moved = prefetch(run.builder, weights, schedule, renames=renames)
        if moved is not None:
            yield moved


def _run(builder: StreamBuilder, memory: AnyMemory) -> _Run:
    stream, numbers = builder.numbered()
    return _Run(builder, stream, numbers, timing_of(stream, memory, log=True))


def _schedule(timing: Timing, numbers: np.ndarray, memory: MemoryParameters) -> Schedule:
    """Return the cycles of recorded instructions; `numbers`: of the instructions that ran."""
    recorded, bursts = numbers >= 0, timing.logged.bursts
    started, retired, requested = np.zeros((3, int(numbers.max()) + 1), np.int64)
    started[numbers[recorded]], retired[numbers[recorded]] = (
        timing.started[recorded],
        timing.retired[recorded],
    )
    of_transfers = bursts[bursts["instruction"] >= 0]
    owners = numbers[of_transfers["instruction"]]
    np.maximum.at(requested, owners[owners >= 0], of_transfers["taken"][owners >= 0] + 1)
    begins, ends = bursts["first"].copy(), bursts["last"] + memory.cycles_per_beat
    return Schedule(started, retired, requested, begins, ends, memory.cycles_per_beat, memory.latency)


def _of_piece(piece: Piece, operands: Mapping[str, Operand], config: AcceleratorConfig) -> dict[str, Operand]:
    """Return the DRAM operands of a piece, by the parameters of its program."""
    begun = {place: operands[name].after(begin) for place, (name, begin) in piece.operands.items()}
    named = {**operands, **begun}
    maps = piece.task.address_maps(config)
    mapped = [name for name in maps if named[name].address_map != DENSE]
    if mapped:
        raise IrError(
            f"operand {mapped[0]} of {piece.task} has the address map {named[mapped[0]].address_map} and "
            f"the task has {maps[mapped[0]]}, so its elements would be mapped twice; the rule of the layout "
            "must not give it to operands of this task"
        )
    return {**named, **{name: replace(named[name], address_map=maps[name]) for name in maps}}


def _value(graph: Graph, name: str) -> Value:
    return Value(graph.types[name].shape, dtype_of(graph.types[name].dtype))


def _activation_bytes(operator: Offloaded) -> int:
    """Return the bytes of the activations that an operator reads and writes in DRAM, each counted once; a
    value that is read in several layouts counts in the largest."""
    values: dict[str, int] = {}
    for stored in (*operator.inputs.values(), operator.output):
        values[stored.value] = max(values.get(stored.value, 0), stored.layout.size)
    return sum(values.values())


def _moved(program: DecodedStream, *forms: type[isa.Instruction]) -> int:
    """Return the bytes of DRAM that instructions of these forms access."""
    transfers = [dram_rows(program, form) for form in forms]
    return sum(int((rows.width * rows.count).sum()) for rows in transfers)
