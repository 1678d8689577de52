"""What a STORE names for the steps behind requantisation: its table, and its residuals as they are read."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.layouts import decode
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.hw.store_beats import further_layout
from vdla.hw.store_words import decode_shared, is_normalise, works_on_powers, writes_normalised


def has_further_steps(config: AcceleratorConfig) -> bool:
    """Return whether the store unit has steps behind requantisation."""
    return config.has(Extension.TABLE) or config.has(Extension.RESIDUAL)


class FurtherSteps(wiring.Component):
    """Follow the reads of one STORE after another for the steps behind requantisation.

    Parameters:
        config: the accelerator; it has such steps.

    Members:
        instruction: the STORE or NORMALISE that begins; its parameters count where `scales`.
        empty: it writes nothing; only where there are NORMALISEs, whose tables count without parameters, too.
        begins: it begins.
        set_ends: the last parameter of a set is read.
        element_ends: the last part of an element is read.
        further: what is done to this cycle's read of an element.
        second: this cycle's read of a parameter is of the set for residuals.
        last_set: the STORE has no set of parameters behind this set.
        beyond: its table, or the residual of this cycle's read, is past the end of its scratchpad.

    Timing: outputs come from registers, and follow `begins`, `set_ends` and `element_ends` in the next cycle.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "instruction": In(config.instruction_bits),
                **{name: In(1) for name in ("begins", "scales", "set_ends", "element_ends")},
                **({"empty": In(1)} if config.has(Extension.NORMALISE) else {}),
                "further": Out(further_layout(config)),
                **{name: Out(1) for name in ("second", "last_set", "beyond")},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        store = decode_shared(self.config, self.instruction)
        beyond: list[Value] = []
        m.d.comb += self.last_set.eq(1)
        if self.config.has(Extension.TABLE):
            beyond.append(self._tables(m, store))
        if self.config.has(Extension.RESIDUAL):
            beyond.append(self._residuals(m, store))
        m.d.comb += self.beyond.eq(Cat(beyond).any())
        return m

    def _tables(self, m: Module, store: data.View) -> Value:
        """Note the table; return whether there is none of that number."""
        further, beyond, number = self.further, Signal(name="beyond_table"), Signal(isa.TABLE_NUMBER_BITS)
        tables = self.config.depth(MemoryType.TABLE) // isa.TABLE_ELEMENTS
        used = looks_up = self.scales & (store.table != 0)
        too_large = number >= tables
        if self.config.has(Extension.NORMALISE):
            normalises = is_normalise(self.config, self.instruction)
            used = Mux(normalises, ~self.empty, self.scales) & (store.table != 0)
            statistic = decode(isa.Normalise, self.config, self.instruction).statistic
            writes = writes_normalised(self.config, self.instruction)
            looks_up = used & (~normalises | works_on_powers(statistic, writes))
            too_large |= normalises & (number == tables - 1)  # a table of powers is as long as two
        m.d.comb += number.eq(store.table - 1)
        with m.If(self.begins):
            m.d.sync += [
                further.looks_up.eq(looks_up),
                further.table.eq(number),
                beyond.eq(used & too_large),
            ]
        return beyond

    def _residuals(self, m: Module, store: data.View) -> Value:
        """Count the index of the residual; return whether it is past the end."""
        further, used = self.further, self.scales & (store.residual != 0)
        if self.config.has(Extension.NORMALISE):
            used &= ~is_normalise(self.config, self.instruction)
        index = Signal(self.config.sram_base_bits + 2, name="residual_index")  # past the end included
        inside = self.config.index_bits(MemoryType.RES)
        m.d.comb += [
            further.residual.eq(index),
            self.last_set.eq(~further.adds | self.second),
        ]
        with m.If(self.element_ends):
            m.d.sync += index.eq(index + 1)
        with m.If(self.set_ends):
            m.d.sync += self.second.eq(~self.last_set)
        with m.If(self.begins):
            m.d.sync += [further.adds.eq(used), index.eq(store.residual - 1), self.second.eq(0)]
        return further.adds & index[inside:].any()
