"""A board's DRAM behind LiteDRAM: its timing, as the memory of a target, and a port into it."""

from types import SimpleNamespace
from typing import Any

from litedram import modules
from litedram.common import LiteDRAMNativePort
from litedram.core.controller import ControllerSettings
from litedram.phy.gensdrphy import GENSDRPHY
from litex.soc.interconnect.stream import Pipeline, StrideConverter
from migen import Cat, If, Module, Signal

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


def full_rate_port(crossbar: Any, data_width: int) -> tuple[LiteDRAMNativePort, Module]:
    """Return a port into a LiteDRAM controller, and a module that converts its width.

    A narrower controller gets `full_rate_converter`, any other LiteDRAM's standard converter.

    Args:
        crossbar: of the controller.
        data_width: of the port, in bits.
    """
    words = data_width // crossbar.controller.data_width
    if words < 2:
        return crossbar.get_port(data_width=data_width), Module()
    narrow = crossbar.get_port()
    address_bits = narrow.address_width - (words - 1).bit_length()
    wide = LiteDRAMNativePort("both", address_bits, data_width, id=narrow.id)
    return wide, full_rate_converter(wide, narrow)


def full_rate_converter(wide: LiteDRAMNativePort, narrow: LiteDRAMNativePort) -> Module:
    """Return a converter from a port of wide beats to a port of words, without idle cycles between beats.

    LiteDRAM's converter takes a command only when the words of the last command are all commanded, and so
    idles for a cycle behind each beat. This converter holds the next command meanwhile. An accepted command
    leaves as commands of its words, in ascending order, the first a cycle later. `wide.cmd.ready` is a
    register's value, so commands of the two ports share no combinational path.

    Args:
        wide: port of the user, in the mode "both".
        narrow: port of LiteDRAM's crossbar.

    Raises:
        ValueError: the beats do not have 2, 4, 8, ... words.
    """
    words = wide.data_width // narrow.data_width
    if words < 2 or words & (words - 1) or words * narrow.data_width != wide.data_width:
        raise ValueError(
            f"a port of {wide.data_width} bits is not 2, 4, 8, ... times as wide as a port of "
            f"{narrow.data_width} bits"
        )
    converter = Module()
    _divide_commands(converter, wide.cmd, narrow.cmd, words)
    write = StrideConverter(wide.wdata.description, narrow.wdata.description)
    read = StrideConverter(narrow.rdata.description, wide.rdata.description)
    converter.submodules += write, Pipeline(wide.wdata, write, narrow.wdata)
    converter.submodules += read, Pipeline(narrow.rdata, read, wide.rdata)
    return converter


def _divide_commands(converter: Module, wide: Any, narrow: Any, words: int) -> None:
    """Divide each command into the commands of its words; hold the next command meanwhile."""
    busy, place, address, writes = Signal(), Signal(max=words), Signal(len(wide.addr)), Signal()
    waits, next_address, next_writes = Signal(), Signal(len(wide.addr)), Signal()
    free, takes = Signal(), Signal()
    converter.comb += [
        wide.ready.eq(~waits),
        takes.eq(wide.valid & ~waits),
        narrow.valid.eq(busy),
        narrow.we.eq(writes),
        narrow.addr.eq(Cat(place, address)),
        free.eq(~busy | (narrow.ready & (place == words - 1))),
    ]
    converter.sync += [
        If(busy & narrow.ready, place.eq(place + 1)),
        If(~waits, next_address.eq(wide.addr), next_writes.eq(wide.we)),
        If(
            free,
            busy.eq(waits | takes),
            waits.eq(0),
            If(waits, address.eq(next_address), writes.eq(next_writes)).Else(
                address.eq(wide.addr), writes.eq(wide.we)
            ),
        ).Elif(takes, waits.eq(1)),
    ]
