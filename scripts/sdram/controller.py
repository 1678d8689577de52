"""LiteDRAM's controller with its model of an SDR SDRAM, as Verilog with an AXI port."""

from types import SimpleNamespace
from typing import Any

from litedram import modules
from litedram.core import LiteDRAMCore
from litedram.core.controller import ControllerSettings
from litedram.frontend.axi import LiteDRAMAXI2Native, LiteDRAMAXIPort
from litedram.phy.gensdrphy import GENSDRPHY
from litedram.phy.model import SDRAMPHYModel
from litex.gen.fhdl.verilog import convert
from migen import ClockDomain, Module, Signal

from vdla.hw.spec.sdram import SdramParameters, controller_parameters

NAME = "litedram"
CHANNELS = ("aw", "w", "b", "ar", "r")
RATE = "1:1"  # the controller's clock to the clock of the SDRAM
PINS = {"a": 13, "ba": 2, "dq": 16, "ras_n": 1, "cas_n": 1, "we_n": 1, "cs_n": 1}


def part_at(name: str, clock_mhz: float) -> Any:
    """Return LiteDRAM's module `name` at a clock; its timings are in cycles."""
    return getattr(modules, name)(clock_mhz * 1e6, RATE)


def phy_settings(clock_mhz: float) -> Any:
    """Return the settings of the PHY that drives an SDR SDRAM at the clock of the controller."""
    pins = SimpleNamespace(**{name: Signal(width, name=name) for name, width in PINS.items()})
    return GENSDRPHY(pins, clock_mhz * 1e6).settings


def parameters_at(name: str, clock_mhz: float) -> SdramParameters:
    """Return the parameters of LiteDRAM's default controller of an SDR SDRAM at a clock."""
    part, settings = part_at(name, clock_mhz), ControllerSettings()
    settings.phy, settings.geom = phy_settings(clock_mhz), part.geom_settings
    settings.timing = part.timing_settings
    return controller_parameters(settings)


class _System(Module):
    """Controller, model of the SDRAM and bridge to AXI."""

    def __init__(self, name: str, clock_mhz: float, bus_bits: int, address_bits: int) -> None:
        part, settings = part_at(name, clock_mhz), phy_settings(clock_mhz)
        self.clock_domains.cd_sys = ClockDomain("sys")
        self.submodules.phy = SDRAMPHYModel(part, settings, clk_freq=clock_mhz * 1e6)
        self.submodules.core = core = LiteDRAMCore(
            self.phy, part.geom_settings, part.timing_settings, clock_mhz * 1e6
        )
        port = core.crossbar.get_port(data_width=bus_bits)
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
    head, found, tail = text.partition(f" {memory}[0:")
    size, end, rest = tail.partition("];")
    if not found or not end:
        raise ValueError(f"LiteDRAM's Verilog has no memory {memory}; its model of the SDRAM has changed")
    return f"{head}{found}{size}] /*verilator public_flat_rw*/;{rest}"
