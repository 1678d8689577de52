"""What the division of rows into bursts promises."""

from amaranth.hdl import Module, Mux
from amaranth.utils import exact_log2

from vdla.hw.bursts import RowCutter
from vdla.hw.formal.proof import Proof
from vdla.hw.spec.config import AcceleratorConfig


class RowCutterProof(Proof):
    """The first burst of a row ends at the next multiple of `burst_bytes`, or with the row.

    Parameters:
        config: the accelerator.
        bits: width of a row's length.
    """

    def __init__(self, config: AcceleratorConfig, bits: int, only: str | None = None) -> None:
        super().__init__(only)
        self.config, self.bits = config, bits

    def build(self, m: Module) -> None:
        m.submodules.cutter = cutter = RowCutter(self.config, self.bits)
        offset, last = self.free("offset", len(cutter.offset)), self.free("last", self.bits)
        m.d.comb += [cutter.offset.eq(offset), cutter.last.eq(last)]
        size, bus = self.config.burst_bytes, exact_log2(self.config.bus_bytes)
        here = Mux(offset + last < size, last + 1, size - offset)  # bytes of the burst
        beats = ((offset + here - 1) >> bus) - (offset >> bus) + 1
        self.claims |= {
            "ends: with the row": cutter.ends == (offset + last < size),
            "beats: those that the burst touches": cutter.beats == beats,
            "beats: at least one, at most burst_beats": (cutter.beats > 0)
            & (cutter.beats <= self.config.burst_beats),
            "the burst lies inside a multiple of burst_bytes": (offset >> bus) + cutter.beats
            <= self.config.burst_beats,
            "rest: the other bytes": cutter.ends | (cutter.rest + here == last),
        }
