"""The system on chip of a board: LiteX without a CPU, a bridge to the host, LiteDRAM, and the accelerator.

The host is the only master on the bus. It reaches the accelerator's registers, DRAM and LiteX's control
registers. The accelerator has a separate port into the DRAM controller, with addresses from 0. Nobody but
the host initialises the DRAM: `dram_steps` returns what it has to write.
"""

import json
import math
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from litedram import modules as dram_modules
from litedram import phy as dram_phys
from litedram.frontend.axi import LiteDRAMAXI2Native, LiteDRAMAXIPort
from litedram.init import get_sdram_phy_init_sequence, get_sdram_phy_py_header
from litex.soc.integration.export import get_csr_json
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCCore
from litex.soc.interconnect.axi import AXILiteInterface
from migen import ClockSignal, Instance, ResetSignal

from vdla.boards.description import Board, Memory
from vdla.hw.axi import axi4_lite_signature, axi4_signature
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.registers import REGISTER_SPACE_BITS

MODULE = "vdla_axi"
"""The accelerator's module in its Verilog."""
REGISTERS = 0x3000_0000
"""Byte address of the accelerator's registers on the bus."""
REGISTER_REGION_BYTES = 0x1000
MEMORY = "main_ram"
"""LiteX's name of the region of DRAM on the bus."""
OUTPUT, INPUT = "o", "i"
CHANNELS = ("aw", "ar", "w", "b", "r")


def board_soc(board: Board, config: AcceleratorConfig, verilog: Path, clock_mhz: float) -> Any:
    """Return the system on chip of a board, ready for `build`.

    Args:
        verilog: file with the AXI top of `config`, as module MODULE.
        clock_mhz: of the system.
    """
    platform, clocks = _parts(board)
    hertz = int(clock_mhz * 1e6)
    soc = bare_soc(platform, hertz)
    soc.crg = clocks(platform, hertz)
    _add_dram(soc, board.memory)
    soc.add_uartbone(uart_name=board.link.pads, baudrate=board.link.baud)
    add_accelerator(soc, config, verilog)
    return soc


def bare_soc(platform: Any, hertz: int) -> Any:
    """Return a LiteX system without CPU, memories and serial console; with LiteX's controller, which can
    reset it."""
    return SoCCore(
        platform,
        hertz,
        cpu_type=None,
        integrated_sram_size=0,
        with_uart=False,
        with_timer=False,
    )


def add_accelerator(soc: Any, config: AcceleratorConfig, verilog: Path) -> None:
    """Add the accelerator: its registers to the bus at REGISTERS, its memory port to LiteDRAM, its Verilog to
    the platform.

    Addresses above the size of DRAM wrap: the driver keeps streams and tensors inside.

    Args:
        soc: with a DRAM that `add_sdram` has added under the name "sdram".
        verilog: file with the AXI top of `config`, as module MODULE.
    """
    bits = (soc.bus.regions[MEMORY].size - 1).bit_length()
    memory = LiteDRAMAXIPort(data_width=config.bus_bits, address_width=bits, id_width=1)
    port = soc.sdram.crossbar.get_port(data_width=config.bus_bits)
    soc.submodules += LiteDRAMAXI2Native(memory, port)
    registers = AXILiteInterface(data_width=32, address_width=32)
    region = SoCRegion(origin=REGISTERS, size=REGISTER_REGION_BYTES, cached=False)
    soc.bus.add_slave("vdla", registers, region)
    soc.specials += Instance(
        MODULE,
        i_aclk=ClockSignal("sys"),
        i_aresetn=~ResetSignal("sys"),
        **_connections("m_axi", memory, dict(axi4_signature(config).members), OUTPUT),
        **_connections("s_axi", registers, dict(axi4_lite_signature().members), INPUT),
    )
    soc.platform.add_source(str(verilog))


