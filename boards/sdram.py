"""The timing of a board's DRAM behind LiteDRAM, as the memory of a target."""

from types import SimpleNamespace
from typing import Any

from litedram import modules
from litedram.core.controller import ControllerSettings
from litedram.phy.gensdrphy import GENSDRPHY
from migen import Signal

from vdla.boards.description import Memory
from vdla.hw.spec.sdram import SdramParameters, controller_parameters

MODELLED = ("SDR", "GENSDRPHY", "1:1")
"""Kind, PHY and clock ratio of the memories whose controller has a model."""
PINS = {"a": 13, "ba": 2, "dq": 16, "ras_n": 1, "cas_n": 1, "we_n": 1, "cs_n": 1}


def memory_model(memory: Memory, clock_mhz: float) -> SdramParameters | None:
    """Return the model of a board's DRAM at a system clock; None if there is no model of its controller."""
    if (memory.kind, memory.phy, memory.rate) != MODELLED:
        return None
    return parameters_at(memory.part, clock_mhz)


def parameters_at(name: str, clock_mhz: float) -> SdramParameters:
    """Return the parameters of LiteDRAM's default controller of an SDR SDRAM at a clock."""
    part, settings = part_at(name, clock_mhz), ControllerSettings()
    settings.phy, settings.geom = phy_settings(clock_mhz), part.geom_settings
    settings.timing = part.timing_settings
    return controller_parameters(settings)


def part_at(name: str, clock_mhz: float) -> Any:
    """Return LiteDRAM's module `name` at a clock; its timings are in cycles."""
    _, _, rate = MODELLED
    return getattr(modules, name)(clock_mhz * 1e6, rate)


def phy_settings(clock_mhz: float) -> Any:
    """Return the settings of the PHY that drives an SDR SDRAM at the clock of the controller."""
    pins = SimpleNamespace(**{name: Signal(width, name=name) for name, width in PINS.items()})
    return GENSDRPHY(pins, clock_mhz * 1e6).settings
