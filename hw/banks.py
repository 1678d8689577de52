"""The input scratchpad in banks, from which a DEPTHWISE reads the rows of its window in one cycle."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amaranth.utils import ceil_log2

from vdla.hw.halves import HalvedScratchpad, scratchpad
from vdla.hw.operand import choice
from vdla.hw.scratchpad import Scratchpad
from vdla.hw.signatures import has_banks, input_read, scratchpad_write
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType


class BankedScratchpad(wiring.Component):
    """The elements of INP, in banks by the low bits of their index: zero at power-up, kept over resets.

    There are as many banks as the window of a DEPTHWISE has rows, or the next power of two. Its rows are an
    odd number of elements apart, so no two rows share a bank.

    Parameters:
        config: the accelerator.

    Members:
        write: the written lanes of one element per cycle.
        read: an element of each row of a window per cycle. Of rows in one bank, only the first is read; the
            data of the others are undefined.

    Timing: as `Scratchpad`, but data follow their addresses by two cycles: a register follows the choice of
    a bank.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self.banks = banks_of(config)
        super().__init__(
            {"write": In(scratchpad_write(config, MemoryType.INP)), "read": In(input_read(config))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        low = int(ceil_log2(self.banks))
        places = [self.read.address[row] for row in range(self.config.window.rows)]
        banks = [self._bank(m, number, low, places) for number in range(self.banks)]
        for row in range(0, len(places), 2):
            self._pair(m, row, [place[:low] for place in places[row : row + 2]], banks)
        return m

    def _pair(self, m: Module, row: int, chosen: list[Value], banks: list[Value]) -> None:
        """Give the elements of two neighbouring rows, of the banks `chosen`: an even bank and an odd bank.
        So both choose from the same two. If the banks are not an even and an odd bank, the first row is
        right."""
        first, other = chosen[0], chosen[-1]
        odd = Signal(name=f"odd_{row}")
        m.d.sync += odd.eq(first[0])
        of_even: Value = Const(0, 0)
        of_odd: Value = Const(0, 0)
        if len(first) > 1:
            of_even, of_odd = (Signal(len(first) - 1, name=f"{name}_{row}") for name in ("even", "uneven"))
            m.d.sync += [
                of_even.eq(Mux(first[0], other[1:], first[1:])),
                of_odd.eq(Mux(first[0], first[1:], other[1:])),
            ]
        even, uneven = choice(banks[::2], of_even), choice(banks[1::2], of_odd)
        pairs = ((uneven, even), (even, uneven))[: len(chosen)]
        for number, (if_odd, if_even) in enumerate(pairs, row):
            value = Signal.like(even, name=f"row_{number}")
            m.d.sync += value.eq(Mux(odd, if_odd, if_even))
            m.d.comb += self.read.data[number].eq(value)

    def _bank(self, m: Module, number: int, low: int, places: list[Value]) -> Value:
        """Add the memory of a bank, and return what is read of it: the first row that is in it."""
        m.submodules[f"bank_{number}"] = bank = Scratchpad(self.config, MemoryType.INP, self.banks)
        *first, address = (place[low:] for place in places)
        for place, own in reversed(list(zip(places, first, strict=False))):
            address = Mux(place[:low] == number, own, address)
        here = self.write.address[:low] == number
        m.d.comb += [
            bank.write.address.eq(self.write.address[low:]),
            bank.write.data.eq(self.write.data),
            bank.write.enable.eq(self.write.enable & here.replicate(len(self.write.enable))),
            bank.read.address.eq(address),
        ]
        return bank.read.data


def banks_of(config: AcceleratorConfig) -> int:
    """Return the banks of INP: as many as the window of a DEPTHWISE has rows, or the next power of two."""
    return 1 << int(ceil_log2(config.window.rows))


def memory_of(config: AcceleratorConfig, memory: MemoryType) -> wiring.Component:
    """Return the memory of the elements of a type: INP in banks, accumulators in halves, if the configuration
    has such."""
    if has_banks(config) and memory is MemoryType.INP:
        return BankedScratchpad(config)
    found: Scratchpad | HalvedScratchpad = scratchpad(config, memory)
    return found
