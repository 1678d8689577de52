"""The accelerator: units, queues, token counters, scratchpads and control, wired together."""

from amaranth.hdl import Cat, Module, ResetInserter, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vdla.hw.banks import memory_of
from vdla.hw.compute import ComputeUnit
from vdla.hw.control import Registers, RunControl
from vdla.hw.dispatch import Dispatch
from vdla.hw.dma import Dma
from vdla.hw.fetch import Fetch
from vdla.hw.halves import has_halves
from vdla.hw.load import LoadUnit
from vdla.hw.queue import Queue
from vdla.hw.signatures import has_shadow, memory_port, register_port, shadow
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memories import scratchpads_of
from vdla.hw.spec.registers import COUNTED_MEMORIES, COUNTERS, UnitState, beat_counter, state_counter
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.hw.store import StoreUnit
from vdla.hw.tokens import TokenCounter


class Datapath(wiring.Component):
    """All components that a start resets: fetch, dispatch, DMA, and the units with their queues and tokens.

    Parameters:
        config: the accelerator.

    Members:
        memory: the memory port.
        begin, address, count: as in `Fetch`.
        finished, drained, quiet, starved, invalid, overrun, memory_error: as in `RunControl`.
        invalid_index: position of the invalid instruction.
        events: one bit per register in `COUNTERS`, high in the cycle after each cycle that it counts.

    Timing: what run control and counters see of a cycle is there in the next, from registers.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "memory": Out(memory_port(config)),
                "begin": In(1),
                "address": In(config.address_bits),
                "count": In(32),
                **{
                    name: Out(1)
                    for name in (
                        "finished",
                        "drained",
                        "quiet",
                        "starved",
                        "invalid",
                        "overrun",
                        "memory_error",
                    )
                },
                "invalid_index": Out(32),
                "events": Out(len(COUNTERS)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        m.submodules.fetch = self.fetch = Fetch(config)
        m.submodules.dispatch = self.dispatch = Dispatch(config)
        m.submodules.dma = self.dma = Dma(config)
        self.units: dict[Unit, LoadUnit | ComputeUnit | StoreUnit] = {
            Unit.LOAD: LoadUnit(config),
            Unit.COMPUTE: ComputeUnit(config),
            Unit.STORE: StoreUnit(config),
        }
        self.queues = {
            Unit.LOAD: Queue(config.instruction_bits, config.load_queue_depth),
            Unit.COMPUTE: Queue(config.instruction_bits, config.compute_queue_depth),
            Unit.STORE: Queue(config.instruction_bits, config.store_queue_depth),
        }
        for unit in Unit:
            m.submodules[f"{unit.name.lower()}_unit"] = self.units[unit]
            m.submodules[f"{unit.name.lower()}_queue"] = self.queues[unit]
        self._connect_instructions(m)
        self._connect_tokens(m)
        self._connect_scratchpads(m)
        self._connect_memory(m)
        self._report(m)
        self._count(m)
        return m

    def _connect_instructions(self, m: Module) -> None:
        connect(m, self.fetch.instruction, self.dispatch.instruction)
        outputs = {
            Unit.LOAD: self.dispatch.load,
            Unit.COMPUTE: self.dispatch.compute,
            Unit.STORE: self.dispatch.store,
        }
        for unit in Unit:
            connect(m, outputs[unit], self.queues[unit].i)
            connect(m, self.queues[unit].o, self.units[unit].instruction)
        m.d.comb += [
            self.fetch.begin.eq(self.begin),
            self.fetch.address.eq(self.address),
            self.fetch.count.eq(self.count),
            self.fetch.stop.eq(self.dispatch.ended),
        ]

    def _connect_tokens(self, m: Module) -> None:
        for edge in TOKEN_EDGES:
            counter = TokenCounter(self.config.token_depth)
            m.submodules[f"{edge.producer.name.lower()}_to_{edge.consumer.name.lower()}"] = counter
            connect(m, getattr(self.units[edge.producer], edge.push_flag), counter.sink)
            connect(m, counter.source, getattr(self.units[edge.consumer], edge.pop_flag))

    def _connect_scratchpads(self, m: Module) -> None:
        load, compute, store = (self.units[unit] for unit in Unit)
        pads = {
            memory: memory_of(self.config, memory)
            for memory in scratchpads_of(self.config)
            if memory is not MemoryType.TABLE  # the store unit has copies of it
        }
        if has_shadow(self.config):
            pads[MemoryType.OUT] = memory_of(self.config, shadow(self.config))
        for memory, pad in pads.items():
            m.submodules[f"{memory.name.lower()}_scratchpad"] = pad
        wires = (
            (load.inp, pads[MemoryType.INP].write),
            (load.wgt, pads[MemoryType.WGT].write),
            (compute.uop_write, pads[MemoryType.UOP].write),
            (compute.acc_write, pads[MemoryType.ACC].write),
            (compute.uop, pads[MemoryType.UOP].read),
            (compute.inp, pads[MemoryType.INP].read),
            (compute.wgt, pads[MemoryType.WGT].read),
            (compute.acc, pads[MemoryType.ACC].read),
        )
        if has_shadow(self.config):
            connect(m, compute.out_write, pads[MemoryType.OUT].write)
            connect(m, compute.operand, store.operand)
            connect(m, store.out, pads[MemoryType.OUT].read)
        else:
            connect(m, store.acc, compute.stored)
        for one, other in wires:
            connect(m, one, other)
        if has_halves(self.config):
            connect(m, compute.acc_load, pads[MemoryType.ACC].load)
            if has_shadow(self.config):
                connect(m, compute.out_load, pads[MemoryType.OUT].load)
        if self.config.has(Extension.FEEDBACK):
            connect(m, store.inp, load.fed)
        if self.config.has(Extension.TABLE):
            connect(m, compute.table_write, store.table)
        if self.config.has(Extension.RESIDUAL):
            connect(m, compute.res_write, pads[MemoryType.RES].write)
            connect(m, store.res, pads[MemoryType.RES].read)

    def _connect_memory(self, m: Module) -> None:
        load, compute, store = (self.units[unit] for unit in Unit)
        wires = (
            (self.fetch.request, self.dma.fetch_request),
            (self.dma.fetch_data, self.fetch.read_data),
            (compute.request, self.dma.compute_request),
            (self.dma.compute_data, compute.read_data),
            (load.request, self.dma.load_request),
            (self.dma.load_data, load.read_data),
            (store.request, self.dma.store_request),
            (store.write_data, self.dma.store_data),
            (self.dma.memory, flipped(self.memory)),
        )
        for one, other in wires:
            connect(m, one, other)
        m.d.comb += store.write_done.eq(self.dma.write_done)

    def _report(self, m: Module) -> None:
        """Drive the inputs of run control."""
        queues_empty = ~Cat(queue.o.valid for queue in self.queues.values()).any()
        idle = Cat(unit.status.idle for unit in self.units.values()).all()
        still = ~Cat(unit.status.busy for unit in self.units.values()).any() & ~self.dispatch.moved
        m.d.comb += self.invalid_index.eq(self.dispatch.invalid_index)
        m.d.sync += [
            self.finished.eq(self.units[Unit.COMPUTE].finished),
            self.drained.eq(queues_empty & idle & ~self.fetch.busy),
            self.quiet.eq(idle & still & self.fetch.blocked & ~self.begin),
            self.starved.eq(queues_empty & ~self.fetch.instruction.valid),
            self.invalid.eq(self.dispatch.invalid),
            self.overrun.eq(Cat(unit.status.overrun for unit in self.units.values()).any()),
            self.memory_error.eq(self.dma.error),
        ]

    def _count(self, m: Module) -> None:
        """Drive the events of the counters, by the names in the specification."""
        events: dict[str, Value] = {}
        for unit in Unit:
            status = self.units[unit].status
            states = {
                UnitState.BUSY: status.busy,
                UnitState.MEMORY: status.waits_memory,
                UnitState.TOKEN_PREV: status.waits_prev,
                UnitState.TOKEN_NEXT: status.waits_next,
                UnitState.ROOM: status.waits_room,
            }
            states[UnitState.INSTRUCTION] = (
                ~Cat(states.values()).any() & ~self.queues[unit].o.valid & ~self.dispatch.ended
            )
            events |= {state_counter(unit, state): event for state, event in states.items()}
        load, compute, store = (self.units[unit] for unit in Unit)
        beats = {
            None: self.fetch.beats,
            MemoryType.UOP: compute.beats.uop,
            MemoryType.ACC: compute.beats.acc,
            MemoryType.INP: load.beats.inp,
            MemoryType.WGT: load.beats.wgt,
            MemoryType.OUT: store.beats,
        }
        events |= {beat_counter(memory): beats[memory] for memory in (None, *COUNTED_MEMORIES)}
        events |= {"GEMM_STEPS": compute.gemm_step, "ALU_STEPS": compute.alu_step}
        m.d.sync += self.events.eq(Cat(events[name] for name in COUNTERS))


class Core(wiring.Component):
    """The accelerator with its own memory port and register port.

    Parameters:
        config: the accelerator.

    Members:
        registers: host access to the registers of `vdla.hw.spec.registers`.
        memory: DRAM, such as the reference memory of `vdla.hw.spec.memory`.
        interrupt: a run is done and INTERRUPT_ENABLE was set.

    Timing: see docs/microarchitecture.md. Reset clears registers; scratchpads keep their contents.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "registers": In(register_port()),
                "memory": Out(memory_port(config)),
                "interrupt": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.registers = registers = Registers(self.config)
        m.submodules.control = control = RunControl()
        datapath = Datapath(self.config)
        m.submodules.datapath = ResetInserter(control.accepted)(datapath)
        counts = Signal()
        m.d.sync += counts.eq(control.running)  # the events happened in the cycle before
        connect(m, flipped(self.registers), registers.port)
        connect(m, datapath.memory, flipped(self.memory))
        m.d.comb += [
            control.start.eq(registers.start),
            datapath.begin.eq(control.begin),
            datapath.address.eq(registers.stream_address),
            datapath.count.eq(registers.stream_count),
            *(
                getattr(control, name).eq(getattr(datapath, name))
                for name in ("finished", "drained", "quiet", "starved", "invalid", "overrun", "memory_error")
            ),
            registers.clear.eq(control.accepted),
            registers.events.eq(datapath.events & counts.replicate(len(COUNTERS))),
            *(getattr(registers, name).eq(getattr(control, name)) for name in ("running", "done", "fault")),
            registers.invalid_index.eq(datapath.invalid_index),
            self.interrupt.eq(registers.interrupt),
        ]
        return m
