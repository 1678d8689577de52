"""What NORMALISEs add to the issue of the store unit's reads."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.layouts import decode
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.store_beats import normal_kind_layout, normal_layout
from vdla.hw.store_words import decode_shared, gathers_only, is_normalise, normal_base, writes_normalised


class NormalIssue(wiring.Component):
    """Follow the NORMALISEs among the instructions of the store unit.

    Parameters:
        config: the accelerator; it has NORMALISE.

    Members:
        offered: an instruction; it is taken where `takes`, and begins later.
        instruction: the instruction that was taken last; it begins where `begins`, and writes nothing where
            `empty`.
        set_ends: the last parameter of a set is read.
        advance: an element is read, or a part of it.
        differs: the instruction that waits is a NORMALISE of another kind than the NORMALISE before it.
        kind: of the NORMALISE that began last.
        normal: what is said of this cycle's read.
        gathers: the instruction in progress is a NORMALISE that writes nothing.
        second: this cycle's read of a parameter is of the set for normalisation.
        last_set: the NORMALISE in progress has no set of parameters behind this set.
        base: the first element of the set behind the first: of normalisation, or of residuals.

    Timing: outputs come from registers, and follow the inputs in the next cycle. An empty NORMALISE has no
    kind. The first NORMALISE of a run follows a NORMALISE that gathers greatest values.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        word = In(config.instruction_bits)
        super().__init__(
            {
                "offered": word,
                "instruction": word,
                **{name: In(1) for name in ("takes", "begins", "empty", "set_ends", "advance")},
                "kind": Out(normal_kind_layout()),
                "normal": Out(normal_layout()),
                "base": Out(config.sram_base_bits),
                **{name: Out(1) for name in ("differs", "gathers", "second", "last_set")},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._compare(m)
        config, word = self.config, self.instruction
        normalise = decode(isa.Normalise, config, word)
        here, gathers, writes = Signal(), Signal(), Signal()
        with_outputs = Signal()  # in progress is a NORMALISE that writes outputs
        m.d.comb += [
            here.eq(is_normalise(config, word) & ~self.empty),
            gathers.eq(gathers_only(config, word) & ~self.empty),
            writes.eq(writes_normalised(config, word) & ~self.empty),
            self.last_set.eq(self.second | ~with_outputs),
        ]
        with m.If(self.advance):
            m.d.sync += self.normal.first.eq(0)
        with m.If(self.set_ends):
            m.d.sync += self.second.eq(~self.last_set)
        with m.If(self.begins):
            m.d.sync += [
                self.normal.valid.eq(here),
                self.normal.first.eq(1),
                self.normal.anew.eq(normalise.anew),
                self.gathers.eq(gathers),
                with_outputs.eq(writes),
                self.second.eq(writes & (normalise.parameters == 0)),
                self.base.eq(Mux(writes, normal_base(config, word), 0)),
            ]
        with m.If(self.begins & here):
            m.d.sync += [self.kind.statistic.eq(normalise.statistic), self.kind.writes.eq(writes)]
        return m

    def _compare(self, m: Module) -> None:
        """Compare the kind of an instruction that is taken: all before it have begun."""
        word = decode(isa.Normalise, self.config, self.offered)
        store = decode_shared(self.config, self.offered)
        present = is_normalise(self.config, self.offered) & (store.x_size != 0) & (store.y_size != 0)
        same = (word.statistic == self.kind.statistic) & ((word.normal != 0) == self.kind.writes)
        with m.If(self.takes):
            m.d.sync += self.differs.eq(present & ~same)
