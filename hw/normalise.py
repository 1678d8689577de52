"""Normalisation in the store unit: statistics of rows, and values or powers that are divided by them."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from vdla.hw.alu import accumulator_vector
from vdla.hw.row_scale import (
    EXPONENT_BITS,
    FLAG_STAGE,
    NEUTRAL_MANTISSA,
    SHIFT_BITS,
    RowScaler,
    numbers_layout,
)
from vdla.hw.row_statistics import (
    MEMORY_STAGES,
    Gatherer,
    RowCounter,
    RowMemory,
    gather_stages,
)
from vdla.hw.scaling import choose, delayed
from vdla.hw.scratchpad import COLLISIONS_ARE_FREE
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.normalisation import (
    MANTISSA_BITS,
    MEAN_BITS,
    MEAN_FRACTION_BITS,
    OUTPUT_SHIFT,
    POWER_BITS,
    SCALED_BITS,
    SUM_BITS,
)
from vdla.hw.spec.numerics import BYTE_BITS, MULTIPLIER_BITS
from vdla.hw.spec.timing import (
    DISTANCE_STAGES,
    NORMAL_SETS,
    NORMALISE_STAGES,
    REQUANTISE_STAGES,
    TABLE_STAGES,
)
from vdla.hw.spec.vocabulary import NormalParameter
from vdla.hw.store_beats import normal_kind_layout, normal_layout, parts_of_element

GREATEST_STAGE = REQUANTISE_STAGES
"""Cycles from a read's element until its row's greatest value is there, and the read's values."""
ENTRY_STAGE = REQUANTISE_STAGES + DISTANCE_STAGES + TABLE_STAGES
"""Cycles from a read's element until its powers are there, or its values."""
NEUTRAL_FACTOR = 1 << OUTPUT_SHIFT - MEAN_FRACTION_BITS - NEUTRAL_MANTISSA.bit_length() + 1
"""With this, and no addend, a value that is not normalised stays as it is."""
OPERAND = signed(POWER_BITS + 1)
COARSE, FINE_BITS, SHIFT_STEPS = 8, 3, 8
"""The shift by multiples of 8, and the bits of its rest."""

# A set of parameters is kept when its read's element comes; the last read before it still needs the set of
# before in the stage of the addend. Sets come with a read between them at least.
assert (NORMAL_SETS - 1) * (len(NormalParameter) + 1) > ENTRY_STAGE + NORMALISE_STAGES
assert FLAG_STAGE < ENTRY_STAGE


def row_read_layout(config: AcceleratorConfig) -> data.StructLayout:
    """A read of the store unit: its place `part` in its element, whether that is the last (`ends`), and what
    is said of it as a read of a NORMALISE."""
    return data.StructLayout({"normal": normal_layout(), "part": parts_of_element(config), "ends": 1})


