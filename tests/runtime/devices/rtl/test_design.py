"""The Verilog around the core: ports and wires of the widths of the core's payloads."""

from vdla.hw.spec.presets import TINY
from vdla.runtime.devices.rtl.design import wrapper


def test_ports_and_wires_have_the_widths_of_the_payloads():
    text = wrapper(TINY.with_changes(name="wide", bus_bits=128), "top")
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == "module top("
    assert lines[2] == "input [7:0] register_address, input register_write,"
    assert lines[7] == "output [127:0] write_data, output [63:0] write_strobe, output write_last,"
    assert lines[8] == "input read_valid, output read_ready, input [127:0] read_data,"
    assert lines[11:19] == [
        "wire [41:0] request;",
        "wire [144:0] write_beat;",
        "assign request_write = request[0:0];",
        "assign request_address = request[36:1];",
        "assign request_beats = request[41:37];",
        "assign write_data = write_beat[127:0];",
        "assign write_strobe = write_beat[143:128];",
        "assign write_last = write_beat[144:144];",
    ]
