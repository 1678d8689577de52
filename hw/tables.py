"""Tables in the store unit: every requantised value becomes its entry."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from vdla.hw.scaling import choose, delayed
from vdla.hw.scratchpad import COLLISIONS_ARE_FREE
from vdla.hw.signatures import scratchpad_write
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.normalisation import POWER_BITS
from vdla.hw.spec.numerics import BYTE_BITS
from vdla.hw.spec.timing import TABLE_STAGES
from vdla.hw.spec.vocabulary import Extension, MemoryType


def table_number_bits(config: AcceleratorConfig) -> int:
    """Return the bits that count the tables which TABLE holds, from 0."""
    return config.index_bits(MemoryType.TABLE) - int(exact_log2(isa.TABLE_ELEMENTS))


def entry_bits(config: AcceleratorConfig) -> int:
    """Return the bits of an entry that is looked up: wide enough for powers, where there are any."""
    return POWER_BITS if config.has(Extension.NORMALISE) else BYTE_BITS


def power_ports(config: AcceleratorConfig) -> dict[str, wiring.Member]:
    """Return the inputs of lookups that only powers need."""
    if not config.has(Extension.NORMALISE):
        return {}
    return {"powers": In(1), "above": In(table_number_bits(config))}


class TableLane(wiring.Component):
    """Replace one value by its entry in a table.

    Parameters:
        config: the accelerator.

    Members:
        write: the memory's write port.
        value, looks_up, table: as in `TableLookup`; `looks_up` two cycles behind the value.
        powers, above: as in `TableLookup`; `chooses_power` is `powers`, two cycles behind.
        output: of the value of TABLE_STAGES cycles before.

    Timing: as `TableLookup`.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "write": In(scratchpad_write(config, MemoryType.TABLE)),
                "value": In(BYTE_BITS),
                "looks_up": In(1),
                "table": In(table_number_bits(config)),
                **power_ports(config),
                **({"chooses_power": In(1)} if config.has(Extension.NORMALISE) else {}),
                "output": Out(entry_bits(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits, depth = self.config.element_bits(MemoryType.TABLE), self.config.depth(MemoryType.TABLE)
        m.submodules.memory = memory = Memory(
            shape=unsigned(bits), depth=depth, init=[], attrs=COLLISIONS_ARE_FREE
        )
        write, read = memory.write_port(), memory.read_port()
        *_, value = delayed(m, self.value, TABLE_STAGES - 1, "value")
        low = int(exact_log2(self.config.entries))
        element = Signal(bits, reset_less=True)
        entries = [element.word_select(place, BYTE_BITS) for place in range(self.config.entries)]
        m.d.comb += [
            write.addr.eq(self.write.address),
            write.data.eq(self.write.data),
            write.en.eq(self.write.enable),
            read.addr.eq(Cat(self.value[low:], self.table)),
            read.en.eq(1),
        ]
        entry = choose(entries, value[:low])
        if self.config.has(Extension.NORMALISE):
            halves = [element.word_select(place, POWER_BITS) for place in range(len(element) // POWER_BITS)]
            entry = Mux(self.chooses_power, choose(halves, value[: low - 1]), entry)
            table = Mux(self.value[-1], self.above, self.table)
            with m.If(self.powers):
                m.d.comb += read.addr.eq(Cat(self.value[low - 1 : -1], table))
        m.d.sync += [
            element.eq(read.data),
            self.output.eq(Mux(self.looks_up, entry, value)),
        ]
        return m


class TableLookup(wiring.Component):
    """Replace values by their entries in a table, some values per cycle; each lane has a copy of the memory.

    Parameters:
        config: the accelerator.

    Members:
        write: the memory's write port.
        values: what to look up, as bytes.
        looks_up: do so; else outputs are the values.
        table: in which table, counted from 0.
        powers: the table is one of powers, whose upper half is table `above`. Only where there are any.
        outputs: of the values of TABLE_STAGES cycles before.

    Timing: the inputs of a cycle give outputs TABLE_STAGES cycles later; never stalls.
    Element addresses lead from registers into the memories, their data into registers, and the choice of the
    entry into the last registers. A write in one cycle is seen by lookups from the next cycle on. Zero
    at power-up, kept over resets.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self._lanes = config.values_per_store_read
        vector = data.ArrayLayout(BYTE_BITS, self._lanes)
        super().__init__(
            {
                "write": In(scratchpad_write(config, MemoryType.TABLE)),
                "values": In(vector),
                "looks_up": In(1),
                "table": In(table_number_bits(config)),
                **power_ports(config),
                "outputs": Out(data.ArrayLayout(entry_bits(config), self._lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        *_, looked_up = delayed(m, self.looks_up, TABLE_STAGES - 1, "looks_up")
        if self.config.has(Extension.NORMALISE):
            *_, powers = delayed(m, self.powers, TABLE_STAGES - 1, "powers")
        for place in range(self._lanes):
            m.submodules[f"lane_{place}"] = lane = TableLane(self.config)
            connect(m, flipped(self.write), lane.write)
            m.d.comb += [
                lane.value.eq(self.values[place]),
                lane.looks_up.eq(looked_up),
                lane.table.eq(self.table),
                self.outputs[place].eq(lane.output),
            ]
            if self.config.has(Extension.NORMALISE):
                m.d.comb += [
                    lane.powers.eq(self.powers),
                    lane.chooses_power.eq(powers),
                    lane.above.eq(self.above),
                ]
        return m
