"""``vdla doctor``."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from shutil import which

import click

from vdla.boards.tools import ecppack, loader, nextpnr_ecp5, usb_serial_ports, yosys
from vdla.cli._options import reports_errors
from vdla.hw.spec.errors import ToolError
from vdla.runtime.devices.rtl.tools import compiler, verilator_root, verilator_version

PACKAGES = ("litex", "litedram", "litex-boards", "liteeth", "pyserial")
BOARDS_COMMAND = 'pip install "vdla[boards]"'
NO_CABLE = "connect the board, and add yourself to the group dialout: sudo usermod -aG dialout $USER"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reports_errors
def command(as_json: bool) -> None:
    """List tools, packages and serial cables for FPGA boards, and how to install what is missing."""
    checks = findings()
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in checks], indent=1))
        return
    widths = [max(len(getattr(finding, name)) for finding in checks) for name in ("purpose", "name")]
    for finding in checks:
        state = finding.state or f"MISSING: {finding.remedy}"
        click.echo(f"{finding.purpose:{widths[0]}}  {finding.name:{widths[1]}}  {state}")
    missing = sum(not finding.state for finding in checks)
    click.echo(f"{len(checks) - missing} there, {missing} missing")


@dataclass(frozen=True, slots=True)
class Finding:
    """The state of a tool, a package or a cable.

    Attributes:
        purpose: what it is for: a heading.
        name: of the tool.
        state: its version or place; "" if it is missing.
        remedy: what to do if it is missing.
    """

    purpose: str
    name: str
    state: str
    remedy: str


def findings() -> list[Finding]:
    """Return the state of everything that building, simulating, loading and driving boards needs."""
    return [
        _tool("synthesis", "yosys", lambda: yosys("synthesis").version),
        _tool("place and route", "nextpnr-ecp5", lambda: nextpnr_ecp5("routing").version),
        _tool("bitstream", "ecppack", lambda: ecppack("packing").version),
        _program("bitstream", "vivado", "install AMD Vivado; only Zynq boards need it"),
        _tool("simulation", "verilator", _verilator),
        _tool("simulation", "C++ compiler", lambda: " ".join(compiler())),
        _program("simulation", "make", "sudo apt-get install make"),
        _tool("flash", "openFPGALoader", lambda: loader("vdla flash").version or "of unknown version"),
        *(_package(name) for name in PACKAGES),
        *_cables(),
    ]


def _verilator() -> str:
    return f"verilator {verilator_version()} in {verilator_root()}"


def _tool(purpose: str, name: str, state: Callable[[], str]) -> Finding:
    """Return the state of a tool whose absence is a ToolError; the message ends with the remedy."""
    try:
        return Finding(purpose, name, state(), "")
    except ToolError as error:
        return Finding(purpose, name, "", str(error).rpartition("it with: ")[2])


def _program(purpose: str, name: str, remedy: str) -> Finding:
    return Finding(purpose, name, which(name) or "", remedy)


def _package(name: str) -> Finding:
    try:
        return Finding("package", name, version(name), "")
    except PackageNotFoundError:
        return Finding("package", name, "", BOARDS_COMMAND)


def _cables() -> list[Finding]:
    """Return the USB serial ports of this machine."""
    try:
        ports = usb_serial_ports()
    except ImportError:
        return []  # the finding of the package says so
    cables = [Finding("cable", device, description, "") for device, description in ports]
    return cables or [Finding("cable", "USB serial port", "", NO_CABLE)]
