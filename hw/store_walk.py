"""The way of a STORE through DRAM: which place each read fills, and where beats, bursts and rows end."""

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from vdla.hw.layouts import decode
from vdla.hw.signatures import request_layout
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import INSTRUCTION_BITS, MemoryType
from vdla.hw.store_beats import parts_of_element, read_layout


class _Walk(NamedTuple):
    """The registers of a walk: byte addresses of the read and of its row; reads left in the row, and whether
    it is the last; rows left, likewise; the read's part; the beat in which its burst begins."""

    address: Signal
    row: Signal
    left: Signal
    row_ends: Signal
    rows: Signal
    last_row: Signal
    part: Signal
    begun: Signal


class RowWalk(wiring.Component):
    """Walk the rows of a STORE in DRAM, read by read, and cut them into bursts.

    Parameters:
        config: the accelerator.

    Members:
        taken: a STORE to begin with, as encoded.
        take: begin with it.
        advance: go on to the next read.
        read: where the outputs go; `valid`, `empty` and `scales` are left to others.
        element_ends: this is the last read of its element.
        last: it is the last of the STORE.
        address, beats: of the burst that the read belongs to; beats up to this read's.

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
                "taken": In(INSTRUCTION_BITS),
                "take": In(1),
                "advance": In(1),
                "read": Out(read_layout(config)),
                "element_ends": Out(1),
                "last": Out(1),
                "address": Out(request["address"].shape),
                "beats": Out(request["beats"].shape),
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
        stride, reads, single = Signal(16), Signal.like(walk.left), Signal()
        with m.If(self.advance):
            self._go_on(m, walk, stride, reads, single)
        with m.If(self.take):
            self._begin(m, walk, stride, reads, single)
        return m

    def _registers(self) -> _Walk:
        config = self.config
        row_bits = 16 + exact_log2(self._parts)
        return _Walk(
            address=Signal(config.address_bits),
            row=Signal(config.address_bits),
            left=Signal(row_bits),
            row_ends=Signal(),
            rows=Signal(16),
            last_row=Signal(),
            part=Signal(parts_of_element(config)),
            begun=Signal(max(1, self._burst_bits - self._beat_bits)),
        )

    def _go_on(self, m: Module, walk: _Walk, stride: Signal, reads: Signal, single: Signal) -> None:
        """Step behind a read: to the next one of the row, or to the next row."""
        places = exact_log2(self.config.element_bytes(MemoryType.OUT))
        following_row = walk.row + (stride << places)
        following = Mux(walk.row_ends, following_row, walk.address + self.config.store_read_bytes)
        m.d.sync += [
            walk.address.eq(following),
            walk.left.eq(walk.left - 1),
            walk.row_ends.eq(walk.left == 2),
            walk.part.eq(Mux(self.element_ends, 0, walk.part + 1)),
        ]
        with m.If(self.read.burst_ends):
            m.d.sync += walk.begun.eq(following[self._beat_bits : self._burst_bits])
        with m.If(walk.row_ends):
            m.d.sync += [
                walk.row.eq(following_row),
                walk.left.eq(reads),
                walk.row_ends.eq(single),
                walk.rows.eq(walk.rows - 1),
                walk.last_row.eq(walk.rows == 2),
            ]

    def _begin(self, m: Module, walk: _Walk, stride: Signal, reads: Signal, single: Signal) -> None:
        """Stand at the first read of an instruction that is taken."""
        places = exact_log2(self.config.element_bytes(MemoryType.OUT))
        store = decode(isa.Store, self.config, self.taken)
        base, all_reads = store.dram_base << places, store.x_size << exact_log2(self._parts)
        m.d.sync += [
            walk.address.eq(base),
            walk.row.eq(base),
            walk.left.eq(all_reads),
            walk.row_ends.eq(all_reads == 1),
            walk.rows.eq(store.y_size),
            walk.last_row.eq(store.y_size == 1),
            walk.part.eq(0),
            walk.begun.eq(base[self._beat_bits : self._burst_bits]),
            stride.eq(store.x_stride),
            reads.eq(all_reads),
            single.eq(all_reads == 1),
        ]


def _all(bits: Value) -> Value:
    """Return whether every bit is set, of bits that may be none."""
    return bits.all() if len(bits) else Const(1)
