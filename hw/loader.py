"""The load engine: strided, padded 2-D copies from DRAM into scratchpads, several in flight."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from vdla.hw.block_walk import Planner
from vdla.hw.bursts import RowCutter
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
        idle: no instruction is being cut into requests, and none is offered.

    Timing: an instruction taken in cycle t offers its first burst in t + 2, then one per accepted burst, row
    after row. `instruction.ready` is high from the cycle in which the last burst is offered on. It and the
    request come from registers.
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
        burst_bits = exact_log2(self.config.burst_bytes)
        row_bits = 16 + max(exact_log2(self.config.element_bytes(memory)) for memory in self.memories)
        active, moves = Signal(), Signal()
        address, row = Signal(self.config.address_bits), Signal(self.config.address_bits)
        last, width, stride, rows = Signal(row_bits), Signal(row_bits), Signal(row_bits), Signal(16)
        m.submodules.cutter = cutter = RowCutter(self.config, row_bits)
        offered, free = self.request, ~self.request.valid | self.request.ready
        m.d.comb += [
            cutter.offset.eq(address),
            cutter.last.eq(last),
            moves.eq(active & free),
            self.instruction.ready.eq(~active),
            self.idle.eq(~active & ~offered.valid),
        ]
        with m.If(free):
            m.d.sync += [
                offered.valid.eq(active),
                offered.payload.address.eq(address & -self.config.bus_bytes),
                offered.payload.beats.eq(cutter.beats),
            ]
        with m.If(moves):
            with m.If(cutter.ends):
                m.d.sync += [
                    address.eq(row + stride),
                    row.eq(row + stride),
                    last.eq(width),
                    rows.eq(rows - 1),
                    active.eq(rows != 1),
                ]
            with m.Else():
                m.d.sync += [
                    address.eq(Cat(Const(0, burst_bits), address[burst_bits:] + 1)),
                    last.eq(cutter.rest),
                ]
        with m.If(self.instruction.valid & ~active):
            self._latch(m, active, (address, row), (last, width), stride, rows)
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
        """Take the instruction; `widths` are one byte less than a row."""
        load = decode(isa.Load, self.config, self.instruction.payload)
        m.d.sync += [active.eq((load.x_size != 0) & (load.y_size != 0)), rows.eq(load.y_size)]
        before_last = (load.x_size - 1)[:16]
        with m.Switch(load.memory_type):
            for memory in self.memories:
                shift = exact_log2(self.config.element_bytes(memory))
                with m.Case(memory):
                    m.d.sync += [
                        *(address.eq(load.dram_base << shift) for address in addresses),
                        *(width.eq(Cat(Const((1 << shift) - 1, shift), before_last)) for width in widths),
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

    Timing: as the two halves. An instruction taken in cycle t stands before the write half in t + 1 and makes
    its first step in t + 2. Up to 4 instructions are in progress. `instruction.ready`, `idle` and the request
    depend on registers alone.
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
        m.submodules.plan = plan = Planner(self.config, self.memories)
        m.submodules.started = started = Queue(plan.plan.shape(), LOADS_IN_PROGRESS - 1)
        m.submodules.writes = writes = WriteHalf(self.config, self.memories)
        connect(m, requests.request, flipped(self.request))
        connect(m, flipped(self.read_data), writes.read_data)
        connect(m, started.o, writes.plan)
        for memory in scratchpads(self.memories):
            connect(m, getattr(writes, memory.name.lower()), flipped(getattr(self, memory.name.lower())))
        m.d.comb += [
            self.instruction.ready.eq(requests.instruction.ready & started.i.ready),
            plan.instruction.eq(self.instruction.payload),
            requests.instruction.payload.eq(self.instruction.payload),
            started.i.payload.eq(plan.plan),
            requests.instruction.valid.eq(self.instruction.valid & started.i.ready),
            started.i.valid.eq(self.instruction.valid & requests.instruction.ready),
            writes.hold.eq(self.hold),
            self.idle.eq(~started.o.valid & ~writes.busy),
            *(
                getattr(self, name).eq(getattr(writes, name))
                for name in ("retire", "push_prev", "push_next", "step", "overrun", "beats")
            ),
        ]
        return m
