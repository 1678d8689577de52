"""The accumulators in two halves: steps write one of them while a LOAD writes the other."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from vdla.hw.scratchpad import Scratchpad
from vdla.hw.signatures import scratchpad_read, scratchpad_write
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memories import LOADED_INTO_ACC
from vdla.hw.spec.vocabulary import Extension, MemoryType

HALVES = 2


def has_halves(config: AcceleratorConfig, memories: tuple[MemoryType, ...] = (MemoryType.ACC,)) -> bool:
    """Return whether an engine that loads `memories` may load one half of ACC beside steps in the other."""
    return config.has(Extension.ACC_HALVES) and MemoryType.ACC in memories


def writes_other_half(load: data.View) -> Value:
    """Return whether a LOAD promises to write the half of ACC in which no step works; only where there are
    halves."""
    of_acc = Cat(load.memory_type == memory for memory in LOADED_INTO_ACC)
    return load.beside & of_acc.any()


class HalvedScratchpad(wiring.Component):
    """The elements of one memory, in a lower and an upper half: zero at power-up, kept over resets.

    Parameters:
        config: the accelerator.
        memory: ACC, or OUT: its shadow with only the low bits.

    Members:
        write: the written lanes of one element per cycle.
        load: another write port. In a cycle in which both write, they must write different halves, or `load`
            writes nothing.
        read: one element per cycle.

    Timing: as `Scratchpad`.
    """

    def __init__(self, config: AcceleratorConfig, memory: MemoryType) -> None:
        self.config = config
        self.memory = memory
        super().__init__(
            {
                "write": In(scratchpad_write(config, memory)),
                "load": In(scratchpad_write(config, memory)),
                "read": In(scratchpad_read(config, memory)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        upper = Signal()
        lower_data, upper_data = (self._half(m, number) for number in range(HALVES))
        m.d.sync += upper.eq(self.read.address[-1])
        m.d.comb += self.read.data.eq(Mux(upper, upper_data, lower_data))
        return m

    def _half(self, m: Module, number: int) -> Value:
        """Add the memory of a half, and return what is read of it."""
        m.submodules[f"half_{number}"] = half = Scratchpad(self.config, self.memory, HALVES)
        steps, loads = (
            port.enable & (port.address[-1] == number).replicate(len(port.enable))
            for port in (self.write, self.load)
        )
        m.d.comb += [
            half.write.address.eq(Mux(steps.any(), self.write.address, self.load.address)),
            half.write.data.eq(Mux(steps.any(), self.write.data, self.load.data)),
            half.write.enable.eq(Mux(steps.any(), steps, loads)),
            half.read.address.eq(self.read.address),
        ]
        return half.read.data


def scratchpad(config: AcceleratorConfig, memory: MemoryType) -> Scratchpad | HalvedScratchpad:
    """Return the memory of the elements of a type: in halves if these are accumulators, and have such."""
    is_halved = has_halves(config) and memory in (MemoryType.ACC, MemoryType.OUT)
    return HalvedScratchpad(config, memory) if is_halved else Scratchpad(config, memory)