class SetColumn(wiring.Component):
    """A part of every set of parameters of normalisation, in LUT RAM.

    Parameters:
        bits: of the part.

    Members:
        keeps, write_set, word: keep `word` as part of set `write_set`.
        chosen: a set; `output`: its part.

    Timing: what is kept in a cycle can be chosen from the next cycle on. `output` depends on `chosen`.
    """

    def __init__(self, bits: int) -> None:
        self._bits, number = bits, In(range(NORMAL_SETS))
        super().__init__(
            {"keeps": In(1), "write_set": number, "word": In(bits), "chosen": number, "output": Out(bits)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(
            shape=unsigned(self._bits), depth=NORMAL_SETS, init=[], attrs=COLLISIONS_ARE_FREE
        )
        write, read = memory.write_port(), memory.read_port(domain="comb")
        m.d.comb += [
            write.addr.eq(self.write_set),
            write.data.eq(self.word),
            write.en.eq(self.keeps),
            read.addr.eq(self.chosen),
            self.output.eq(read.data),
        ]
        return m


class NormalSets(wiring.Component):
    """Keep the last NORMAL_SETS sets of parameters of normalisation.

    Parameters:
        config: the accelerator.

    Members:
        element, keeps, row: keep `element` as parameter `row` of a set, whose last row completes it.
        newest: the set that was completed last.
        numbers: of that set, in column 0.
        factor_set, addend_set: sets; `factors`, `addends`: of these, for every value of an element.

    Timing: a set can be read from the cycle on in which it is `newest`. Outputs depend on registers, and on
    `factor_set` and `addend_set`.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config, columns = config, config.block_out
        super().__init__(
            {
                "element": In(accumulator_vector(config)),
                "keeps": In(1),
                "row": In(NormalParameter),
                "newest": Out(range(NORMAL_SETS)),
                "numbers": Out(numbers_layout()),
                "factor_set": In(range(NORMAL_SETS)),
                "addend_set": In(range(NORMAL_SETS)),
                "factors": Out(data.ArrayLayout(signed(MULTIPLIER_BITS), columns)),
                "addends": Out(data.ArrayLayout(signed(SUM_BITS), columns)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        first, numbers = self.element[0].as_unsigned(), self.numbers
        factors = Cat(value[:MULTIPLIER_BITS] for value in self.element)
        rows = NormalParameter
        m.d.comb += [
            self.addends.as_value().eq(self._kept(m, rows.ADDEND, self.element.as_value(), self.addend_set)),
            self.factors.as_value().eq(self._kept(m, rows.FACTOR, factors, self.factor_set)),
            numbers.exponent.eq(
                self._kept(m, rows.FACTOR, first[MULTIPLIER_BITS:][:EXPONENT_BITS], self.newest, "exponent")
            ),
            Cat(numbers.count, numbers.reciprocal).eq(self._kept(m, rows.COUNT, first, self.newest)),
            numbers.epsilon.eq(self._kept(m, rows.EPSILON, first, self.newest)),
        ]
        with m.If(self.keeps & (self.row == rows.EPSILON)):
            m.d.sync += self.newest.eq(self.newest + 1)
        return m

    def _kept(self, m: Module, row: NormalParameter, word: Value, chosen: Value, name: str = "") -> Value:
        """Keep `word` as part of a set; return that of the `chosen` set."""
        m.submodules[name or row.name.lower()] = column = SetColumn(len(word))
        m.d.comb += [
            column.write_set.eq(self.newest + 1),
            column.word.eq(word),
            column.keeps.eq(self.keeps & (self.row == row)),
            column.chosen.eq(chosen),
        ]
        return column.output


class NormalLanes(wiring.Component):
    """Normalise values or powers, some per cycle.

    Parameters:
        config: the accelerator.

    Members:
        entries: powers where `powers`, else values in the low bits.
        mean: of the values' row; `mantissa` a cycle behind, `shift` two cycles.
        factors, addends: of the values given three and four cycles before, both in the cycle in which they
            enter a register.
        outputs: of the values given NORMALISE_STAGES cycles before.

    Timing: never stalls. Stages, each with a register behind it:

    1. the operand
    2. the product with the mantissa
    3. the shift by multiples of 8
    4. the rest of the shift, saturated
    5. the product with the factor
    6. the sum with the addend
    7. the shift and the saturation of the output
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self._lanes = config.values_per_store_read
        super().__init__(
            {
                "entries": In(data.ArrayLayout(POWER_BITS, self._lanes)),
                "powers": In(1),
                "mean": In(signed(MEAN_BITS)),
                "mantissa": In(MANTISSA_BITS),
                "shift": In(SHIFT_BITS),
                "factors": In(data.ArrayLayout(signed(MULTIPLIER_BITS), self._lanes)),
                "addends": In(data.ArrayLayout(signed(SUM_BITS), self._lanes)),
                "outputs": Out(data.ArrayLayout(BYTE_BITS, self._lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        *_, fine = delayed(m, self.shift[:FINE_BITS], 1, "fine")
        for lane in range(self._lanes):
            scaled = self._scaled(m, lane, fine)
            factor = Signal(signed(MULTIPLIER_BITS), name=f"factor_{lane}", reset_less=True)
            addend = Signal(signed(SUM_BITS), name=f"addend_{lane}", reset_less=True)
            product = Signal(
                signed(SCALED_BITS + MULTIPLIER_BITS), name=f"second_product_{lane}", reset_less=True
            )
            total = Signal(signed(len(product) + 1), name=f"total_{lane}", reset_less=True)
            m.d.sync += [
                factor.eq(self.factors[lane]),
                addend.eq(self.addends[lane]),
                product.eq(scaled * factor),
                total.eq(product + addend),
                self.outputs[lane].eq(_saturated(total[OUTPUT_SHIFT:], BYTE_BITS)),
            ]
        return m

    def _scaled(self, m: Module, lane: int, fine: Value) -> Signal:
        """Multiply the operand by the row's mantissa, then shift and saturate the product."""
        entry = self.entries[lane]
        operand = Signal(OPERAND, name=f"operand_{lane}", reset_less=True)
        product = Signal(signed(OPERAND.width + MANTISSA_BITS), name=f"first_product_{lane}", reset_less=True)
        window = Signal(SCALED_BITS + COARSE - 1, name=f"normal_window_{lane}", reset_less=True)
        beyond, negative = (Signal(name=f"{name}_{lane}", reset_less=True) for name in ("beyond", "negative"))
        scaled = Signal(signed(SCALED_BITS), name=f"normal_{lane}", reset_less=True)
        value = entry[:BYTE_BITS].as_signed() << MEAN_FRACTION_BITS
        sign = product[-1]
        extended = Cat(product, sign.replicate((SHIFT_STEPS - 1) * COARSE + len(window) - len(product)))
        windows = [extended[step * COARSE :] for step in range(SHIFT_STEPS)]
        behind = [part[len(window) :] for part in windows]
        differ = [(bits ^ sign.replicate(len(bits))).any() if len(bits) else Const(0) for bits in behind]
        coarse = self.shift[FINE_BITS:]
        m.d.sync += [
            operand.eq(Mux(self.powers, entry, value - self.mean)),
            product.eq(operand * self.mantissa),
            window.eq(choose([part[: len(window)] for part in windows], coarse)),
            beyond.eq(choose(differ, coarse)),
            negative.eq(sign),
        ]
        differs = window ^ negative.replicate(len(window))
        exceeds = beyond | choose([differs[step + SCALED_BITS - 1 :].any() for step in range(COARSE)], fine)
        chosen = choose([window[step:][:SCALED_BITS] for step in range(COARSE)], fine)
        m.d.sync += scaled.eq(Mux(exceeds, _extreme(negative, SCALED_BITS), chosen))
        return scaled


def _saturated(value: Value, bits: int) -> Value:
    """Return a number in fewer bits, or the number of that many bits next to it."""
    sign = value[-1]
    fits = value[bits - 1 :] == sign.replicate(len(value) - bits + 1)
    result: Value = Mux(fits, value[:bits], _extreme(sign, bits))
    return result


def _extreme(negative: Value, bits: int) -> Value:
    """Return the least or the greatest number of so many bits."""
    return Cat((~negative).replicate(bits - 1), negative)


class Normaliser(wiring.Component):
    """Gather statistics of rows, and normalise values or powers by them, some per cycle, as
    `vdla.hw.spec.normalisation` defines it.

    Parameters:
        config: the accelerator.

    Members:
        kind: of the NORMALISEs whose reads are on their way, all of one kind.
        read: a read of the store unit, MEMORY_STAGES cycles before its element is there.
        element, keeps, row: keep `element` as parameter `row` of normalisation, to be used for all later
            reads.
        greatest: of the row of the read whose element was there GREATEST_STAGE cycles before.
        entries: of the read whose element was there ENTRY_STAGE cycles before: powers if `powers`, else
            values in the low bits.
        left_out: of these.
        outputs: of the entries of NORMALISE_STAGES cycles before. What is not read by a NORMALISE stays as it
            is.

    Timing: one read per cycle, never stalls. Parameters apply to the reads behind them and not to the reads
    before them. What a read adds to statistics is there before its outputs.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self._lanes = config.values_per_store_read
        super().__init__(
            {
                "kind": In(normal_kind_layout()),
                "read": In(row_read_layout(config)),
                "element": In(accumulator_vector(config)),
                "keeps": In(1),
                "row": In(NormalParameter),
                "greatest": Out(signed(BYTE_BITS)),
                "entries": In(data.ArrayLayout(POWER_BITS, self._lanes)),
                "powers": In(1),
                "left_out": In(self._lanes),
                "outputs": Out(data.ArrayLayout(BYTE_BITS, self._lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        gathers_at = ENTRY_STAGE + gather_stages(self.config)
        # Of the read whose element is or was there in a cycle, and of the reads behind it.
        self._reads = self._follow(m, MEMORY_STAGES + max(gathers_at, ENTRY_STAGE + 4))
        m.submodules.memory = memory = RowMemory(self.config)
        m.d.comb += [
            memory.kind.eq(self.kind),
            memory.sums_row.eq(self._counted(m, "sums", -MEMORY_STAGES)),
            memory.greatest_row.eq(self._counted(m, "greatest", GREATEST_STAGE - MEMORY_STAGES)),
            memory.gathered_row.eq(self._counted(m, "gathered", gathers_at - MEMORY_STAGES)),
            self.greatest.eq(memory.greatest),
        ]
        self._gather(m, memory, gathers_at)
        self._normalise(m, memory)
        return m

    def _follow(self, m: Module, cycles: int) -> list[data.View]:
        """Return the read of this cycle, and of the cycles before."""
        reads: list[data.View] = [self.read]
        for cycle in range(1, cycles + 1):
            reads.append(Signal(self.read.shape(), name=f"read_{cycle}"))
            m.d.sync += reads[-1].eq(reads[-2])
        return reads

    def _at(self, stage: int) -> data.View:
        """Return the read whose element was there `stage` cycles before."""
        return self._reads[stage + MEMORY_STAGES]

    def _counted(self, m: Module, name: str, stage: int) -> Value:
        """Return the row of the read whose element was there `stage` cycles before."""
        m.submodules[f"{name}_rows"] = counter = RowCounter()
        read = self._at(stage)
        m.d.comb += [
            counter.counts.eq(read.normal.valid),
            counter.first.eq(read.normal.first),
            counter.ends.eq(read.ends),
        ]
        return counter.row

    def _gather(self, m: Module, memory: RowMemory, stage: int) -> None:
        """Add what elements have to the statistics of their rows."""
        m.submodules.gatherer = gatherer = Gatherer(self.config)
        read = self._at(stage)
        m.d.comb += [
            gatherer.entries.eq(self.entries),
            gatherer.left_out.eq(self.left_out),
            gatherer.counts.eq(self._at(stage - 1).normal.valid),
            gatherer.part.eq(self._at(stage - 1).part),
            gatherer.statistic.eq(self.kind.statistic),
            memory.gathered.eq(gatherer.gathered),
            memory.gathers.eq(read.normal.valid & read.ends & ~self.kind.writes),
            memory.anew.eq(read.normal.anew),
        ]

    def _normalise(self, m: Module, memory: RowMemory) -> None:
        m.submodules.sets = sets = NormalSets(self.config)
        m.submodules.scaler = scaler = RowScaler()
        m.submodules.lanes = lanes = NormalLanes(self.config)
        factors_at = ENTRY_STAGE + 3
        factor_set, addend_set = delayed(m, sets.newest, factors_at + 1, "set")[-2:]
        m.d.comb += [
            sets.element.eq(self.element),
            sets.keeps.eq(self.keeps),
            sets.row.eq(self.row),
            sets.factor_set.eq(factor_set),
            sets.addend_set.eq(addend_set),
            scaler.statistic.eq(self.kind.statistic),
            scaler.sums.eq(memory.sums),
            scaler.numbers.eq(sets.numbers),
            scaler.normalises.eq(self._at(FLAG_STAGE).normal.valid),
            lanes.entries.eq(self.entries),
            lanes.powers.eq(self.powers),
            lanes.mean.eq(scaler.mean),
            lanes.mantissa.eq(scaler.mantissa),
            lanes.shift.eq(scaler.shift),
            self.outputs.eq(lanes.outputs),
        ]
        for lane in range(self._lanes):
            for given, kept, stage, neutral in (
                (lanes.factors, sets.factors, factors_at, NEUTRAL_FACTOR),
                (lanes.addends, sets.addends, factors_at + 1, 0),
            ):
                read, values = self._at(stage), [*kept][lane :: self._lanes]
                chosen = Mux(read.normal.valid, choose(values, read.part), neutral)
                m.d.comb += given[lane].eq(chosen)
