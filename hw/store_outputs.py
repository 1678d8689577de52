"""What the store unit makes of the accumulators that it reads: requantised, looked up, with residuals."""

from itertools import pairwise

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from vdla.hw.alu import accumulator_vector
from vdla.hw.normalise import GREATEST_STAGE, Normaliser
from vdla.hw.requantise import Requantiser
from vdla.hw.residual import READ_STAGES, ResidualAdder
from vdla.hw.row_statistics import MEMORY_STAGES
from vdla.hw.scaling import delayed
from vdla.hw.signatures import (
    has_shadow,
    lent_read,
    scratchpad_read,
    scratchpad_write,
    shadow,
    taken_read,
)
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.timing import (
    DISTANCE_STAGES,
    NORMALISE_STAGES,
    REQUANTISE_STAGES,
    TABLE_STAGES,
    store_read_stages,
    store_stages,
)
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter
from vdla.hw.store_beats import normal_kind_layout, read_layout
from vdla.hw.store_words import works_on_powers
from vdla.hw.tables import TableLookup


def kept_layout(config: AcceleratorConfig) -> data.StructLayout:
    """What a read brings: parameter `row` of the set for values, or for residuals, or of normalisation
    (`normals`), or none; and an element (of parameters, too), or another part of the element before."""
    normals = {"normals": 1} if config.has(Extension.NORMALISE) else {}
    return data.StructLayout({"values": 1, "residuals": 1, "row": Parameter, "element": 1, **normals})


