"""The load engine: strided, padded 2-D copies from DRAM into scratchpads, several in flight."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from vdla.hw.bursts import BurstCutter
from vdla.hw.layouts import decode
from vdla.hw.queue import Queue
from vdla.hw.signatures import instruction_stream, lanes, read_stream, request_stream, scratchpad_write
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.timing import LOADS_IN_PROGRESS
from vdla.hw.spec.vocabulary import INSTRUCTION_BITS, SRAM_BASE_BITS, Extension, MemoryType


def scratchpads(memories: tuple[MemoryType, ...]) -> tuple[MemoryType, ...]:
    """Return the scratchpads that loads of `memories` write; ACC_8BIT writes ACC."""
    return tuple(memory for memory in memories if memory is not MemoryType.ACC_8BIT)


class RequestHalf(wiring.Component):
    """Request the rows of one LOAD from DRAM.

    Parameters:
        config: the accelerator.
        memories: the memory types that its LOADs may name.

    Members:
        instruction: a LOAD whose rows to request.
        request: its bursts.
        idle: nothing left to request.

    Timing: the first burst is offered in the cycle after the instruction is taken, then one per accepted
    burst, row after row. The next instruction can be taken in the cycle in which the last burst is accepted.
    """

    def __init__(self, config: AcceleratorConfig, memories: tuple[MemoryType, ...]) -> None:
        self.config = config
        self.memories = memories
        super().__init__(
            {"instruction": In(instruction_stream()), "request": Out(request_stream(config)), "idle": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        row_bits = 16 + max(exact_log2(self.config.element_bytes(memory)) for memory in self.memories)
        active = Signal()
        address, row = Signal(self.config.address_bits), Signal(self.config.address_bits)
        remaining, width, stride, rows = Signal(row_bits), Signal(row_bits), Signal(row_bits), Signal(16)
        m.submodules.cutter = cutter = BurstCutter(self.config, row_bits)
        accepted = active & self.request.ready
        row_ends = cutter.size == remaining
        ends = accepted & row_ends & (rows == 1)
        m.d.comb += [
            cutter.address.eq(address),
            cutter.remaining.eq(remaining),
            self.request.valid.eq(active),
            self.request.payload.address.eq(cutter.first_beat),
            self.request.payload.beats.eq(cutter.beats),
            self.instruction.ready.eq(~active | ends),
            self.idle.eq(~active),
        ]
        with m.If(accepted):
            m.d.sync += [address.eq(address + cutter.size), remaining.eq(remaining - cutter.size)]
            with m.If(row_ends):
                m.d.sync += [
                    address.eq(row + stride),
                    row.eq(row + stride),
                    remaining.eq(width),
                    rows.eq(rows - 1),
                ]
        with m.If(ends):
            m.d.sync += active.eq(0)
        with m.If(self.instruction.valid & self.instruction.ready):
            self._latch(m, active, (address, row), (remaining, width), stride, rows)
        return m

    def _latch(
        self,
        m: Module,
        active: Signal,
        addresses: tuple[Signal, ...],
        widths: tuple[Signal, ...],
        stride: Signal,
        rows: Signal,
    ) -> None:
        load = decode(isa.Load, self.config, self.instruction.payload)
        m.d.sync += [active.eq((load.x_size != 0) & (load.y_size != 0)), rows.eq(load.y_size)]
        with m.Switch(load.memory_type):
            for memory in self.memories:
                shift = exact_log2(self.config.element_bytes(memory))
                with m.Case(memory):
                    m.d.sync += [
                        *(address.eq(load.dram_base << shift) for address in addresses),
                        *(width.eq(load.x_size << shift) for width in widths),
                        stride.eq(load.x_stride << shift),
                    ]


class WriteHalf(wiring.Component):
    """Write pads and read beats into scratchpads, in order.

    Parameters:
        config: the accelerator.
        memories: the memory types that its LOADs may name.

    Members:
        instruction: the LOAD being written; taken with its last step.
        hold: make no step in this cycle.
        read_data: beats in the order of the requests.
        inp, wgt, uop, acc: write ports of the scratchpads concerned.
        retire: the instruction ends in this cycle.
        step: a write, or the end of an instruction that writes nothing.
        overrun: a write's index is past the end of its scratchpad (it wraps).
        beats: a beat is taken for that scratchpad.

    Timing: one step per cycle: a pad element, or one beat (one element of it, if it holds several).
    """

    def __init__(self, config: AcceleratorConfig, memories: tuple[MemoryType, ...]) -> None:
        self.config = config
        self.memories = memories
        pads = scratchpads(memories)
        super().__init__(
            {
                "instruction": In(instruction_stream()),
                "hold": In(1),
                "read_data": In(read_stream(config)),
                **{memory.name.lower(): Out(scratchpad_write(config, memory)) for memory in pads},
                "retire": Out(1),
                "step": Out(1),
                "overrun": Out(1),
                "beats": Out(data.StructLayout({memory.name.lower(): 1 for memory in pads})),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._load = load = decode(isa.Load, self.config, self.instruction.payload)
        self._walk(m, load)
        index = Signal(SRAM_BASE_BITS + 2)
        m.d.comb += index.eq(load.sram_base + self._offset)
        with m.Switch(load.memory_type):
            for memory in self.memories:
                with m.Case(memory):
                    self._write(m, memory, index)
        return m

    def _walk(self, m: Module, load: data.View) -> None:
        """Build the counters that walk the padded block, and the signals that describe this cycle."""
        self._offset, self._lane_row = Signal(SRAM_BASE_BITS + 1), Signal(6)
        self._part = Signal(range(max(2, *(self._parts(memory) for memory in self.memories))))
        self._is_data, self._element_ends = Signal(), Signal()
        rows, columns = load.y_pad_0 + load.y_size + load.y_pad_1, load.x_pad_0 + load.x_size + load.x_pad_1
        row, column = Signal.like(rows), Signal.like(columns)
        empty = (load.x_size == 0) | (rows == 0)
        row_ends, ends = column + 1 == columns, row + 1 == rows
        self._data_row_ends = column + 1 == load.x_pad_0 + load.x_size
        self._lane = (load.dram_base + self._lane_row + column - load.x_pad_0)[:6]
        self._writes = Signal()
        m.d.comb += [
            self._is_data.eq(
                (row >= load.y_pad_0)
                & (row < load.y_pad_0 + load.y_size)
                & (column >= load.x_pad_0)
                & (column < load.x_pad_0 + load.x_size)
            ),
            self.step.eq(
                self.instruction.valid & ~self.hold & (empty | ~self._is_data | self.read_data.valid)
            ),
            self._writes.eq(self.step & ~empty),
            self.retire.eq(self.step & (empty | (self._element_ends & row_ends & ends))),
            self.instruction.ready.eq(self.retire),
        ]
        with m.If(self._writes):
            m.d.sync += self._part.eq(self._part + 1)
            with m.If(self._element_ends):
                m.d.sync += [self._part.eq(0), column.eq(column + 1), self._offset.eq(self._offset + 1)]
                with m.If(row_ends):
                    m.d.sync += [column.eq(0), row.eq(row + 1)]
                    with m.If(row >= load.y_pad_0):
                        m.d.sync += self._lane_row.eq(self._lane_row + load.x_stride)
        with m.If(self.retire):
            m.d.sync += [counter.eq(0) for counter in (row, column, self._offset, self._part, self._lane_row)]

    def _parts(self, memory: MemoryType) -> int:
        """Return the steps that write one element of `memory`: one per beat that it fills."""
        return max(1, self.config.element_bits(memory) // self.config.bus_bits)

    def _write(self, m: Module, memory: MemoryType, index: Value) -> None:
        """Drive the port of `memory`'s scratchpad; return when its element ends and when its beat ends."""
        narrow = memory is MemoryType.ACC_8BIT
        target = MemoryType.ACC if narrow else memory
        port = getattr(self, target.name.lower())
        source, parts = self.config.element_bits(memory), self._parts(memory)
        in_beat = max(1, self.config.bus_bits // source)
        lane = self._lane[: exact_log2(in_beat)]
        values = self.read_data.payload.word_select(lane, source) if in_beat > 1 else self.read_data.payload
        values = self._extended(values) if narrow else values
        covered = lanes(self.config, target) // parts
        enable = Signal(lanes(self.config, target), name=f"{memory.name.lower()}_enable")
        m.d.comb += [
            self._element_ends.eq(~self._is_data | (self._part == parts - 1)),
            self.read_data.ready.eq(
                self._writes & self._is_data & ((lane == in_beat - 1) | self._data_row_ends)
            ),
            self.beats[target.name.lower()].eq(self.read_data.valid & self.read_data.ready),
            self.overrun.eq(self._writes & (index >= self.config.depth(memory))),
            enable.eq(
                Mux(self._is_data, ((1 << covered) - 1) << (self._part[: exact_log2(parts)] * covered), -1)
            ),
            port.address.eq(index),
            port.data.eq(Mux(self._is_data, values.replicate(parts), self._pad(memory))),
            port.enable.eq(Mux(self._writes, enable, 0)),
        ]

    def _extended(self, values: Value) -> Value:
        """Sign-extend narrow values to the accumulator's width."""
        narrow, wide = self.config.out_bits, self.config.acc_bits
        parts = [values[start : start + narrow].as_signed() for start in range(0, len(values), narrow)]
        return Cat(Cat(part, part[-1].replicate(wide - narrow)) for part in parts)

    def _pad(self, memory: MemoryType) -> Value:
        """Return one padding element."""
        config = self.config
        widths = {
            MemoryType.INP: (config.inp_bits, config.inp_bits),
            MemoryType.WGT: (config.wgt_bits, config.wgt_bits),
            MemoryType.ACC: (config.acc_bits, config.acc_bits),
            MemoryType.ACC_8BIT: (config.acc_bits, config.out_bits),
        }
        if memory not in widths or not config.has(Extension.PAD_MINIMUM):
            return Const(0)
        width, value_bits = widths[memory]
        target = MemoryType.ACC if memory is MemoryType.ACC_8BIT else memory
        least = Const(-(1 << (value_bits - 1)), width).as_unsigned()
        return Mux(self._load.pad_minimum, least.replicate(config.element_bits(target) // width), 0)


class LoadEngine(wiring.Component):
    """Execute LOADs in order; request later ones while the data of earlier ones arrive.

    Parameters:
        config: the accelerator.
        memories: the memory types it loads.

    Members:
        instruction: a LOAD to execute.
        hold: write nothing in this cycle.
        request, read_data: DRAM.
        inp, wgt, uop, acc: write ports of the scratchpads concerned.
        retire: an instruction ends, with its flags `push_prev` and `push_next`.
        idle: nothing is in progress.
        step, overrun, beats: as `WriteHalf`.

    Timing: as the two halves; up to 4 instructions are in progress between them.
    """

    def __init__(self, config: AcceleratorConfig, memories: tuple[MemoryType, ...]) -> None:
        self.config = config
        self.memories = memories
        pads = scratchpads(memories)
        super().__init__(
            {
                "instruction": In(instruction_stream()),
                "hold": In(1),
                "request": Out(request_stream(config)),
                "read_data": In(read_stream(config)),
                **{memory.name.lower(): Out(scratchpad_write(config, memory)) for memory in pads},
                "retire": Out(1),
                "push_prev": Out(1),
                "push_next": Out(1),
                "idle": Out(1),
                "step": Out(1),
                "overrun": Out(1),
                "beats": Out(data.StructLayout({memory.name.lower(): 1 for memory in pads})),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.requests = requests = RequestHalf(self.config, self.memories)
        m.submodules.started = started = Queue(INSTRUCTION_BITS, LOADS_IN_PROGRESS)
        m.submodules.writes = writes = WriteHalf(self.config, self.memories)
        connect(m, requests.request, flipped(self.request))
        connect(m, flipped(self.read_data), writes.read_data)
        connect(m, started.o, writes.instruction)
        for memory in scratchpads(self.memories):
            connect(m, getattr(writes, memory.name.lower()), flipped(getattr(self, memory.name.lower())))
        ready = requests.instruction.ready & started.i.ready
        retiring = decode(isa.Load, self.config, started.o.payload)
        m.d.comb += [
            self.instruction.ready.eq(ready),
            *(half.payload.eq(self.instruction.payload) for half in (requests.instruction, started.i)),
            *(half.valid.eq(self.instruction.valid & ready) for half in (requests.instruction, started.i)),
            writes.hold.eq(self.hold),
            self.retire.eq(writes.retire),
            *(
                getattr(self, flag).eq(writes.retire & getattr(retiring, flag))
                for flag in ("push_prev", "push_next")
            ),
            self.idle.eq(requests.idle & ~started.o.valid),
            *(getattr(self, name).eq(getattr(writes, name)) for name in ("step", "overrun", "beats")),
        ]
        return m
