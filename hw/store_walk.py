"""The way of a STORE through DRAM: which place each read fills, and where beats, bursts and rows end."""

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from vdla.hw.signatures import request_layout
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.hw.store_beats import parts_of_element, read_layout
from vdla.hw.store_words import decode_shared


class _Walk(NamedTuple):
    """The registers of a walk.

    `address`, `row`: bytes, of the read and of the first read of its row. `row_begins`, `row_ends`,
    `last_row`: of the read. `reads`, `rows`: number of the next read in its row and of the next row, from 2
    on. `part`: of the read in its element. `begun`: the beat in which its burst begins.
    """

    address: Signal
    row: Signal
    row_begins: Signal
    row_ends: Signal
    last_row: Signal
    reads: Signal
    rows: Signal
    part: Signal
    begun: Signal


class _Size(NamedTuple):
    """The size of a STORE: elements between rows, reads of a row, whether there is just one, and rows."""

    stride: Signal
    reads: Signal
    single: Signal
    rows: Signal


class RowWalk(wiring.Component):
    """Walk the rows of a STORE in DRAM, read by read, and cut them into bursts.

    Parameters:
        config: the accelerator.

    Members:
        taken: a STORE to begin with, as encoded.
        take: begin with it.
        advance: go on to the next read.
        read: where the outputs go; what no member of `RowWalk` tells is left to others.
        element_ends: this is the last read of its element.
        last: it is the last of the STORE.
        address, beats: of the burst that the read belongs to; beats up to this read's.
        beyond: the element is past the end of INP; only where outputs can go there. The walk then goes
            through INP, whose elements are as long as elements of OUT.

    Timing: outputs follow `take` and `advance` in the next cycle. What they depend on over more than a few
    bits was computed the read before.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self._parts = config.element_bytes(MemoryType.OUT) // config.store_read_bytes
        self._read_bits = exact_log2(config.store_read_bytes)
        self._beat_bits, self._burst_bits = exact_log2(config.bus_bytes), exact_log2(config.burst_bytes)
        request = request_layout(config)
        super().__init__(
            {
                "taken": In(config.instruction_bits),
                "take": In(1),
                "advance": In(1),
                "read": Out(read_layout(config)),
                "element_ends": Out(1),
                "last": Out(1),
                "address": Out(request["address"].shape),
                "beats": Out(request["beats"].shape),
                **({"beyond": Out(1)} if config.has(Extension.FEEDBACK) else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        walk = self._registers()
        in_burst = walk.address[self._beat_bits : self._burst_bits]
        row_ends = walk.row_ends
        m.d.comb += [
            self.element_ends.eq(walk.part == self._parts - 1),
            self.last.eq(row_ends & walk.last_row),
            self.read.lane.eq(walk.address[self._read_bits : self._beat_bits]),
            self.read.part.eq(walk.part),
            self.read.beat_ends.eq(row_ends | _all(walk.address[self._read_bits : self._beat_bits])),
            self.read.burst_ends.eq(row_ends | _all(walk.address[self._read_bits : self._burst_bits])),
            self.address.eq(
                Cat(Const(0, self._beat_bits), walk.begun[: len(in_burst)], walk.address[self._burst_bits :])
            ),
            self.beats.eq(in_burst - walk.begun[: len(in_burst)] + 1),
        ]
        if self.config.has(Extension.FEEDBACK):
            element = walk.address[exact_log2(self.config.element_bytes(MemoryType.OUT)) :]
            inside = self.config.index_bits(MemoryType.INP)
            m.d.comb += [self.read.input.eq(element), self.beyond.eq(element[inside:].any())]
        size = _Size(Signal(16), Signal.like(walk.reads), Signal(), Signal.like(walk.rows))
        with m.If(self.advance):
            self._go_on(m, walk, size)
        with m.If(self.take):
            self._begin(m, walk, size)
        return m

    def _registers(self) -> _Walk:
        config = self.config
        return _Walk(
            address=Signal(config.address_bits),
            row=Signal(config.address_bits),
            row_begins=Signal(),
            row_ends=Signal(),
            last_row=Signal(),
            reads=Signal(16 + exact_log2(self._parts)),
            rows=Signal(16),
            part=Signal(parts_of_element(config)),
            begun=Signal(max(1, self._burst_bits - self._beat_bits)),
        )

    def _go_on(self, m: Module, walk: _Walk, size: _Size) -> None:
        """Step behind a read: to the next read of the row, or to the next row."""
        places = exact_log2(self.config.element_bytes(MemoryType.OUT))
        following = Mux(walk.row_ends & ~walk.row_begins, walk.row, walk.address) + Mux(
            walk.row_ends, size.stride << places, self.config.store_read_bytes
        )
        m.d.sync += [
            walk.address.eq(following),
            walk.row_begins.eq(walk.row_ends),
            walk.reads.eq(walk.reads + 1),
            walk.row_ends.eq(walk.reads == size.reads),
            walk.part.eq(Mux(self.element_ends, 0, walk.part + 1)),
        ]
        with m.If(walk.row_begins):
            m.d.sync += walk.row.eq(walk.address)
        with m.If(self.read.burst_ends):
            m.d.sync += walk.begun.eq(following[self._beat_bits : self._burst_bits])
        with m.If(walk.row_ends):
            m.d.sync += [
                walk.reads.eq(2),
                walk.row_ends.eq(size.single),
                walk.rows.eq(walk.rows + 1),
                walk.last_row.eq(walk.rows == size.rows),
            ]

    def _begin(self, m: Module, walk: _Walk, size: _Size) -> None:
        """Stand at the first read of an instruction that is taken."""
        store = decode_shared(self.config, self.taken)
        base = store.dram_base << exact_log2(self.config.element_bytes(MemoryType.OUT))
        reads = store.x_size << exact_log2(self._parts)
        m.d.sync += [
            walk.address.eq(base),
            walk.row_begins.eq(1),
            walk.row_ends.eq(reads == 1),
            walk.last_row.eq(store.y_size == 1),
            walk.reads.eq(2),
            walk.rows.eq(2),
            walk.part.eq(0),
            walk.begun.eq(base[self._beat_bits : self._burst_bits]),
            size.stride.eq(store.x_stride),
            size.reads.eq(reads),
            size.single.eq(reads == 1),
            size.rows.eq(store.y_size),
        ]


def _all(bits: Value) -> Value:
    """Return whether every bit is set, of bits that may be none."""
    return bits.all() if len(bits) else Const(1)
