"""Statistics of rows in the store unit: their memory, and what joins it."""

from collections.abc import Callable
from operator import add
from typing import Any, TypeAlias

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from vdla.hw.scaling import delayed
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.normalisation import LEAST_VALUE, POWER_BITS, SUM_BITS, TOTAL_BITS
from vdla.hw.spec.numerics import BYTE_BITS
from vdla.hw.spec.timing import NORMALISE_STAGES
from vdla.hw.spec.vocabulary import Statistic
from vdla.hw.store_beats import normal_kind_layout, parts_of_element

ADDEND = signed(POWER_BITS + 1)
"""A power, or a value."""
Join: TypeAlias = Callable[[Any, Any], Value]
SQUARE_BITS = 2 * BYTE_BITS - 1
LEVELS_OF_STAGE = 2
MEMORY_STAGES = 2
"""Cycles from the address of a row until its statistics are in a register."""


def tree_stages(config: AcceleratorConfig) -> int:
    """Return the cycles in which the values of a read are summed up."""
    levels = int(ceil_log2(config.values_per_store_read))
    return -(-levels // LEVELS_OF_STAGE)


def gather_stages(config: AcceleratorConfig) -> int:
    """Return the cycles from the powers of a read until those of its element are summed up: their choice, the
    sums within the read, the sums of the reads."""
    stages = 1 + tree_stages(config) + 1
    assert stages < NORMALISE_STAGES, "a read would leave the stages before its statistics are there"
    return stages


def gathered_layout(config: AcceleratorConfig) -> data.StructLayout:
    """What the values of an element add to their row's statistics: `addends` is the sum of their powers, or
    of the values."""
    levels = ceil_log2(config.block_out)
    return data.StructLayout(
        {
            "greatest": signed(BYTE_BITS),
            "addends": signed(ADDEND.width + levels),
            "squares": unsigned(SQUARE_BITS + levels),
        }
    )


def sums_layout() -> data.StructLayout:
    """The sums of a row, as `normalisation.RowStatistics` has them."""
    return data.StructLayout({"powers": SUM_BITS, "total": signed(TOTAL_BITS), "squares": SUM_BITS})


class RowCounter(wiring.Component):
    """Count the elements of one NORMALISE after another.

    Members:
        counts: this cycle's read is of a NORMALISE.
        first: it is the NORMALISE's first of an element.
        ends: it is the last of its element.
        row: the number of the element, modulo the rows of which there are statistics.

    Timing: `row` is combinational.
    """

    def __init__(self) -> None:
        super().__init__({"counts": In(1), "first": In(1), "ends": In(1), "row": Out(range(isa.NORMAL_ROWS))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        following = Signal.like(self.row)
        m.d.comb += self.row.eq(Mux(self.first, 0, following))
        with m.If(self.counts):
            m.d.sync += following.eq(self.row + self.ends)
        return m


class Gatherer(wiring.Component):
    """Sum up what values add to statistics, and find the greatest value, some values per cycle.

    Parameters:
        config: the accelerator.

    Members:
        entries: powers, or values in the low bits.
        left_out: values that are left out.
        counts: values were given `gather_stages` - 1 cycles before; else `gathered` stays as it is.
        part: the place in its element of their read.
        statistic: of all values that are given.
        gathered: of the values that counted last and of those before in their element.

    Timing: never stalls.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self._lanes = config.values_per_store_read
        super().__init__(
            {
                "entries": In(data.ArrayLayout(POWER_BITS, self._lanes)),
                "left_out": In(self._lanes),
                "counts": In(1),
                "part": In(parts_of_element(config)),
                "statistic": In(Statistic),
                "gathered": Out(gathered_layout(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        terms = [self._terms(m, lane) for lane in range(self._lanes)]
        greatest, addends, squares = (list(column) for column in zip(*terms, strict=True))
        greatest = _reduced(m, "greatest", greatest, _greater)
        sums = (_reduced(m, "addends", addends, add), _reduced(m, "squares", squares, add))
        whole, begins = self.gathered, self._begins()
        with m.If(self.counts):
            m.d.sync += [
                whole.greatest.eq(Mux(begins, greatest, _greater(whole.greatest, greatest))),
                whole.addends.eq(Mux(begins, 0, whole.addends) + sums[0]),
                whole.squares.eq(Mux(begins, 0, whole.squares) + sums[1]),
            ]
        return m

    def _begins(self) -> Value:
        """Return whether the read is the first of its element."""
        return self.part == 0 if self._lanes < self.config.block_out else Const(1)

    def _terms(self, m: Module, lane: int) -> tuple[Signal, Signal, Signal]:
        """Return what a value adds, in registers."""
        entry, left_out = self.entries[lane], self.left_out[lane]
        value = entry[:BYTE_BITS].as_signed()
        shapes = {"greatest": signed(BYTE_BITS), "addend": ADDEND, "square": unsigned(SQUARE_BITS)}
        greatest, addend, square = (
            Signal(shape, name=f"{name}_{lane}", reset_less=True) for name, shape in shapes.items()
        )
        powers = self.statistic == Statistic.POWERS
        m.d.sync += [
            greatest.eq(Mux(left_out, LEAST_VALUE, value)),
            addend.eq(Mux(left_out, 0, Mux(powers, entry, value))),
            square.eq(Mux(left_out, 0, value * value)),
        ]
        return greatest, addend, square


def _reduced(m: Module, name: str, values: list[Signal], join: Join) -> Signal:
    """Join values by a tree with a register behind each LEVELS_OF_STAGE levels."""
    stage = 0
    while len(values) > 1:
        joined: list[Value] = [*values]
        for _ in range(min(LEVELS_OF_STAGE, ceil_log2(len(values)))):
            joined = [join(*pair) for pair in zip(joined[::2], joined[1::2], strict=True)]
        values = [
            Signal(value.shape(), name=f"{name}_of_{stage}_{place}", reset_less=True)
            for place, value in enumerate(joined)
        ]
        m.d.sync += [held.eq(value) for held, value in zip(values, joined, strict=True)]
        stage += 1
    return values[0]


def _greater(left: Value, right: Value) -> Value:
    greater: Value = Mux(left > right, left, right)
    return greater


class RowColumn(wiring.Component):
    """One statistic of every row: zero at power-up, kept over resets.

    Parameters:
        bits: of the statistic.

    Members:
        read_row: what is read.
        row, data, enable: what is written.
        output: of the row of MEMORY_STAGES cycles before.

    Timing: a write is seen by reads whose row is given in the same cycle or later.
    """

    def __init__(self, bits: int) -> None:
        self._bits, row = bits, In(range(isa.NORMAL_ROWS))
        super().__init__(
            {"read_row": row, "row": row, "data": In(bits), "enable": In(1), "output": Out(bits)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=unsigned(self._bits), depth=isa.NORMAL_ROWS, init=[])
        write = memory.write_port()
        read = memory.read_port(transparent_for=[write])
        m.d.comb += [
            write.addr.eq(self.row),
            write.data.eq(self.data),
            write.en.eq(self.enable),
            read.addr.eq(self.read_row),
            read.en.eq(1),
        ]
        m.d.sync += self.output.eq(read.data)
        return m


class RowMemory(wiring.Component):
    """Statistics of rows: zero at power-up, kept over resets.

    Members:
        kind: of the NORMALISEs on their way.
        greatest_row, sums_row: rows whose greatest value, whose sums are read, unless these are gathered.
        gathered_row: a row for which `gathered` comes MEMORY_STAGES cycles later.
        gathered: what an element adds to its row.
        gathers: it is to be added; `anew`: instead of what is there.
        greatest, sums: of the row of MEMORY_STAGES cycles before.

    Timing: never stalls. Rows are gathered at one per cycle. A row that is gathered twice must come two
    cycles later at the earliest. Instructions keep that distance: behind an instruction of a single read
    follows a cycle without a read.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        row = In(range(isa.NORMAL_ROWS))
        super().__init__(
            {
                "kind": In(normal_kind_layout()),
                "greatest_row": row,
                "sums_row": row,
                "gathered_row": row,
                "gathered": In(gathered_layout(config)),
                "gathers": In(1),
                "anew": In(1),
                "greatest": Out(signed(BYTE_BITS)),
                "sums": Out(sums_layout()),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        statistic, writes = self.kind.statistic, self.kind.writes
        *_, row = delayed(m, self.gathered_row, MEMORY_STAGES, "row")
        m.submodules.greatest_memory = greatest = RowColumn(len(self.greatest))
        m.submodules.sums_memory = sums = RowColumn(len(self.sums.as_value()))
        reads_greatest = writes | (statistic == Statistic.POWERS)
        m.d.comb += [
            greatest.read_row.eq(Mux(reads_greatest, self.greatest_row, self.gathered_row)),
            greatest.data.eq(self._greatest()),
            greatest.enable.eq(self.gathers & (statistic == Statistic.GREATEST)),
            sums.read_row.eq(Mux(writes, self.sums_row, self.gathered_row)),
            sums.data.eq(self._sums(m)),
            sums.enable.eq(self.gathers & (statistic != Statistic.GREATEST)),
            self.greatest.eq(greatest.output),
            self.sums.eq(sums.output),
            *(column.row.eq(row) for column in (greatest, sums)),
        ]
        return m

    def _greatest(self) -> Value:
        """Return the greatest value of the row with the element."""
        return _greater(Mux(self.anew, LEAST_VALUE, self.greatest), self.gathered.greatest)

    def _sums(self, m: Module) -> Value:
        """Return the sums of the row with the element."""
        old, new, added = self.sums, Signal(sums_layout()), self.gathered
        joins = {name: Mux(self.anew, 0, old[name]) for name in ("powers", "total", "squares")}
        m.d.comb += new.eq(old)
        with m.If(self.kind.statistic == Statistic.POWERS):
            m.d.comb += new.powers.eq(joins["powers"] + added.addends)
        with m.Else():
            m.d.comb += [
                new.total.eq(joins["total"] + added.addends),
                new.squares.eq(joins["squares"] + added.squares),
            ]
        return new.as_value()
