"""Windows of memory: which are refused, and what reaches the buses of the Verilog behind a window."""

import re
import subprocess

import pytest

from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.registers import IDENTITY, OFFSETS, Control
from vdla.hw.verilog import emit
from vdla.hw.vivado import Window, interface_attributes

WINDOW = Window(0x1800_0000, 0x0800_0000)
BENCH = """
`timescale 1ns/1ns
module bench;
  reg aclk = 0, aresetn = 0, valid = 0, reading = 0;
  reg [11:0] address;
  reg [31:0] data;
  wire awready, arvalid, rvalid;
  wire [31:0] araddr, rdata;
  always #5 aclk = ~aclk;
  vdla_axi dut (.aclk(aclk), .aresetn(aresetn), .m_axi_arvalid(arvalid), .m_axi_araddr(araddr), .m_axi_arready(1'b0),
    .m_axi_awready(1'b0), .m_axi_wready(1'b0), .m_axi_rvalid(1'b0), .m_axi_bvalid(1'b0),
    .s_axi_awaddr(address), .s_axi_awvalid(valid), .s_axi_awready(awready), .s_axi_wdata(data), .s_axi_wstrb(4'hf),
    .s_axi_wvalid(valid), .s_axi_bready(1'b1), .s_axi_araddr(address), .s_axi_arvalid(reading), .s_axi_rdata(rdata),
    .s_axi_rvalid(rvalid), .s_axi_rready(1'b1));
  task put(input [11:0] where, input [31:0] what); begin
    address = where; data = what; valid = 1;
    @(posedge aclk); while (!awready) @(posedge aclk);
    #1 valid = 0; repeat (4) @(posedge aclk);
  end endtask
  initial begin
    repeat (4) @(posedge aclk);
    #1 aresetn = 1;
    address = IDENTITY; reading = 1;
    while (!rvalid) @(posedge aclk);
    $display("identity %h", rdata);
    #1 reading = 0;
    put(STREAM_ADDRESS, START_ADDRESS); put(STREAM_COUNT, 1); put(CONTROL, START);
    while (!arvalid) @(posedge aclk);
    $display("address %h", araddr);
    $finish;
  end
  initial #20000 $finish;
endmodule
"""


def simulated(folder, start_address):
    """Return what the bench prints: the register IDENTITY, and the address of the first read of a stream."""
    values = {name: str(OFFSETS[name]) for name in ("IDENTITY", "STREAM_ADDRESS", "STREAM_COUNT", "CONTROL")}
    values |= {"START": str(int(Control.START)), "START_ADDRESS": f"32'h{start_address:x}"}
    bench = re.sub(r"\b[A-Z_]+\b", lambda word: values.get(word[0], word[0]), BENCH)
    (folder / "bench.v").write_text(bench)
    (folder / "dut.v").write_text(emit(TINY, "axi", window=WINDOW))
    build = ["iverilog", "-g2005", "-s", "bench", "-o", "bench", "bench.v", "dut.v"]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    done = subprocess.run(["vvp", "-n", "bench"], cwd=folder, check=True, capture_output=True, text=True)
    return dict(re.findall(r"^(identity|address) (\w+)$", done.stdout, re.MULTILINE))


@pytest.mark.parametrize(
    ("start", "on_bus"),
    [(0x40, 0x1800_0040), (0x07FF_FFF0, 0x1FFF_FFF0), (0x0800_0080, 0x1800_0080), (0xF000_0000, 0x1800_0000)],
)
def test_reads_stay_inside_the_window(tmp_path, start, on_bus):
    """The address of the accelerator is an offset into the window, and wraps at its end."""
    assert simulated(tmp_path, start) == {"identity": f"{IDENTITY:08x}", "address": f"{on_bus:08x}"}


def test_the_attributes_have_the_widths_of_the_ports():
    attributes, text = interface_attributes(TINY, WINDOW), emit(TINY, "axi", window=WINDOW)
    widths = dict.fromkeys(("m_axi_awaddr", "m_axi_araddr"), 32) | dict.fromkeys(
        ("s_axi_awaddr", "s_axi_araddr"), 12
    )
    for port, bits in widths.items():
        assert re.search(rf"put wire \[{bits - 1}:0\] {port},\n", text)
    assert WINDOW.widths == widths
    assert "ADDR_WIDTH 32," in attributes["m_axi_awid"]["X_INTERFACE_PARAMETER"]
    assert "ADDR_WIDTH 12," in attributes["s_axi_awaddr"]["X_INTERFACE_PARAMETER"]


@pytest.mark.parametrize(
    ("base", "size", "message"),
    [
        (0, 0, "a window of 0x0 bytes is not a power of two of at least 4 KiB"),
        (0, 2048, "a window of 0x800 bytes is not a power of two of at least 4 KiB; choose another size"),
        (0, 0x3000, "a window of 0x3000 bytes is not a power of two"),
        (
            0x1000,
            0x2000,
            "a window of 0x2000 bytes at 0x1000 is not at a multiple of its size below 0x100000000",
        ),
        (1 << 32, 1 << 20, "is not at a multiple of its size below 0x100000000; choose another base"),
        (-(1 << 20), 1 << 20, "is not at a multiple"),
    ],
)
def test_another_window_is_refused(base, size, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        Window(base, size)


def test_a_window_may_be_the_whole_bus():
    assert Window(0, 1 << 32).size == 1 << 32
