"""The load engine: strided, padded 2-D copies from DRAM into scratchpads, several in flight."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from vdla.hw.block_walk import Planner
from vdla.hw.bursts import RowCutter
from vdla.hw.gather import gathers, row_bytes_less_one
from vdla.hw.halves import has_halves
from vdla.hw.layouts import decode
from vdla.hw.load_writes import WriteHalf, lends, scratchpads
from vdla.hw.queue import Queue
from vdla.hw.signatures import instruction_stream, read_stream, request_stream, scratchpad_write
from vdla.hw.sources import names_source, sources
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
        self._shifts = [exact_log2(each.element_bits(config) // 8) for each in sources(config, memories)]
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
        active, moves, ends = Signal(), Signal(), Signal()
        starts = Signal()  # the next burst is the first of its row
        address, behind = Signal(self.config.address_bits), Signal(self.config.address_bits)
        row_bits = 16 + max(self._shifts)
        if gathers(self.config, self.memories):
            row_bits = max(row_bits, isa.SIZE_BITS + isa.GATHER_STEP_BITS)
        last, rest = Signal(row_bits), Signal(row_bits)
        row, row_last = self._rows(m, active, ends)
        m.submodules.cutter = cutter = RowCutter(self.config, row_bits)
        offered, free = self.request, ~self.request.valid | self.request.ready
        m.d.comb += [
            address.eq(Mux(starts, row, behind)),
            last.eq(Mux(starts, row_last, rest)),
            cutter.offset.eq(address),
            cutter.last.eq(last),
            moves.eq(active & free),
            ends.eq(moves & cutter.ends),
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
            m.d.sync += [
                starts.eq(cutter.ends),
                behind.eq(Cat(Const(0, burst_bits), address[burst_bits:] + 1)),
                rest.eq(cutter.rest),
            ]
        with m.If(~active):
            m.d.sync += starts.eq(1)
        return m

    def _rows(self, m: Module, active: Signal, ends: Value) -> tuple[Value, Value]:
        """Take an instruction while not `active`, and go on to its next row when one `ends`.

        Return the row's address, and its bytes less one. Registers count in elements; only what is returned
        is shifted.
        """
        load = decode(isa.Load, self.config, self.instruction.payload)
        shifts, kinds = self._shifts, sources(self.config, self.memories)
        is_gathered = gathers(self.config, self.memories)
        row = Signal(self.config.address_bits - (0 if is_gathered else min(shifts)))
        width, stride, rows = Signal(16), Signal(16), Signal(16)
        kind = Signal(len(kinds))
        takes = self.instruction.valid & ~active
        with m.If(takes | ends):
            m.d.sync += [
                row.eq(Mux(active, row + stride, load.dram_base)),
                rows.eq(Mux(active, rows - 1, load.y_size)),
            ]
        with m.If(ends):
            m.d.sync += active.eq(rows != 1)
        with m.If(takes):
            m.d.sync += [
                active.eq((load.x_size != 0) & (load.y_size != 0)),
                width.eq(load.x_size - 1),
                stride.eq(load.x_stride),
                kind.eq(Cat(names_source(load, each, self.config) for each in kinds)),
            ]
        address, last = _bytes(row, width, shifts[0])
        for shift, chosen in zip(shifts[1:], kind[1:], strict=True):
            from_row, of_row = _bytes(row, width, shift)
            address, last = Mux(chosen, from_row, address), Mux(chosen, of_row, last)
        if is_gathered:
            by_bytes, gathered_last = self._gathered(m, takes)
            address, last = Mux(by_bytes, row, address), Mux(by_bytes, gathered_last, last)
        return address, last

    def _gathered(self, m: Module, takes: Value) -> tuple[Value, Value]:
        """Return whether the instruction that was taken is a GATHER, and its rows' bytes less one."""
        gather = decode(isa.Gather, self.config, self.instruction.payload)
        by_bytes, last = Signal(), Signal(isa.SIZE_BITS + isa.GATHER_STEP_BITS)
        with m.If(takes):
            m.d.sync += [
                by_bytes.eq(gather.opcode == isa.Opcode.GATHER),
                last.eq(row_bytes_less_one(self.config, gather.x_size, gather.step)),
            ]
        return by_bytes, last


def _bytes(row: Value, before_last: Value, shift: int) -> tuple[Value, Value]:
    """Return the address of a row of elements of 2^shift bytes, and the row's bytes less one."""
    return row << shift, Cat(Const((1 << shift) - 1, shift), before_last)


class LoadEngine(wiring.Component):
    """Execute LOADs in order; request later LOADs while the data of earlier LOADs arrive.

    Parameters:
        config: the accelerator.
        memories: the memory types it loads.

    Members:
        instruction: a LOAD to execute.
        hold, settling, lent: as `WriteHalf`.
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
                **({"settling": In(1)} if has_halves(config, memories) else {}),
                **({"lent": In(1)} if lends(config, memories) else {}),
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
            *([writes.settling.eq(self.settling)] if has_halves(self.config, self.memories) else []),
            *([writes.lent.eq(self.lent)] if lends(self.config, self.memories) else []),
            self.idle.eq(~started.o.valid & ~writes.busy),
            *(
                getattr(self, name).eq(getattr(writes, name))
                for name in ("retire", "push_prev", "push_next", "step", "overrun", "beats")
            ),
        ]
        return m
