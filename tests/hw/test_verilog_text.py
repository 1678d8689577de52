"""The description of emitted Verilog: the ports of the module that is asked for."""

from vdla.hw.spec.presets import TINY
from vdla.hw.spec.reference import registers_page
from vdla.hw.verilog_text import describe, ports

VERILOG = """
module inner(clk, other);
  input clk;
  output [3:0] other;
endmodule

module top(clk, data, \\payload.x , done);
  input clk;
  input [63:0] data;
  wire [1:0] hidden;
  output [7:0] \\payload.x ;
  output wire done;
endmodule

module later(more);
  input more;
endmodule
"""


def test_ports_are_those_of_the_module_in_the_order_of_the_text():
    assert ports(VERILOG, "inner") == [("clk", "input", 1), ("other", "output", 4)]
    assert ports(VERILOG, "top") == [
        ("clk", "input", 1),
        ("data", "input", 64),
        ("\\payload.x", "output", 8),
        ("done", "output", 1),
    ]
    assert ports(VERILOG, "later") == [("more", "input", 1)]


def test_a_description_names_the_configuration_ports_and_registers():
    assert describe(VERILOG, "inner", TINY).splitlines() == [
        "# inner",
        f"Configuration `{TINY.name}`, digest `{TINY.digest}`.",
        "",
        "## Ports",
        "| port | direction | bits |",
        "|---|---|---|",
        "| `clk` | input | 1 |",
        "| `other` | output | 4 |",
        "",
        *f"#{registers_page()}".splitlines(),
    ]
