"""Verilog emission: one self-contained, deterministic file per configuration and top."""

import re
from collections.abc import Mapping

from amaranth._toolchain import require_tool
from amaranth._toolchain.yosys import find_yosys
from amaranth.hdl import ClockDomain, ClockSignal, Elaboratable, Module, ResetSignal, Signal
from amaranth.lib import wiring

from vdla.hw.axi import AxiTop
from vdla.hw.core import Core
from vdla.hw.rtlil import Rtlil, rtlil_of
from vdla.hw.spec.children import python_command, run
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.files import to_toml
from vdla.hw.verilog_text import finished, with_port_header
from vdla.hw.vivado import Window, interface_attributes

TOPS: Mapping[str, type[Core | AxiTop]] = {"core": Core, "axi": AxiTop}
OLDEST_YOSYS = (0, 40)
NAME_CHARACTERS, DIGEST_CHARACTERS = 32, 8
_WAIVED = {
    "DECLFILENAME": "one file holds all modules",
    "UNUSEDSIGNAL": "carries that are not kept; fields of payloads, which waveforms show",
    "SYMRSVDWORD": "the port `interrupt` has the name of a C++ function",
}
_INTERNAL = ("generator", "top", "src", "amaranth.hierarchy", "amaranth.decoding")


def module_name(config: AcceleratorConfig, top: str) -> str:
    """Return a name for the top module that tells the configuration: its name and the start of its digest.

    Sub-modules have it as their prefix, so that several accelerators fit into one design.
    """
    label = re.sub(r"[^a-z0-9]+", "_", config.name.lower()).strip("_")[:NAME_CHARACTERS]
    return "_".join(filter(None, ("vdla", top, label, config.digest[:DIGEST_CHARACTERS])))


def emit(
    config: AcceleratorConfig, top: str = "core", name: str | None = None, window: Window | None = None
) -> str:
    """Return the Verilog of `top` ("core" or "axi").

    Clock and reset are `clk` and `rst` (high, synchronous) of the core, `aclk` and `aresetn` (low,
    synchronous) of the AXI top.

    Args:
        name: of the top module; None: `vdla_core` or `vdla_axi`, whatever the configuration.
        window: of memory that the AXI top is to reach; None: its addresses are bus addresses.
    """
    component, name = TOPS[top](config), name or f"vdla_{top}"
    text = (
        _convert_axi(component, name, window) if isinstance(component, AxiTop) else convert(component, name)
    )
    return _header(config, name) + text


def convert(component: Elaboratable, name: str, ports: object = None) -> str:
    """Return the Verilog of any component, as deterministic and portable as `emit`'s.

    Args:
        ports: as for `rtlil_of`.

    Raises:
        ToolError: Yosys fails, for instance because the folder of temporary files is full.
    """
    design = rtlil_of(component, name, ports)
    return finished(_written(design), design.sources)


def _written(design: Rtlil) -> str:
    """Return what Yosys writes for a design."""
    removed = " ".join(f"-remove {name}" for name in _INTERNAL)
    script = (
        f"read_rtlil <<rtlil\n{design.text}\nrtlil",
        "proc -nomux -norom -noopt",
        "memory_collect",
        f"attrmap {removed}",
        f"attrmap -modattr {removed}",
        "write_verilog -norename",
    )
    done = run([*_yosys(), "-q", "-"], given="\n".join(script))
    if done.status:
        reason = (done.errors.strip().splitlines() or ["it did not say why"])[-1]
        raise ToolError(f"Yosys, which writes the Verilog, failed: {reason}")
    return done.output


def _yosys() -> list[str]:
    """Return the command of the Yosys that Amaranth chooses: an installed Yosys, or its package's."""
    tool = find_yosys(lambda version: version >= OLDEST_YOSYS)
    package = getattr(tool, "YOSYS_PACKAGE", None)
    return [require_tool("yosys")] if package is None else python_command(package)


def _convert_axi(component: AxiTop, name: str, window: Window | None) -> str:
    """Emit with the port names that vendor tools take for interfaces, `m_axi_awaddr` instead of
    `m_axi__awaddr`, and with the attributes by which Vivado knows them."""
    m, widths = Module(), window.widths if window else {}
    m.domains.sync = ClockDomain("sync")
    m.submodules.top = component
    ports = {port: Signal(name=port) for port in ("aclk", "aresetn")}
    m.d.comb += [ClockSignal("sync").eq(ports["aclk"]), ResetSignal("sync").eq(~ports["aresetn"])]
    for path, member, value in component.signature.flatten(component):
        port = "_".join(map(str, path))
        ports[port] = signal = Signal(widths.get(port, value.shape()), name=port)
        outward = window.on_bus(port, value) if window else value
        m.d.comb += value.eq(signal) if member.flow is wiring.In else signal.eq(outward)
    text = convert(m, name, {port: (signal, None) for port, signal in ports.items()})
    return with_port_header(text, name, interface_attributes(component.config, window))


def _header(config: AcceleratorConfig, name: str) -> str:
    lines = [
        f"{name}: generated by vdla from this configuration",
        "",
        *to_toml(config).splitlines(),
        f"digest = {config.digest}",
        "",
        "lint by Verilator (-Wall) is clean but for these, which are meant:",
        *(f"{warning}: {reason}" for warning, reason in _WAIVED.items()),
    ]
    comments = "".join(f"// {line}".rstrip() + "\n" for line in lines)
    return comments + "\n" + "".join(f"/* verilator lint_off {warning} */\n" for warning in _WAIVED) + "\n"
