"""Runs inside the simulator: the normaliser against the specification, with reads of every kind."""

import random
from typing import NamedTuple

import cocotb
from cocotb.triggers import FallingEdge
from normal_programs import Rows
from streams import configuration, start

from vdla.hw.normalise import ENTRY_STAGE, GREATEST_STAGE, row_read_layout
from vdla.hw.row_statistics import MEMORY_STAGES
from vdla.hw.spec import isa, normalisation, numerics
from vdla.hw.spec.normalisation import NormalOperands
from vdla.hw.spec.timing import NORMALISE_STAGES
from vdla.hw.spec.vocabulary import NormalParameter, Statistic
from vdla.hw.store_beats import normal_kind_layout

OUTPUT_STAGE = ENTRY_STAGE + NORMALISE_STAGES
SETTLED = OUTPUT_STAGE + MEMORY_STAGES + 1


class Read(NamedTuple):
    """A read: the fields of `row_read_layout`, its entries, what is left out, and the outputs that are due;
    its row's greatest value, where it is needed."""

    layout: int
    entries: list[int]
    powers: bool
    left_out: int
    outputs: list[int] | None
    greatest: int | None


def operands(rng: random.Random, columns: int) -> list[NormalOperands]:
    """Return parameters of each column, often such that outputs are not extreme."""
    if rng.random() < 0.2:
        words = [[rng.getrandbits(32) for _ in NormalParameter] for _ in range(columns)]
        signed = [[numerics.wrap(word, 32) for word in column] for column in words]
        return [normalisation.normal_operands(column) for column in signed]
    count = rng.choice((1, 2, 3, rng.randint(1, 400)))
    exponent = count.bit_length() - 1
    reciprocal = rng.choice((0, min(round((1 << 16 + exponent) / count), 0xFFFF)))
    return [
        NormalOperands(
            rng.randint(-(1 << 24), 1 << 24),
            rng.choice((1, -1)) * rng.randint(0, 1 << rng.randint(8, 15)),
            count,
            exponent,
            reciprocal,
            rng.choice((0, 1, rng.getrandbits(rng.randint(1, 32)))),
        )
        for _ in range(columns)
    ]