def _connections(bus: str, interface: Any, wires: Mapping[str, Any], out: str) -> dict[str, Any]:
    """Return the connections of an instance's AXI bus to an interface of LiteX.

    A port that is wider than LiteX's signal (the accelerator's addresses) keeps its high bits open. A port
    that is narrower (the address of a register) gets the low bits.

    Args:
        wires: of the bus, seen from its master.
        out: direction of the wires that the master drives, seen from the instance.
    """
    connections: dict[str, Any] = {}
    for wire, member in wires.items():
        channel = next(name for name in CHANNELS if wire.startswith(name))
        signal = getattr(getattr(interface, channel), wire.removeprefix(channel), None)
        driven = (member.flow.name == "Out") == (out == OUTPUT)
        if signal is not None:
            narrow = signal[:REGISTER_SPACE_BITS] if out == INPUT and wire.endswith("addr") else signal
            connections[f"{OUTPUT if driven else INPUT}_{bus}_{wire}"] = narrow
    return connections


def _parts(board: Board) -> tuple[Any, Any]:
    """Return the platform of a board, and the class of its clock generator."""
    pins = import_module(f"litex_boards.platforms.{board.platform.module}")
    design = import_module(f"litex_boards.targets.{board.platform.module}")
    platform = pins.Platform(toolchain="trellis", **board.platform.arguments)
    if board.platform.extension:
        platform.add_extension(getattr(pins, board.platform.extension))
    return platform, getattr(design, board.platform.clocks)


def _add_dram(soc: Any, memory: Memory) -> None:
    """Add a board's DRAM with its PHY and LiteDRAM's controller; without a cache."""
    arguments = {
        name: dict(enumerate(value)) if isinstance(value, list) else value
        for name, value in memory.arguments.items()
    }
    pads = soc.platform.request(memory.pads)
    phy = getattr(dram_phys, memory.phy)(pads, sys_clk_freq=soc.sys_clk_freq, **arguments)
    for name, value in memory.settings.items():
        setattr(phy.settings, name, value)
    for name, level in memory.tied.items():
        if hasattr(pads, name):
            soc.comb += getattr(pads, name).eq(level)
    if hasattr(phy, "init"):  # the PHY of DDR3 stops and resets the clocks while it starts
        soc.comb += [soc.crg.stop.eq(phy.init.stop), soc.crg.reset.eq(phy.init.reset)]
    part = getattr(dram_modules, memory.part)(soc.sys_clk_freq, memory.rate)
    soc.dram_phy = phy
    soc.add_sdram("sdram", phy=phy, module=part, l2_cache_size=0)


def csr_addresses(soc: Any) -> dict[str, int]:
    """Return the byte address on the bus of each control register of a finalized system, by name."""
    listed = json.loads(get_csr_json(soc.csr_regions))["csr_registers"]
    return {name: register["addr"] for name, register in sorted(listed.items())}


def dram_steps(soc: Any, csr: Mapping[str, int]) -> tuple[tuple[int, int, int], ...]:
    """Return the steps that initialise the DRAM: address of a control register, value, microseconds to wait.

    The commands are those of `litedram.init`. They go through the first phase of the DFI injector. The last
    step hands the DRAM to the controller.
    """
    names: dict[str, Any] = {}
    exec(get_sdram_phy_py_header(*_dram_settings(soc)), names)
    sequence, _ = get_sdram_phy_init_sequence(*_dram_settings(soc))
    ready = names["dfii_control_cke"] | names["dfii_control_odt"] | names["dfii_control_reset_n"]
    steps = [(csr["sdram_dfii_control"], ready, 0)]
    for _, address, bank, command, cycles in sequence:
        value = sum(names[flag.lower()] for flag in command.split("|"))
        wait = math.ceil(cycles * 1e6 / soc.sys_clk_freq)
        steps += [(csr["sdram_dfii_pi0_address"], address, 0), (csr["sdram_dfii_pi0_baddress"], bank, 0)]
        if command.startswith("DFII_CONTROL"):
            steps.append((csr["sdram_dfii_control"], value, wait))
        else:
            steps.append((csr["sdram_dfii_pi0_command"], value, 0))
            steps.append((csr["sdram_dfii_pi0_command_issue"], 1, wait))
    return (*steps, (csr["sdram_dfii_control"], names["dfii_control_sel"], 0))


def _dram_settings(soc: Any) -> tuple[Any, Any]:
    """Return the settings of the PHY and the timing of the DRAM."""
    controller = soc.sdram.controller.settings
    return controller.phy, controller.timing
