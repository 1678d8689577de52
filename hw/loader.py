"""The load engine: strided, padded 2-D copies from DRAM into scratchpads, several in flight."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from vdla.hw.bursts import BurstCutter
from vdla.hw.layouts import decode
from vdla.hw.load_writes import WriteHalf, scratchpads
from vdla.hw.queue import Queue
from vdla.hw.signatures import instruction_stream, read_stream, request_stream, scratchpad_write
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.timing import LOADS_IN_PROGRESS
from vdla.hw.spec.vocabulary import MemoryType


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
            {
                "instruction": In(instruction_stream(config)),
                "request": Out(request_stream(config)),
                "idle": Out(1),
            }
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
                "instruction": In(instruction_stream(config)),
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
        m.submodules.started = started = Queue(self.config.instruction_bits, LOADS_IN_PROGRESS)
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
