"""Linking: from placed operators and their programs to a module's streams, transfers and memory plan."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from vdla.compiler.codegen.epilogue import Epilogue
from vdla.compiler.codegen.stream import emit_calls
from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.ir.nodes import Func
from vdla.compiler.network.memory_plan import Flow, Life, Stored, segments_of_copies, share
from vdla.compiler.network.partition import Part
from vdla.compiler.network.placed import Offloaded, OnHost, Piece
from vdla.compiler.operands.address_map import DENSE, Operand, Packed
from vdla.compiler.operands.segments import Joined
from vdla.compiler.tasks.base import Task
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.host.dtypes import dtype_of
from vdla.runtime.host.onnx_runtime import PART
from vdla.runtime.layout import Layout
from vdla.runtime.module.plan import Crossing, HostStep, LaunchStep, Layer, Plan, Step, Value
from vdla.runtime.stream.builder import Stream, StreamBuilder
from vdla.sim.decoded import DecodedStream, decode_stream
from vdla.sim.rows import dram_rows


def build(
    graph: Graph,
    parts: list[Part],
    target: Target,
    programs: Mapping[Task, Func],
    report: Callable[[Offloaded], None] = lambda one: None,
) -> Plan:
    """Return the plan of a network from its placed operators.

    Args:
        programs: of every task of `parts`, as `vdla.compiler.codegen.stream.lowered_task` returns them.
        report: called with each operator before its instructions are emitted.
    """
    return _Linker(graph, target, parts, programs).plan(report)


class _Linker:
    """The values of a network in DRAM, and the streams recorded so far.

    Attributes:
        flow: the parts that make and read each value.
        viewed: the stored tensor of each result of a View.
        segments: for each value that no instruction writes, the tensors that hold its elements.
        places, sizes: the place in DRAM of each tensor, and the bytes of each place.
        weights: constants in DRAM, by the name of their tensor.
        tables: number of tables used so far.
    """

    def __init__(
        self, graph: Graph, target: Target, parts: list[Part], programs: Mapping[Task, Func]
    ) -> None:
        self.graph, self.target, self.parts, self.programs = graph, target, parts, programs
        self.config = target.config
        self.flow = Flow(parts, graph.outputs)
        self.viewed: dict[str, Stored] = {}
        for name, before in self.flow.views.items():
            self.viewed[name] = self.stored(before, self.flow.layouts[before])
        same_elements = self.config.block_in == self.config.block_out  # of all programs that read segments
        self.segments = segments_of_copies(parts, self.flow) if same_elements else {}
        self.places, self.sizes = share(self.lives())
        self.weights: dict[str, np.ndarray] = {}
        self.tables = 0

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
        return Plan(
            self.graph.name,
            self.target,
            inputs,
            outputs,
            tuple(steps),
            streams,
            self.sizes,
            self.weights,
            constants,
        )

    # Values

    def stored(self, name: str, layout: Layout) -> Stored:
        """Return the stored tensor of a value in a layout. A view in its usual layout is its source's
        tensor."""
        current = self.flow.layouts.get(name)
        if (
            name in self.viewed
            and current is not None
            and (current.block, current.stack) == (layout.block, layout.stack)
        ):
            return self.viewed[name]
        return Stored(name, layout.block, layout.space_to_depth, layout.windows, layout.stack)

    def holders(self, name: str, layout: Layout) -> list[Stored]:
        """Return the tensors that hold a value: several if the value consists of segments."""
        segments = self.segments.get(self.flow.origin(name))
        if segments is None:
            return [self.stored(name, layout)]
        return [Stored(segment.tensor, layout.block) for segment in segments]

    def scratch_tensor(self, operator: Offloaded, name: str) -> Stored:
        """Return a scratch tensor of an operator."""
        return Stored(f"{operator.node.result}.{name}", self.config.block_out)

    def lives(self) -> list[Life]:
        """Return the lifetime of each tensor, in steps; each operator on the accelerator is a step.

        A tensor that the host or another launch reads lives until the end of the last part that accesses it.
        """
        first: dict[Stored, int] = {}
        last: dict[Stored, int] = {}
        size: dict[Stored, int] = {}
        holding: dict[str, list[Stored]] = {}  # by value
        clock = 0
        for number, part in enumerate(self.parts):
            begin = clock
            for operator in part:
                if isinstance(operator, Offloaded):
                    for name, layout in (*operator.inputs.values(), operator.output):
                        alone = self.flow.origin(name) not in self.segments
                        for tensor in self.holders(name, layout):
                            if tensor not in first:
                                first[tensor] = begin if self.flow.comes_in(name, number) else clock
                                holding.setdefault(tensor.value, []).append(tensor)
                            last[tensor] = clock
                            size[tensor] = max(size.get(tensor, 0), layout.size if alone else 0)
                    for name, needed in operator.scratch.items():
                        tensor = self.scratch_tensor(operator, name)
                        first[tensor] = last[tensor] = clock
                        size[tensor] = needed
                clock += 1
            for name in self.flow.leaving[number]:
                last |= dict.fromkeys(holding.get(self.flow.origin(name), ()), clock)
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
        node, attributes, count, uncounted = (
            operator.node,
            dict(operator.node.attributes),
            0,
            tuple[str, ...](),
        )
        if node.op == PART:
            from vdla.compiler.graph.onnx.part_macs import macs_of_part

            counts = macs_of_part(self.graph.constants[node.inputs[0]].tobytes())
            count, uncounted = counts.macs, counts.open
        else:
            count = macs(self.graph, node)
        name = node.name or node.result
        return HostStep(
            name, node.op, node.inputs, node.outputs, attributes, operator.reason, count, uncounted
        )

    # Launches

    def stream(self, part: Part, report: Callable[[Offloaded], None]) -> Stream:
        """Record the instructions of a part."""
        builder = StreamBuilder(self.config)
        for placed in part:
            if isinstance(placed, Offloaded):
                report(placed)
                if placed.output[0] not in self.segments:
                    self.emit(placed, builder)
        return builder.finish()

    def launch(self, name: str, part: Part, number: int, stream: Stream) -> LaunchStep:
        """Return the step of a part: the values that cross between host and accelerator, and its layers."""
        packs = {}
        for placed in part:
            if isinstance(placed, Offloaded):
                for value, layout in placed.inputs.values():
                    if self.flow.comes_in(value, number):
                        packs[self.stored(value, layout)] = Crossing(value, self.place(value, layout), layout)
        return LaunchStep(name, tuple(packs.values()), self.unpacks(number), self.layers(part, stream))

    def layers(self, part: Part, stream: Stream) -> tuple[Layer, ...]:
        """Return the layers of a part, with the bytes that their instructions load and store."""
        program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), stream.config)
        layers = []
        for placed in part:
            name = placed.node.name or placed.node.result
            if isinstance(placed, Offloaded) and placed.node.result in stream.labels:
                instructions = program.part(stream.labels[placed.node.result])
                layers.append(self.layer(name, placed, instructions))
            else:  # it needs no instruction
                layers.append(Layer(name, placed.node.op, "", 0, 0, 0))
        return tuple(layers)

    def layer(self, name: str, operator: Offloaded, instructions: DecodedStream) -> Layer:
        """Return the layer of an operator, whose instructions are given."""
        value, layout = operator.output
        return Layer(
            name,
            operator.node.op,
            operator.node.result,
            operator.macs,
            _moved(instructions, isa.Load, isa.Gather),
            _moved(instructions, isa.Store),
            Crossing(value, self.place(value, layout), layout),
            tuple(self.places[self.scratch_tensor(operator, name)] for name in operator.scratch),
        )

    def emit(self, operator: Offloaded, builder: StreamBuilder) -> None:
        """Record the instructions of an operator."""
        label = operator.node.result
        builder.label(label)
        for parameter, values in operator.constants.items():
            self.weights[f"{label}.{parameter}"] = values
        operands = self.operands(operator)
        for piece in operator.pieces:
            emit_calls(
                self.programs[piece.task],
                builder,
                _of_piece(piece, operands, self.config),
                self.with_next_table(operator.epilogue if piece.epilogue is None else piece.epilogue),
            )

    def operands(self, operator: Offloaded) -> dict[str, Operand]:
        """Return the DRAM operands of an operator, by parameter."""
        operands = {name: Operand(f"{operator.node.result}.{name}") for name in operator.constants}
        operands |= {
            name: Operand(self.places[self.scratch_tensor(operator, name)]) for name in operator.scratch
        }
        operands |= {
            parameter: self.operand(name, layout) for parameter, (name, layout) in operator.inputs.items()
        }
        return {**operands, "Z": Operand(self.place(*operator.output))}

    def operand(self, name: str, layout: Layout) -> Operand:
        """Return the DRAM operand of a value that an operator reads."""
        segments = self.segments.get(self.flow.origin(name))
        if segments is not None:
            tensors = [self.places[Stored(each.tensor, layout.block)] for each in segments]
            placed = [replace(each, tensor=to) for each, to in zip(segments, tensors, strict=True)]
            return Operand(tensors[0], address_map=Joined(tuple(placed)))
        packed = DENSE if layout.windows is None else Packed(layout.windows)
        return Operand(self.place(name, layout), address_map=packed)

    def with_next_table(self, epilogue: Epilogue) -> Epilogue:
        """Return an epilogue with the next table on chip, so that loading a table does not wait for the
        preceding operator."""
        if not epilogue.table:
            return epilogue
        held = self.config.depth(MemoryType.TABLE) // isa.TABLE_ELEMENTS
        self.tables += 1
        return replace(epilogue, table=1 + self.tables % min(held, isa.MOST_TABLES))

    def place(self, name: str, layout: Layout) -> str:
        """Return the DRAM tensor that holds a value in a layout."""
        return self.places[self.stored(name, layout)]

    def unpacks(self, number: int) -> tuple[Crossing, ...]:
        """Return the values of part `number` that the host or another launch reads; all of them cross to the
        host."""
        return tuple(
            Crossing(name, self.place(name, self.flow.layouts[name]), self.flow.layouts[name])
            for name in self.flow.leaving[number]
        )


def _of_piece(piece: Piece, operands: Mapping[str, Operand], config: AcceleratorConfig) -> dict[str, Operand]:
    """Return the DRAM operands of a piece, by the parameters of its program."""
    named = {**operands, **{parameter: operands[name] for parameter, name in piece.names.items()}}
    begins = {**piece.begins, "Z": piece.begin}
    named |= {name: replace(named[name], begin=begin) for name, begin in begins.items()}
    maps = piece.task.address_maps(config)
    dense = [name for name in maps if named[name].address_map == DENSE]
    return {**named, **{name: replace(named[name], address_map=maps[name]) for name in dense}}


def _value(graph: Graph, name: str) -> Value:
    return Value(graph.types[name].shape, dtype_of(graph.types[name].dtype))


def _moved(program: DecodedStream, *forms: type[isa.Instruction]) -> int:
    """Return the bytes of DRAM that instructions of these forms access."""
    transfers = [dram_rows(program, form) for form in forms]
    return sum(int((rows.width * rows.count).sum()) for rows in transfers)