class Program:
    """Random NORMALISEs in segments of one kind, with STOREs between them: what happens in each cycle."""

    def __init__(self, config, seed: int) -> None:
        self.config, self.rng, self.cycle = config, random.Random(seed), MEMORY_STAGES
        self.lanes, self.rows = config.values_per_store_read, Rows()
        self.kinds: dict[int, tuple[Statistic, int]] = {}
        self.kept: dict[int, tuple[int, list[int]]] = {}
        self.reads: dict[int, Read] = {}
        for statistic in Statistic:  # memories are kept over resets
            self._segment(statistic, 0, [isa.NORMAL_ROWS])
        for _ in range(24):
            counts = [self.rng.choice((1, 1, 2, 3, 4, 40)) for _ in range(self.rng.randint(1, 8))]
            self._segment(self.rng.choice(list(Statistic)), self.rng.randrange(2), counts)

    def _segment(self, statistic: Statistic, writes: int, counts: list[int]) -> None:
        """Let NORMALISEs of one kind read so many elements each."""
        self.kinds[self.cycle] = statistic, writes
        for count in counts:
            anew = count == isa.NORMAL_ROWS or self.rng.randrange(2)
            self._instruction(isa.Normalise(statistic=statistic, anew=int(anew), normal=writes), count)
            if self.rng.random() < 0.2:
                self._store()
        self.cycle += SETTLED

    def _store(self) -> None:
        """Read values that stay as they are; what is said of them as reads of a NORMALISE has no effect."""
        for _ in range(self.rng.randint(1, 6)):
            values = [self.rng.randint(-128, 127) for _ in range(self.lanes)]
            entries = [value & 0xFF | self.rng.randrange(256) << 8 for value in values]
            layout = self._layout(0, self.rng.randrange(2), self.rng.randrange(2), 0)
            self.reads[self.cycle] = Read(
                layout, entries, False, self.rng.getrandbits(self.lanes), values, None
            )
            self.cycle += 1

    def _instruction(self, it: isa.Normalise, count: int) -> None:
        columns = self.config.block_out
        normal = operands(self.rng, columns)
        if it.normal:
            words = [normalisation.normal_parameters(column) for column in normal]
            for row in NormalParameter:
                self.kept[self.cycle] = int(row), [word[row] & 0xFFFFFFFF for word in words]
                self.cycle += 1
        for number in range(count):
            self._element(it, number, normal)
        self.cycle += count == 1 and columns == self.lanes  # no read follows a single read at once

    def _element(self, it: isa.Normalise, number: int, normal: list[NormalOperands]) -> None:
        rng, columns = self.rng, self.config.block_out
        row, powers = (
            self.rows.statistics(number),
            it.statistic is Statistic.POWERS or (it.statistic is Statistic.GREATEST and bool(it.normal)),
        )
        spread = rng.choice((1, 20, 128))
        values = [rng.randint(-spread, spread - 1) for _ in range(columns)]
        table = [rng.getrandbits(rng.choice((4, 12, 16))) for _ in range(256)]
        entries = [
            normalisation.power(value, row.greatest, table) if powers else value & 0xFF for value in values
        ]
        left_out = [rng.random() < 0.2 for _ in values]
        outputs = [
            normalisation.normalised(it.statistic, row, value, table, column._replace(**common(normal[0])))
            for value, column in zip(values, normal, strict=True)
        ]
        if not it.normal:
            counted = [value for value, left in zip(values, left_out, strict=True) if not left]
            self.rows.gather(it, number, counted, table)
        parts = columns // self.lanes
        for part in range(parts):
            self.cycle += rng.random() < 0.1  # the port may be lent
            first = part * self.lanes
            lanes = slice(first, first + self.lanes)
            layout = self._layout(1, number == 0 and part == 0, it.anew, part)
            self.reads[self.cycle] = Read(
                layout,
                entries[lanes],
                powers,
                sum(left << lane for lane, left in enumerate(left_out[lanes])),
                outputs[lanes] if it.normal else None,
                row.greatest if powers else None,
            )
            self.cycle += 1

    def _layout(self, valid: int, first: int, anew: int, part: int) -> int:
        ends = int(part == self.config.block_out // self.lanes - 1)
        normal = {"valid": valid, "first": first, "anew": anew}
        return row_read_layout(self.config).const({"normal": normal, "part": part, "ends": ends}).as_bits()


def common(first: NormalOperands) -> dict[str, int]:
    """Return count, exponent, reciprocal and epsilon, which column 0 holds."""
    return {name: getattr(first, name) for name in ("count", "exponent", "reciprocal", "epsilon")}


def packed(values: list[int], bits: int) -> int:
    """Return values side by side, the first lowest."""
    return sum((value & (1 << bits) - 1) << bits * place for place, value in enumerate(values))


@cocotb.test()
@cocotb.parametrize(seed=range(3))
async def test_outputs_are_those_of_statistics_and_parameters_before(dut, seed):
    """Sets follow each other as closely as they can; single elements add to one row again and again."""
    config = configuration()
    program, outputs, greatest = Program(config, seed), {}, {}
    await start(dut, "kind", "read", "element", "keeps", "row", "entries", "powers", "left_out")
    for cycle in range(program.cycle + OUTPUT_STAGE):
        if cycle in program.kinds:
            statistic, writes = program.kinds[cycle]
            fields = {"statistic": statistic, "writes": writes}
            dut.kind.value = normal_kind_layout().const(fields).as_bits()
        ahead = program.reads.get(cycle + MEMORY_STAGES)
        dut.read.value = ahead.layout if ahead else 0
        dut.keeps.value = int(cycle in program.kept)
        if cycle in program.kept:
            row, words = program.kept[cycle]
            dut.row.value, dut.element.value = row, packed(words, 32)
        entered = program.reads.get(cycle - ENTRY_STAGE)
        if entered:
            dut.entries.value = packed(entered.entries, 16)
            dut.powers.value, dut.left_out.value = int(entered.powers), entered.left_out
        await FallingEdge(dut.clk)
        outputs[cycle], greatest[cycle] = dut.outputs.value, dut.greatest.value
    middle = 0
    for cycle, read in program.reads.items():
        if read.greatest is not None:
            assert greatest[cycle + GREATEST_STAGE - 1].to_signed() == read.greatest, cycle
        if read.outputs is not None:
            assert int(outputs[cycle + OUTPUT_STAGE - 1]) == packed(read.outputs, 8), cycle
            middle += sum(-128 < output < 127 and output != 0 for output in read.outputs)
    assert middle > 100
