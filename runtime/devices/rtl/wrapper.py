"""The Verilog module around the core that gives the C++ shim plain ports of fixed widths."""

from amaranth.lib import data

from vdla.hw.signatures import request_layout, write_beat_layout
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.registers import REGISTER_SPACE_BITS

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


def wrapper(config: AcceleratorConfig, name: str) -> str:
    """Return the Verilog of a module `name` that instantiates the module `vdla_core` and takes its payloads
    apart."""
    request, beat = request_layout(config), write_beat_layout(config)
    return _TEMPLATE.format(
        name=name,
        register_high=REGISTER_SPACE_BITS - 1,
        bus_high=config.bus_bits - 1,
        request_high=request.size - 1,
        write_beat_high=beat.size - 1,
        request_write=_part("request", request, "write"),
        request_address=_part("request", request, "address"),
        request_beats=_part("request", request, "beats"),
        write_data=_part("write_beat", beat, "data"),
        write_strobe=_part("write_beat", beat, "strobe"),
        write_last=_part("write_beat", beat, "last"),
    )


def _part(vector: str, layout: data.StructLayout, name: str) -> str:
    field = layout[name]
    return f"{vector}[{field.offset + field.width - 1}:{field.offset}]"
