"""The top for a Zynq design: AXI4 to memory, AXI4-Lite to the registers, an interrupt line."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature, connect, flipped
from amaranth.utils import exact_log2

from vdla.hw.address_guard import AddressGuard
from vdla.hw.core import Core
from vdla.hw.queue import Queue
from vdla.hw.signatures import memory_port, register_port
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.registers import READ_CYCLES, REGISTER_SPACE_BITS

OKAY, SLVERR = 0, 2
INCREMENTING = 1
NORMAL_BUFFERABLE = 0b0011
UNPRIVILEGED_DATA = 0
BYTES = 4


def axi4_signature(config: AcceleratorConfig) -> Signature:
    """Return the wires of an AXI4 master with one ID, named as in the specification (ARM IHI 0022)."""
    address = {
        "id": 1,
        "addr": config.axi_address_width,
        "len": 8,
        "size": 3,
        "burst": 2,
        "cache": 4,
        "prot": 3,
    }
    return Signature(
        {
            **{f"{channel}{name}": Out(width) for channel in ("aw", "ar") for name, width in address.items()},
            "awvalid": Out(1),
            "awready": In(1),
            "arvalid": Out(1),
            "arready": In(1),
            "wdata": Out(config.bus_bits),
            "wstrb": Out(config.bus_bytes),
            "wlast": Out(1),
            "wvalid": Out(1),
            "wready": In(1),
            "bid": In(1),
            "bresp": In(2),
            "bvalid": In(1),
            "bready": Out(1),
            "rid": In(1),
            "rdata": In(config.bus_bits),
            "rresp": In(2),
            "rlast": In(1),
            "rvalid": In(1),
            "rready": Out(1),
        }
    )


def axi4_lite_signature() -> Signature:
    """Return the wires of a 32-bit AXI4-Lite master that reaches the registers; a slave has them flipped."""
    return Signature(
        {
            **{
                f"{channel}{name}": Out(width)
                for channel in ("aw", "ar")
                for name, width in (("addr", REGISTER_SPACE_BITS), ("prot", 3), ("valid", 1))
            },
            "awready": In(1),
            "arready": In(1),
            "wdata": Out(32),
            "wstrb": Out(BYTES),
            "wvalid": Out(1),
            "wready": In(1),
            "bresp": In(2),
            "bvalid": In(1),
            "bready": Out(1),
            "rdata": In(32),
            "rresp": In(2),
            "rvalid": In(1),
            "rready": Out(1),
        }
    )


class AxiMaster(wiring.Component):
    """Bridge the core's memory port to AXI4.

    Parameters:
        config: the accelerator; bursts are incrementing, of whole beats, and never cross 4 KiB.

    Members:
        port: the core's side.
        axi: the bus.

    Timing: no output depends on an input of the same cycle. Write addresses pass a queue of 4, so write data
    need not wait until the address is accepted. Read data pass a queue of 2, at full rate and one cycle late.
    Everything else is wires to the core's registers. Every output is held until taken. With one ID, reads
    return in order, and so do write responses. The bus does not order reads against writes; the accelerator
    does, because it waits for responses.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__({"port": In(memory_port(config)), "axi": Out(axi4_signature(config))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request, write, axi = self.port.request, self.port.write_data, self.axi
        m.submodules.writes = writes = Queue(request.payload.shape(), 4)
        m.submodules.reads = reads = Queue(self.config.bus_bits, 2)
        connect(m, reads.o, flipped(self.port.read_data))
        size = exact_log2(self.config.bus_bytes)
        for channel, source in (("ar", request.payload), ("aw", writes.o.payload)):
            fields = {
                "id": 0,
                "addr": source.address,
                "len": source.beats - 1,
                "size": size,
                "burst": INCREMENTING,
                "cache": NORMAL_BUFFERABLE,
                "prot": UNPRIVILEGED_DATA,
            }
            m.d.comb += [getattr(axi, channel + name).eq(value) for name, value in fields.items()]
        m.d.comb += [
            axi.arvalid.eq(request.valid & ~request.payload.write),
            writes.i.valid.eq(request.valid & request.payload.write),
            writes.i.payload.eq(request.payload),
            request.ready.eq(Mux(request.payload.write, writes.i.ready, axi.arready)),
            axi.awvalid.eq(writes.o.valid),
            writes.o.ready.eq(axi.awready),
            axi.wdata.eq(write.payload.data),
            axi.wstrb.eq(write.payload.strobe),
            axi.wlast.eq(write.payload.last),
            axi.wvalid.eq(write.valid),
            write.ready.eq(axi.wready),
            reads.i.payload.eq(axi.rdata),
            reads.i.valid.eq(axi.rvalid),
            axi.rready.eq(reads.i.ready),
            axi.bready.eq(1),
            self.port.write_done.eq(axi.bvalid),
            self.port.error.eq((axi.bvalid & axi.bresp[1]) | (axi.rvalid & axi.rready & axi.rresp[1])),
        ]
        return m


class AxiLiteSlave(wiring.Component):
    """Connect an AXI4-Lite master to the registers.

    Members:
        axi: the bus.
        port: the register file's side.

    Timing: every output comes from a register. A write has three conditions: its address and data are both
    offered, the previous response has been accepted, and no read holds the register port, which has a single
    address. The write is taken in the cycle after these hold, and its response follows in the next cycle. A
    read holds the port for 11 cycles, as long as a counter
    needs, from the cycle after its address is offered, no read is being answered and no write is about to be
    taken. It is taken in the last of them, and its response follows two cycles later. Registers are written
    whole: a write with some but not all strobes is answered SLVERR and has no effect. A write without strobes
    is answered OKAY and has no effect.

    Source: AXI specification (ARM IHI 0022), A3.2.1: no combinational path leads from an input to an output.
    """

    axi: In(axi4_lite_signature())
    port: Out(register_port())

    def elaborate(self, platform: object) -> Module:
        m = Module()
        axi, port = self.axi, self.port
        takes_write, takes_read, reading = Signal(), Signal(), Signal()
        longest = max(READ_CYCLES.values())
        held, holds = Signal(range(longest)), Signal()  # held: cycles for which a read has held the port
        write_next = axi.awvalid & axi.wvalid & ~axi.bvalid & ~takes_write & ~holds
        m.d.comb += [
            axi.awready.eq(takes_write),
            axi.wready.eq(takes_write),
            axi.arready.eq(takes_read),
            port.address.eq(Mux(takes_write, axi.awaddr, axi.araddr) & ~(BYTES - 1)),
            port.write.eq(takes_write & axi.wstrb.all()),
            port.write_data.eq(axi.wdata),
            axi.rresp.eq(OKAY),
        ]
        m.d.sync += [
            takes_write.eq(write_next),
            takes_read.eq(held == longest - 2),
            reading.eq(takes_read),
        ]
        with m.If(holds):
            m.d.sync += [held.eq(Mux(takes_read, 0, held + 1)), holds.eq(~takes_read)]
        with m.Elif(axi.arvalid & ~axi.rvalid & ~reading & ~write_next):
            m.d.sync += holds.eq(1)
        with m.If(reading):
            m.d.sync += [axi.rvalid.eq(1), axi.rdata.eq(port.read_data)]
        with m.Elif(axi.rready):
            m.d.sync += axi.rvalid.eq(0)
        with m.If(takes_write):
            m.d.sync += [
                axi.bvalid.eq(1),
                axi.bresp.eq(Mux(axi.wstrb.any() & ~axi.wstrb.all(), SLVERR, OKAY)),
            ]
        with m.Elif(axi.bready):
            m.d.sync += axi.bvalid.eq(0)
        return m


class AxiTop(wiring.Component):
    """The core behind AXI: `m_axi` to memory, `s_axi` to the registers, `interrupt`.

    Parameters:
        config: the accelerator.

    Members:
        m_axi: AXI4 master with addresses of `axi_address_width` bits. A burst whose address does not fit
            never reaches the bus: a read delivers zeros, a write has no effect, and the run has
            FAULT.MEMORY_ERROR.
        s_axi: AXI4-Lite slave.
        interrupt: level; high from the end of a run, if INTERRUPT_ENABLE was set, to
            CONTROL.CLEAR_INTERRUPT.

    Timing: see the bridges. Resets are synchronous.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {"m_axi": Out(axi4_signature(config)), "s_axi": In(axi4_lite_signature()), "interrupt": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.core = core = Core(self.config)
        m.submodules.master = master = AxiMaster(self.config)
        m.submodules.slave = slave = AxiLiteSlave()
        if self.config.axi_address_width < self.config.address_bits:
            m.submodules.guard = guard = AddressGuard(self.config)
            connect(m, core.memory, guard.core)
            connect(m, guard.bus, master.port)
        else:
            connect(m, core.memory, master.port)
        connect(m, master.axi, flipped(self.m_axi))
        connect(m, flipped(self.s_axi), slave.axi)
        connect(m, slave.port, core.registers)
        m.d.comb += self.interrupt.eq(core.interrupt)
        return m
