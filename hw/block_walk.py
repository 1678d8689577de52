"""The order in which a LOAD writes its elements: rows of padding and data."""

from typing import NamedTuple

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from vdla.hw.gather import gathers
from vdla.hw.halves import has_halves, writes_other_half
from vdla.hw.layouts import decode
from vdla.hw.sources import Source, names_source, sources
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension, MemoryType

PAD_BITS, SIZE_BITS = 4, 16


def beat_lane_bits(config: AcceleratorConfig, kinds: tuple[Source, ...]) -> int:
    """Return the bits that count the elements of a beat, where it holds the most of them, or its bytes, where
    elements may begin at each; at least 1."""
    return max(
        1,
        int(exact_log2(config.bus_bytes)) if gathers(config, tuple(each.memory for each in kinds)) else 0,
        *(int(exact_log2(max(1, config.bus_bits // each.element_bits(config)))) for each in kinds),
    )


def index_bits(config: AcceleratorConfig) -> int:
    """Return the bits of a count of a LOAD's elements; counts beyond these bits have no effect."""
    return config.sram_base_bits + 2


def stretch_layout() -> data.StructLayout:
    """Rows, or the elements of a row: padding `before`, `size` that come from DRAM, padding `behind`."""
    return data.StructLayout({"before": PAD_BITS, "size": SIZE_BITS, "behind": PAD_BITS})


def plan_layout(config: AcceleratorConfig, memories: tuple[MemoryType, ...]) -> data.StructLayout:
    """What the write half must know of a LOAD.

    There is a bit for each of `sources`. `rows` and `columns` are the stretches of the block, and `index`
    is its first element on chip. The first row begins in `lane` of a beat, and the next row `lane_stride`
    lanes further. A LOAD that is `empty` writes no element. It has `pad_value` only if it writes the pad
    register; `index` then has the value. For a GATHER `gathers` is set, lanes count bytes, and `step` is the
    distance between elements. A LOAD that is `beside` pushes no token, and writes the half of ACC in which no
    step works.
    """
    kinds = sources(config, memories)
    lane_bits = beat_lane_bits(config, kinds)
    return data.StructLayout(
        {
            **{each.name: 1 for each in kinds},
            "push_prev": 1,
            "push_next": 1,
            "empty": 1,
            "rows": stretch_layout(),
            "columns": stretch_layout(),
            "index": config.sram_base_bits,
            "lane": lane_bits,
            "lane_stride": lane_bits,
            **({"pad_minimum": 1} if config.has(Extension.PAD_MINIMUM) else {}),
            **({"pad_value": 1} if config.has(Extension.PAD_VALUE) else {}),
            **({"gathers": 1, "step": isa.GATHER_STEP_BITS} if gathers(config, memories) else {}),
            **({"beside": 1} if has_halves(config, memories) else {}),
        }
    )


class Planner(wiring.Component):
    """Take from a LOAD what its write half must know; a GATHER has the same fields at the same places.

    Parameters:
        config: the accelerator.
        memories: the memory types that it may name.

    Members:
        instruction: the LOAD.
        plan: of it.

    Timing: combinational.
    """

    def __init__(self, config: AcceleratorConfig, memories: tuple[MemoryType, ...]) -> None:
        self.config = config
        self.memories = memories
        super().__init__(
            {"instruction": In(config.instruction_bits), "plan": Out(plan_layout(config, memories))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        load, plan = decode(isa.Load, self.config, self.instruction), self.plan
        no_rows = ~(load.y_pad_0.any() | load.y_size.any() | load.y_pad_1.any())
        m.d.comb += [
            *(
                plan[each.name].eq(names_source(load, each, self.config))
                for each in sources(self.config, self.memories)
            ),
            plan.push_prev.eq(load.push_prev),
            plan.push_next.eq(load.push_next),
            plan.empty.eq((load.x_size == 0) | no_rows),
            plan.rows.before.eq(load.y_pad_0),
            plan.rows.size.eq(load.y_size),
            plan.rows.behind.eq(load.y_pad_1),
            plan.columns.before.eq(load.x_pad_0),
            plan.columns.size.eq(load.x_size),
            plan.columns.behind.eq(load.x_pad_1),
            plan.index.eq(load.sram_base),
            plan.lane.eq(load.dram_base),
            plan.lane_stride.eq(load.x_stride),
        ]
        if self.config.has(Extension.PAD_MINIMUM):
            m.d.comb += plan.pad_minimum.eq(load.pad_minimum)
        writes_register: Value = load.x_size == 0
        if gathers(self.config, self.memories):
            writes_register &= load.opcode == isa.Opcode.LOAD
            self._plan_gather(m, load)
        if self.config.has(Extension.PAD_VALUE):
            pads = (load.x_size != 0) & ~no_rows
            m.d.comb += plan.pad_value.eq(load.pad_value & (writes_register | pads))
        if has_halves(self.config, self.memories):
            pushes = load.push_prev | load.push_next
            m.d.comb += plan.beside.eq(writes_other_half(load) & ~pushes)
        return m

    def _plan_gather(self, m: Module, load: data.View) -> None:
        """Tell of a GATHER, whose step stands where a LOAD has the padding of its rows."""
        plan, gather = self.plan, decode(isa.Gather, self.config, self.instruction)
        m.d.comb += [plan.gathers.eq(load.opcode == isa.Opcode.GATHER), plan.step.eq(gather.step)]
        with m.If(plan.gathers):
            m.d.comb += [plan.columns.before.eq(0), plan.columns.behind.eq(0)]


class Stretch(wiring.Component):
    """Walk along a stretch: padding before, what comes from DRAM, padding behind. Each part may be missing,
    not all.

    Members:
        stretch: its parts' lengths.
        start: take the lengths, and go to the first place.
        advance: go on to the next place; from the last to the first.
        inside: the place comes from DRAM.
        leaves: it is the last such place.
        ends: it is the last place.

    Timing: outputs follow `start` and `advance` in the next cycle.
    """

    stretch: In(stretch_layout())
    start: In(1)
    advance: In(1)
    inside: Out(1)
    leaves: Out(1)
    ends: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        size, size_is_one = Signal(SIZE_BITS), Signal()
        first, other = Signal(PAD_BITS), Signal(PAD_BITS)  # lengths of the paddings, where there are any
        has_before, has_inside, has_behind = Signal(), Signal(), Signal()
        behind, left, is_last, pads, pad_is_last = (
            Signal(),
            Signal(SIZE_BITS),
            Signal(),
            Signal(PAD_BITS),
            Signal(),
        )
        lengths = _Lengths(size, size_is_one, first, other, has_before, has_inside, has_behind)
        place = _Place(behind, left, is_last, pads, pad_is_last)
        m.d.comb += [
            self.leaves.eq(self.inside & is_last),
            self.ends.eq(
                Mux(
                    self.inside,
                    is_last & ~has_behind,
                    pad_is_last & (behind | ~(has_inside | has_behind)),
                )
            ),
        ]
        self._advance_inside(m, lengths, place)
        self._advance_padding(m, lengths, place)
        self._start(m, lengths, place)
        return m

    def _advance_inside(self, m: Module, lengths: "_Lengths", place: "_Place") -> None:
        """Go on from a place that comes from DRAM."""
        with m.If(self.advance & self.inside):
            m.d.sync += [
                place.left.eq(Mux(place.is_last, lengths.size, place.left - 1)),
                place.is_last.eq(Mux(place.is_last, lengths.size_is_one, place.left == 2)),
            ]
            with m.If(place.is_last):
                m.d.sync += [
                    self.inside.eq(~lengths.has_behind & ~lengths.has_before),
                    place.behind.eq(lengths.has_behind),
                ]

    def _advance_padding(self, m: Module, lengths: "_Lengths", place: "_Place") -> None:
        """Go on from a place of the padding."""
        behind, has_before = place.behind, lengths.has_before
        next_pads = Mux(behind, lengths.first, lengths.other)
        with m.If(self.advance & ~self.inside):
            m.d.sync += [
                place.pads.eq(Mux(place.pad_is_last, next_pads, place.pads - 1)),
                place.pad_is_last.eq(Mux(place.pad_is_last, next_pads == 1, place.pads == 2)),
            ]
            with m.If(place.pad_is_last):
                to_inside = lengths.has_inside & (~behind | ~has_before)
                m.d.sync += [
                    self.inside.eq(to_inside),
                    behind.eq(~to_inside & ~behind & lengths.has_behind | ~to_inside & ~has_before),
                ]

    def _start(self, m: Module, lengths: "_Lengths", place: "_Place") -> None:
        """Take the lengths, and go to the first place."""
        with m.If(self.start):
            given = self.stretch
            before = given.before.any()
            first_pads = Mux(before, given.before, given.behind)
            m.d.sync += [
                lengths.has_before.eq(before),
                lengths.has_inside.eq(given.size.any()),
                lengths.has_behind.eq(given.behind.any()),
                lengths.size.eq(given.size),
                lengths.size_is_one.eq(given.size == 1),
                lengths.first.eq(first_pads),
                lengths.other.eq(Mux(given.behind.any(), given.behind, given.before)),
                self.inside.eq(~before & given.size.any()),
                place.behind.eq(~before & ~given.size.any()),
                place.left.eq(given.size),
                place.is_last.eq(given.size == 1),
                place.pads.eq(first_pads),
                place.pad_is_last.eq(first_pads == 1),
            ]


class _Lengths(NamedTuple):
    """Registers of the lengths of a stretch, and which of its parts there are.

    Attributes:
        size_is_one: `size` is 1.
        first, other: lengths of the first padding, and of the padding after it.
    """

    size: Signal
    size_is_one: Signal
    first: Signal
    other: Signal
    has_before: Signal
    has_inside: Signal
    has_behind: Signal


class _Place(NamedTuple):
    """Registers of the place in a stretch.

    Attributes:
        behind: the place is in the padding behind.
        left, is_last: places from DRAM that remain, and whether just one remains.
        pads, pad_is_last: places of the padding that remain, and whether just one remains.
    """

    behind: Signal
    left: Signal
    is_last: Signal
    pads: Signal
    pad_is_last: Signal


class BlockWalk(wiring.Component):
    """Walk the elements of a LOAD's padded block, row by row.

    Parameters:
        config: the accelerator.
        memories: the memory types that its LOADs may name.

    Members:
        plan: the LOAD to walk next; not `empty`.
        start: take it.
        advance: go on to the next element.
        is_data: the element comes from DRAM; else it is padding.
        ends: it is the last element of the block.
        data_row_ends: it is the last element of its row that comes from DRAM.
        data_ends: and that row is the last such.
        index: of the element in its scratchpad.
        lane: the low bits of the element's DRAM address, in elements.

    Timing: outputs follow `start` and `advance` in the next cycle.
    """

    def __init__(self, config: AcceleratorConfig, memories: tuple[MemoryType, ...]) -> None:
        self._lane_bits = beat_lane_bits(config, sources(config, memories))
        super().__init__(
            {
                "plan": In(plan_layout(config, memories)),
                "start": In(1),
                "advance": In(1),
                "is_data": Out(1),
                "ends": Out(1),
                "data_row_ends": Out(1),
                "data_ends": Out(1),
                "index": Out(index_bits(config)),
                "lane": Out(self._lane_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.rows = rows = Stretch()
        m.submodules.columns = columns = Stretch()
        m.d.comb += [
            rows.stretch.eq(self.plan.rows),
            columns.stretch.eq(self.plan.columns),
            rows.start.eq(self.start),
            columns.start.eq(self.start),
            columns.advance.eq(self.advance),
            rows.advance.eq(self.advance & columns.ends),
            self.is_data.eq(rows.inside & columns.inside),
            self.ends.eq(rows.ends & columns.ends),
            self.data_row_ends.eq(columns.leaves),
            self.data_ends.eq(columns.leaves & rows.leaves),
        ]
        with m.If(self.start):
            m.d.sync += self.index.eq(self.plan.index)
        with m.Elif(self.advance):
            m.d.sync += self.index.eq(self.index + 1)
        self._walk_lanes(m, self.advance & self.is_data, columns.leaves)
        return m

    def _walk_lanes(self, m: Module, advance: Value, row_ends: Value) -> None:
        lane_row, stride = Signal(self._lane_bits), Signal(self._lane_bits)
        with m.If(advance):
            following = Mux(row_ends, lane_row + stride, self.lane + 1)
            m.d.sync += self.lane.eq(following)
            with m.If(row_ends):
                m.d.sync += lane_row.eq(following)
        with m.If(self.start):
            m.d.sync += [
                self.lane.eq(self.plan.lane),
                lane_row.eq(self.plan.lane),
                stride.eq(self.plan.lane_stride),
            ]
