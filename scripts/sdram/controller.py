"""LiteDRAM's controller with its model of an SDR SDRAM, as Verilog with an AXI port."""

from litedram.core import LiteDRAMCore
from litedram.frontend.axi import LiteDRAMAXI2Native, LiteDRAMAXIPort
from litedram.phy.model import SDRAMPHYModel
from litex.gen.fhdl.verilog import convert
from migen import ClockDomain, Module

from vdla.boards.sdram import full_rate_port, part_at, phy_settings

NAME = "litedram"
CHANNELS = ("aw", "w", "b", "ar", "r")


class _System(Module):
    """Controller, model of the SDRAM and bridge to AXI."""

    def __init__(self, name: str, clock_mhz: float, bus_bits: int, address_bits: int) -> None:
        part, settings = part_at(name, clock_mhz), phy_settings(clock_mhz)
        self.clock_domains.cd_sys = ClockDomain("sys")
        self.submodules.phy = SDRAMPHYModel(part, settings, clk_freq=clock_mhz * 1e6)
        self.submodules.core = core = LiteDRAMCore(
            self.phy, part.geom_settings, part.timing_settings, clock_mhz * 1e6
        )
        port, converter = full_rate_port(core.crossbar, bus_bits)
        self.submodules += converter
        self.axi = LiteDRAMAXIPort(data_width=bus_bits, address_width=address_bits, id_width=1)
        self.submodules.bridge = LiteDRAMAXI2Native(self.axi, port)


def controller_verilog(name: str, clock_mhz: float, bus_bits: int, address_bits: int) -> str:
    """Return the Verilog of a module NAME: the controller with the SDRAM part `name` behind it.

    The four banks of the SDRAM are the memories `mem`, `mem_1`, `mem_2` and `mem_3`, which a harness can read
    and write.
    """
    system = _System(name, clock_mhz, bus_bits, address_bits)
    ports = {system.cd_sys.clk, system.cd_sys.rst}
    for channel in CHANNELS:
        ports |= set(getattr(system.axi, channel).flatten())
    text: str = convert(system, ports, name=NAME).main_source
    for bank in ("mem", "mem_1", "mem_2", "mem_3"):
        text = _public(text, bank)
    return text


def _public(text: str, memory: str) -> str:
    """Return Verilog in which the harness can read and write a memory."""
    head, declaration, tail = text.partition(f" {memory}[0:")
    size, end, rest = tail.partition("];")
    if not declaration or not end:
        raise ValueError(f"LiteDRAM's Verilog has no memory {memory}; its model of the SDRAM has changed")
    return f"{head}{declaration}{size}] /*verilator public_flat_rw*/;{rest}"
