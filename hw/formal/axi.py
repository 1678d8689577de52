"""What the bridges to AXI promise: the handshake rules of ARM IHI 0022, and that nothing is lost."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.utils import exact_log2

from vdla.hw.axi import INCREMENTING, OKAY, SLVERR, AxiLiteSlave, AxiMaster
from vdla.hw.formal.proof import ConfiguredProof, Proof, implies, is_taken
from vdla.hw.spec.registers import READ_CYCLES

PAGE_BITS = 12
"""No burst may cross a multiple of 2^12 bytes (A3.4.1)."""

WRITE_QUEUE = 4
"""Write bursts whose addresses wait in the master for the bus."""

READ_QUEUE = 2
"""Read beats that wait in the master for the core."""


class AxiMasterProof(ConfiguredProof):
    """The master's channels keep the rules of AXI4, and pass every burst, beat and response on, once.

    The core promises streams whose items stay, and bursts inside a multiple of `burst_bytes`, as
    `vdla.hw.formal.bursts` proves of the circuit that divides rows into bursts. Beats and their `last` go
    through unchanged: `last` is the store unit's.

    Parameters:
        config: the accelerator.
    """

    def build(self, m: Module) -> None:
        m.submodules.master = master = AxiMaster(self.config)
        self._request(m, master)
        self._addresses(m, master)
        self._bursts(m, master)
        self._write_data(m, master)
        self._responses(m, master)

    def _request(self, m: Module, master: AxiMaster) -> None:
        """Let the core ask for bursts of whole beats inside a multiple of `burst_bytes`."""
        request, config = master.port.request, self.config
        self.source(m, "request", request)
        address, beats = request.payload.address, request.payload.beats
        bus, burst = exact_log2(config.bus_bytes), exact_log2(config.burst_bytes)
        self.assumptions |= {
            "request: has beats": implies(request.valid, (beats > 0) & (beats <= config.burst_beats)),
            "request: of whole beats": implies(request.valid, address[:bus] == 0),
            "request: inside a multiple of burst_bytes": implies(
                request.valid, address[bus:burst] + beats <= config.burst_beats
            ),
        }

    def _addresses(self, m: Module, master: AxiMaster) -> None:
        """Claim what holds of each burst on the bus."""
        axi, size = master.axi, exact_log2(self.config.bus_bytes)
        for channel in ("ar", "aw"):
            valid, ready = getattr(axi, f"{channel}valid"), getattr(axi, f"{channel}ready")
            m.d.comb += ready.eq(self.free(f"{channel}_ready"))
            names = ("id", "addr", "len", "size", "burst", "cache", "prot")
            fields = {name: getattr(axi, f"{channel}{name}") for name in names}
            self.stays(m, channel, valid, ready, Cat(fields.values()))
            end = fields["addr"][:PAGE_BITS] + ((fields["len"] + 1) << size)
            increments = (fields["burst"] == INCREMENTING) & (fields["size"] == size)
            self.claims |= {
                f"{channel}: no burst crosses 4 KiB": implies(valid, end <= 1 << PAGE_BITS),
                f"{channel}: bursts increment by whole beats": implies(valid, increments),
                f"{channel}: at most burst_beats": implies(valid, fields["len"] < self.config.burst_beats),
            }

    def _bursts(self, m: Module, master: AxiMaster) -> None:
        """Claim that reads reach the bus as they are, and writes in order."""
        axi, request = master.axi, master.port.request
        address, beats, writes = (request.payload[name] for name in ("address", "beats", "write"))
        taken = is_taken(request)
        same = (axi.araddr == address) & (axi.arlen + 1 == beats)
        self.claims |= {
            "a read is taken as the bus takes it": (taken & ~writes) == (axi.arvalid & axi.arready),
            "a read is unchanged": implies(axi.arvalid, same),
        }
        seen = Cat(axi.awaddr, (axi.awlen + 1)[: len(beats)])
        way_out = axi.awvalid, axi.awvalid & axi.awready, seen
        waiting = self.in_order(m, "writes", (taken & writes, Cat(address, beats)), way_out, WRITE_QUEUE)
        self.claims["a write that waits is offered"] = axi.awvalid == (waiting != 0)

    def _write_data(self, m: Module, master: AxiMaster) -> None:
        """Let the core send beats; claim that they pass as they are."""
        axi, data = master.axi, master.port.write_data
        self.source(m, "beat", data)
        m.d.comb += axi.wready.eq(self.free("w_ready"))
        beat = Cat(axi.wdata, axi.wstrb, axi.wlast)
        self.stays(m, "w", axi.wvalid, axi.wready, beat)
        self.claims |= {
            "w: a beat is taken as the bus takes it": is_taken(data) == (axi.wvalid & axi.wready),
            "w: data, strobes and last are the core's": implies(
                axi.wvalid, beat == Cat(data.payload.data, data.payload.strobe, data.payload.last)
            ),
        }

    def _responses(self, m: Module, master: AxiMaster) -> None:
        """Claim that every response and every read beat reaches the core."""
        axi, port = master.axi, master.port
        free = {
            name: self.free(name, len(getattr(axi, name))) for name in ("bvalid", "bresp", "rvalid", "rresp")
        }
        free |= {name: self.free(name, len(getattr(axi, name))) for name in ("rdata", "rlast")}
        m.d.comb += [getattr(axi, name).eq(value) for name, value in free.items()]
        self.sink(m, "read_data", port.read_data)
        answered, read = axi.bvalid & axi.bready, axi.rvalid & axi.rready
        way_out = port.read_data.valid, is_taken(port.read_data), port.read_data.payload
        held = self.in_order(m, "beats", (read, axi.rdata), way_out, READ_QUEUE)
        self.claims |= {
            "b: a response is never refused": axi.bready,
            "write_done: once for each response": port.write_done == answered,
            "r: a beat that waits is offered to the core": port.read_data.valid == (held != 0),
            "r: ready while there is room": axi.rready == (held < READ_QUEUE),
            "error: with each response that says so": port.error
            == (answered & (axi.bresp >= SLVERR) | read & (axi.rresp >= SLVERR)),
        }


class AxiLiteProof(Proof):
    """The slave keeps the rules of AXI4-Lite, and answers every write and every read once, as registers do.

    The master promises that what it offers stays until it is taken. The registers promise data that follow
    an address that is held.
    """

    MOST_WAIT = 2 * (max(READ_CYCLES.values()) + 4)
    """Cycles after which an access is answered at the latest, if responses are accepted: a read and a write
    may come first."""

    def build(self, m: Module) -> None:
        m.submodules.slave = slave = AxiLiteSlave()
        axi = slave.axi
        for channel, names in (
            ("aw", ("awaddr", "awprot")),
            ("w", ("wdata", "wstrb")),
            ("ar", ("araddr", "arprot")),
        ):
            self._offer(
                m,
                channel,
                getattr(axi, f"{channel}valid"),
                getattr(axi, f"{channel}ready"),
                [getattr(axi, name) for name in names],
            )
        for channel in ("b", "r"):
            m.d.comb += getattr(axi, f"{channel}ready").eq(self.free(f"{channel}_ready"))
        m.d.comb += slave.port.read_data.eq(self.free("port_data", 32))
        self.stays(m, "b", axi.bvalid, axi.bready, axi.bresp)
        self.stays(m, "r", axi.rvalid, axi.rready, Cat(axi.rdata, axi.rresp))
        self._writes(m, slave)
        self._reads(m, slave)

    def _offer(self, m: Module, channel: str, valid: Value, ready: Value, fields: list[Value]) -> None:
        """Let the master offer anything, and hold it until it is taken."""
        waits, starts = Signal(name=f"{channel}_waits"), self.free(f"{channel}_valid")
        m.d.comb += valid.eq(starts | waits)
        m.d.sync += waits.eq(valid & ~ready)
        for field in fields:
            kept, fresh = (
                Signal.like(field, name=f"{field.name}_kept"),
                self.free(f"{field.name}_given", len(field)),
            )
            m.d.comb += field.eq(Mux(waits, kept, fresh))
            m.d.sync += kept.eq(field)

    def _writes(self, m: Module, slave: AxiLiteSlave) -> None:
        axi, port = slave.axi, slave.port
        address, data = axi.awvalid & axi.awready, axi.wvalid & axi.wready
        owed, partial = Signal(2), Signal()
        m.d.sync += owed.eq(owed + address - (axi.bvalid & axi.bready))
        with m.If(data):
            m.d.sync += partial.eq((axi.wstrb != 0) & (axi.wstrb != 0b1111))
        self.claims |= {
            "an address is taken with its data": address == data,
            "ready only for what is offered": ~(axi.awready & ~axi.awvalid) & ~(axi.wready & ~axi.wvalid),
            "b: a response is owed for each write, at most one": (owed <= 1) & (axi.bvalid == owed[0]),
            "b: SLVERR for a part of a register": implies(
                axi.bvalid, axi.bresp == Mux(partial, SLVERR, OKAY)
            ),
            "registers are written whole, with each write": port.write == (data & (axi.wstrb == 0b1111)),
            "registers are written where the master says": implies(
                port.write, (port.address == axi.awaddr & ~3) & (port.write_data == axi.wdata)
            ),
        }
        self._soon(m, "a write", axi.awvalid & axi.wvalid & ~address, axi.bready & axi.rready)

    def _reads(self, m: Module, slave: AxiLiteSlave) -> None:
        axi, port = slave.axi, slave.port
        taken, owed, wait = axi.arvalid & axi.arready, Signal(2), Signal(2)
        m.d.sync += owed.eq(owed + taken - (axi.rvalid & axi.rready))
        m.d.sync += wait.eq(Mux(taken, 1, Mux(wait == 2, 2, wait + (wait != 0))))
        longest = max(READ_CYCLES.values())
        held, address = Signal(range(longest + 1)), Signal.like(port.address)
        same = ~port.write & (port.address == address)
        m.d.sync += [address.eq(port.address), held.eq(Mux(same, Mux(held == longest, held, held + 1), 1))]
        data, was_taken = Signal(32), Signal()
        m.d.sync += was_taken.eq(taken)
        with m.If(was_taken):
            m.d.sync += data.eq(port.read_data)
        holds = Mux(same, held + 1, 1)
        self.claims |= {
            "r: a response is owed for each read, at most one": owed <= 1,
            "r: no response that is not owed": implies(axi.rvalid, owed == 1),
            "r: two cycles after its read is taken": implies(owed[0] & (wait == 2), axi.rvalid),
            "r: OKAY": axi.rresp == OKAY,
            "a read holds its address as long as counters need": implies(
                taken, (holds >= longest) & (port.address == axi.araddr & ~3)
            ),
            "r: the data that follow the address": implies(axi.rvalid, axi.rdata == data),
        }
        self._soon(m, "a read", axi.arvalid & ~taken, axi.bready & axi.rready)

    def _soon(self, m: Module, name: str, waits: Value, accepting: Value) -> None:
        """Claim that an access does not wait for ever while the master accepts responses."""
        cycles = Signal(range(self.MOST_WAIT + 2), name=f"{name.replace(' ', '_')}_waited")
        m.d.sync += cycles.eq(Mux(waits & accepting, cycles + 1, 0))
        self.claims[f"{name} is taken within {self.MOST_WAIT} cycles"] = cycles <= self.MOST_WAIT
