"""On-chip memories with one write port, which writes lanes, and one read port."""

from amaranth.hdl import Module, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In

from vdla.hw.signatures import lanes, scratchpad_read, scratchpad_write
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType

COLLISIONS_ARE_FREE = {
    "no_rw_check": 1
}  # Yosys: build nothing to order a read and a write of one address in one cycle


class Scratchpad(wiring.Component):
    """The elements of one memory: zero at power-up, kept over resets.

    Parameters:
        config: the accelerator.
        memory: the memory type; OUT is a shadow that holds only the low bits of every accumulator.
        parts: how many such memories the elements are divided into; the low bits of an
            address count within it.

    Members:
        write: the written lanes of one element per cycle.
        read: one element per cycle.

    Timing: a write in cycle t is seen by reads whose address is given from t + 1 on. Data follows its address
    by one cycle. Reading an element in the cycle in which it is written gives the old element, the new
    element, or a mix. Tokens and the compute unit's forwarding ensure that no such read is used.
    """

    def __init__(self, config: AcceleratorConfig, memory: MemoryType, parts: int = 1) -> None:
        self._depth = config.depth(memory) // parts
        self._bits = config.element_bits(memory)
        self._lanes = lanes(config, memory)
        super().__init__(
            {"write": In(scratchpad_write(config, memory)), "read": In(scratchpad_read(config, memory))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(
            shape=unsigned(self._bits), depth=self._depth, init=[], attrs=COLLISIONS_ARE_FREE
        )
        write = memory.write_port(granularity=self._bits // self._lanes)
        read = memory.read_port()
        m.d.comb += [
            write.addr.eq(self.write.address),
            write.data.eq(self.write.data),
            write.en.eq(self.write.enable),
            read.addr.eq(self.read.address),
            read.en.eq(1),
            self.read.data.eq(read.data),
        ]
        return m
