"""The window in front of INP's write port through which beats pass for elements that begin at any byte."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for, exact_log2

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import GATHER_STEP_BITS, MOST_GATHER_STEP
from vdla.hw.spec.vocabulary import Extension, MemoryType


def gathers(config: AcceleratorConfig, memories: tuple[MemoryType, ...]) -> bool:
    """Return whether an engine that loads `memories` executes GATHERs."""
    return config.has(Extension.GATHER) and MemoryType.INP in memories


def row_bytes_less_one(config: AcceleratorConfig, elements: Value, step: Value) -> Value:
    """Return the bytes of a row of a GATHER, less one: an element's, and a step for each further element."""
    return elements * step + (Const(config.element_bytes(MemoryType.INP) - 1) - step)


class GatherWindow(wiring.Component):
    """Cut the elements of a GATHER's rows out of beats.

    Parameters:
        config: the accelerator; it has GATHER.

    Members:
        start: a GATHER is taken.
        lane: its first row begins at this byte of a beat.
        lane_stride: distance in bytes to the next row (low bits).
        step: distance in bytes between elements.
        enable: the next element of the GATHER's rows may be written in this cycle.
        row_ends, ends: that element is the last of its row; of the last row.
        beat: the beat that is read.
        taken: it leaves in this cycle.
        due: all bytes of the next element have been taken; with `enable`, it is written in this cycle.
        wants: the beat that is read has bytes which the next element lacks. If the next element is written in
            this cycle, the element after it counts.
        element: the next element, while it is `due`.

    Timing: outputs come from registers, and from `enable`, `row_ends` and `ends`: one adder as wide as a
    step. An element can be written, and a beat taken, in each cycle. A row's first element is due in the
    cycle after the last of its beats is taken; the first of them may leave while the last element of the row
    before is written.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self._element_bytes = config.element_bytes(MemoryType.INP)
        self._lane_bits = int(exact_log2(config.bus_bytes))
        super().__init__(
            {
                "start": In(1),
                "lane": In(self._lane_bits),
                "lane_stride": In(self._lane_bits),
                "step": In(GATHER_STEP_BITS),
                "enable": In(1),
                "row_ends": In(1),
                "ends": In(1),
                "beat": In(config.bus_bits),
                "taken": In(1),
                "due": Out(1),
                "wants": Out(1),
                "element": Out(8 * self._element_bytes),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus_bytes, reach = self.config.bus_bytes, self._element_bytes + self.config.bus_bytes
        missing = Signal(signed(bits_for(max(reach, MOST_GATHER_STEP)) + 1))  # less one; negative: none
        step, further = Signal(GATHER_STEP_BITS), Signal.like(missing)
        first = self._first_of_next_row(m)
        following = Mux(self.row_ends, first, further)
        m.d.comb += [
            further.eq(missing + step),
            self.due.eq(missing < 0),
            self.wants.eq(self.enable & (~self.due | Mux(self.row_ends, ~self.ends, further >= 0))),
        ]
        behind = Mux(self.due & self.enable, following, missing)
        m.d.sync += missing.eq(Mux(self.taken, behind - bus_bytes, behind))
        with m.If(self.start):
            m.d.sync += [missing.eq(self.lane + (self._element_bytes - 1)), step.eq(self.step)]
        self._cut(m, missing[: self._lane_bits])
        return m

    def _first_of_next_row(self, m: Module) -> Value:
        """Walk from row to row; return what the next row's first element lacks, less one."""
        lane, stride, following = (Signal(self._lane_bits, name=name) for name in ("lane", "stride", "next"))
        m.d.comb += following.eq(lane + stride)
        with m.If(self.enable & self.due & self.row_ends):
            m.d.sync += lane.eq(following)
        with m.If(self.start):
            m.d.sync += [lane.eq(self.lane), stride.eq(self.lane_stride)]
        return following + (self._element_bytes - 1)

    def _cut(self, m: Module, lane: Value) -> None:
        """Keep the bytes that an element can need of the last beats, and move the element to their begin."""
        kept = Signal(8 * (self._element_bytes + self.config.bus_bytes - 1))
        with m.If(self.taken):
            m.d.sync += kept.eq(Cat(kept[self.config.bus_bits :], self.beat))
        moved: Value = kept
        for place in reversed(range(self._lane_bits)):
            moved = Mux(lane[place], moved[8 << place :], moved)
        m.d.comb += self.element.eq(moved)