class OutputPath(wiring.Component):
    """Turn what is read into outputs.

    Parameters:
        config: the accelerator.

    Members:
        element: read data of the accumulators: of the read of `store_read_stages` - 1 cycles before.
        read: where the outputs of this cycle's read go.
        kept: which parameter this cycle's read is, if any; without a shadow also whether it reads an element,
            which stays for the reads of its other parts.
        res: read port of the residuals.
        table: write port of the tables.
        leaving: the read of `store_stages` cycles before.
        coming: the read that leaves in the next cycle; only where outputs can go to INP.
        outputs: of it.
        busy: there are reads on their way.
        kind: of the NORMALISEs whose reads are on their way; settled: there are no reads on their way, as a
            register tells. Both only where there are such instructions.

    Timing: never stalls. A read data register follows the scratchpad; then come the stages of `Requantiser`,
    the distance from the row's greatest value, the stages of `TableLookup`, `Normaliser` and `ResidualAdder`,
    as far as the configuration has them, whatever the STORE uses of them.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "element": In(config.element_bits(shadow(config))),
                "read": In(read_layout(config)),
                "kept": In(kept_layout(config)),
                "leaving": Out(read_layout(config)),
                **({"coming": Out(read_layout(config))} if config.has(Extension.FEEDBACK) else {}),
                "outputs": Out(8 * config.store_read_bytes),
                "busy": Out(1),
                **(
                    {"kind": In(normal_kind_layout()), "settled": Out(1)}
                    if config.has(Extension.NORMALISE)
                    else {}
                ),
                **further_ports(config),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        self._read_stages = store_read_stages(config.acc_ports, config.operand_stages)
        stages = [
            Signal(read_layout(config), name=f"stage_{index}")
            for index in range(store_stages(config.effective_extensions, self._read_stages))
        ]
        m.d.sync += [stages[0].eq(self.read), *(later.eq(earlier) for earlier, later in pairwise(stages))]
        kept, element = self._come(m), Signal(len(self.element), reset_less=True)
        with m.If(has_shadow(config) | kept.element):
            m.d.sync += element.eq(self.element)
        m.d.comb += [
            self.leaving.eq(stages[-1]),
            self.busy.eq(Cat(stage.valid for stage in stages).any()),
        ]
        if config.has(Extension.NORMALISE):
            settled = Signal(init=1)
            m.d.sync += settled.eq(~(self.read.valid | Cat(stage.valid for stage in stages[:-1]).any()))
            m.d.comb += self.settled.eq(settled)
        if config.has(Extension.FEEDBACK):
            m.d.comb += self.coming.eq(stages[-2])
        if config.has(Extension.REQUANTISE):
            self._requantise(m, element, kept, stages)
        else:
            if shadow(config) is MemoryType.ACC:
                whole = data.View(accumulator_vector(config), element)
                element = Cat(value[: config.out_bits] for value in whole)
            bits = 8 * config.store_read_bytes
            part = stages[self._read_stages - 1].part[: exact_log2(len(element) // bits)]
            m.d.comb += self.outputs.eq(element.word_select(part, bits))
        return m

    def _come(self, m: Module) -> data.View:
        """Return what the read was whose data come in this cycle."""
        kept: data.View = self.kept
        for stage in range(1, self._read_stages):
            following = Signal(kept_layout(self.config), name=f"kept_{stage}")
            m.d.sync += following.eq(kept)
            kept = following
        return kept

    def _requantise(self, m: Module, element: Signal, kept: data.View, stages: list[data.View]) -> None:
        m.submodules.requantiser = requantiser = Requantiser(self.config)
        place = self._read_stages - 1
        m.d.sync += [requantiser.keeps.eq(kept.values), requantiser.row.eq(kept.row)]
        m.d.comb += [
            requantiser.element.as_value().eq(element),
            requantiser.part.eq(stages[place].part),
            requantiser.scales.eq(stages[place].scales),
        ]
        values, place = requantiser.outputs, place + REQUANTISE_STAGES
        if self.config.has(Extension.NORMALISE):
            values = self._normalise(m, requantiser, kept, stages)
            place += DISTANCE_STAGES + TABLE_STAGES + NORMALISE_STAGES
        elif self.config.has(Extension.TABLE):
            values, place = self._look_up(m, values, stages[place]), place + TABLE_STAGES
        if self.config.has(Extension.RESIDUAL):
            m.submodules.adder = adder = ResidualAdder(self.config, place - (self._read_stages - 1))
            m.d.comb += adder.word.eq(requantiser.element[0])
            m.d.sync += [adder.keeps.eq(kept.residuals), adder.row.eq(kept.row)]
            values = self._add(m, adder, values, stages, place)
        bits = self.config.out_bits
        m.d.comb += self.outputs.eq(
            Cat(values[lane][:bits] for lane in range(self.config.values_per_store_read))
        )

    def _normalise(
        self, m: Module, requantiser: Requantiser, kept: data.View, stages: list[data.View]
    ) -> data.View:
        """Turn values into powers, where they are wanted, and normalise what tables give."""
        m.submodules.normaliser = normaliser = Normaliser(self.config)
        first = self._read_stages - 1  # the place of a read whose element is in its register
        ahead = self.read if first == MEMORY_STAGES - 1 else stages[first - MEMORY_STAGES]
        m.d.sync += [normaliser.keeps.eq(kept.normals), normaliser.row.eq(kept.row)]
        m.d.comb += [
            normaliser.kind.eq(self.kind),
            normaliser.read.part.eq(ahead.part),
            normaliser.read.ends.eq(_ends_element(self.config, ahead)),
            normaliser.read.normal.eq(ahead.normal),
            normaliser.read.normal.valid.eq(ahead.valid & ahead.normal.valid),
            normaliser.element.eq(requantiser.element),
        ]
        distances = self._distances(
            m, requantiser.outputs, normaliser.greatest, stages[first + GREATEST_STAGE]
        )
        place = first + GREATEST_STAGE + DISTANCE_STAGES
        lookup = self._lookup(m, distances, stages[place])
        above = Signal.like(lookup.above)
        m.d.sync += above.eq(stages[place - 1].further.table + 1)
        m.d.comb += [
            lookup.powers.eq(self._are_powers(stages[place])),
            lookup.above.eq(above),
            normaliser.entries.eq(lookup.outputs),
            normaliser.powers.eq(self._are_powers(stages[place + TABLE_STAGES])),
            normaliser.left_out.eq(
                delayed(m, requantiser.left_out, DISTANCE_STAGES + TABLE_STAGES, "left_out")[-1]
            ),
        ]
        return normaliser.outputs

    def _distances(self, m: Module, values: data.View, greatest: Value, stage: data.View) -> data.View:
        """Return the values, or where powers are wanted, their distances from the row's greatest value."""
        distances = Signal(values.shape(), reset_less=True)
        for lane in range(self.config.values_per_store_read):
            distance = greatest - values[lane].as_signed()
            m.d.sync += distances[lane].eq(Mux(self._are_powers(stage), distance, values[lane]))
        return distances

    def _are_powers(self, stage: data.View) -> Value:
        """Return whether the values of a read become powers."""
        return stage.normal.valid & works_on_powers(self.kind.statistic, self.kind.writes)

    def _look_up(self, m: Module, values: data.View, stage: data.View) -> data.View:
        return self._lookup(m, values, stage).outputs

    def _lookup(self, m: Module, values: data.View, stage: data.View) -> TableLookup:
        m.submodules.lookup = lookup = TableLookup(self.config)
        connect(m, flipped(self.table), lookup.write)
        m.d.comb += [
            lookup.values.as_value().eq(values.as_value()),
            lookup.looks_up.eq(stage.further.looks_up),
            lookup.table.eq(stage.further.table),
        ]
        return lookup

    def _add(
        self, m: Module, adder: ResidualAdder, values: data.View, stages: list[data.View], place: int
    ) -> data.View:
        m.d.comb += [
            self.res.address.eq(stages[place - READ_STAGES].further.residual),
            adder.element.as_value().eq(self.res.data),
            adder.part.eq(stages[place - 1].part),
            adder.adds.eq(stages[place - 1].further.adds),
            adder.values.as_value().eq(values.as_value()),
        ]
        return adder.outputs


def _ends_element(config: AcceleratorConfig, read: data.View) -> Value:
    """Return whether a read is the last of its element."""
    parts = config.block_out // config.values_per_store_read
    return read.part == parts - 1


def accumulator_ports(config: AcceleratorConfig) -> dict[str, wiring.Member]:
    """Return the members of the store unit by which it reads accumulators: the port of their shadow, which it
    lends to the compute unit, or reads for which it takes slots of that unit."""
    if not has_shadow(config):
        return {"acc": Out(taken_read(config))}
    return {
        "out": Out(scratchpad_read(config, shadow(config))),
        "operand": In(lent_read(config, MemoryType.ACC)),
    }


def further_ports(config: AcceleratorConfig) -> dict[str, wiring.Member]:
    """Return the members of the output path that only extensions bring: ports of tables and of residuals."""
    table = {"table": In(scratchpad_write(config, MemoryType.TABLE))}
    res = {"res": Out(scratchpad_read(config, MemoryType.RES))}
    return (table if config.has(Extension.TABLE) else {}) | (res if config.has(Extension.RESIDUAL) else {})
