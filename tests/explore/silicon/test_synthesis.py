"""Synthesis counts what is there, gives it to the right unit, and makes bare block RAM of scratchpads."""

import pytest

from vdla.explore.silicon import synthesis
from vdla.explore.silicon.families import FAMILIES
from vdla.explore.silicon.synthesis import (
    measure,
    synthesise,
    unit_name,
    with_marked_indices,
    with_plain_indices,
)
from vdla.hw.scratchpad import Scratchpad
from vdla.hw.spec.errors import ConfigError, ToolError
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import MemoryType
from vdla.hw.verilog import convert

UNITS = """
module \\m.multiplier (clk, a, b, result);
  input clk;
  input [7:0] a;
  input [7:0] b;
  output [15:0] result;
  reg [15:0] result;
  always @(posedge clk) result <= $signed(a) * $signed(b);
endmodule
module \\m.lane_1 (clk, c, held);
  input clk;
  input [7:0] c;
  output [7:0] held;
  reg [7:0] held;
  always @(posedge clk) held <= held ^ c;
endmodule
module m (clk, a, b, c, product, outside, kept);
  input clk;
  input [7:0] a;
  input [7:0] b;
  input [7:0] c;
  output [15:0] product;
  output [7:0] outside;
  output [7:0] kept;
  wire [15:0] product;
  wire [7:0] inside;
  reg [7:0] kept;
  \\m.multiplier  multiplier (
    .clk(clk),
    .a(a),
    .b(b),
    .result(product)
  );
  \\m.lane_1  lane_1 (
    .clk(clk),
    .c(c),
    .held(inside)
  );
  assign outside = inside;
  always @(posedge clk) kept <= kept + inside;
endmodule
"""
FIELDS = """
module m (clk, x, y);
  input clk;
  input [15:0] x;
  output [15:0] y;
  reg [15:0] \\a[1] ;
  reg [1:0] \\a[1][3] ;
  always @(posedge clk) \\a[1] <= x ^ {x[0], x[15:1]};
  always @(posedge clk) \\a[1][3] <= x[1:0] & x[3:2];
  assign y = \\a[1] & {8{\\a[1][3] }};
endmodule
"""
"""A field of an array has the name of a bit of another."""


@pytest.mark.parametrize("family", FAMILIES)
def test_cells_are_counted_and_belong_to_the_unit_that_drives_them(family):
    area = measure(synthesise(UNITS, "m", family), family)
    assert (area.dsp, area.block_ram) == (1, 0)
    assert area.hierarchy["multiplier"]["dsp"] == 1
    assert (area.hierarchy["lane"]["lut"], area.hierarchy["lane"]["ff"]) == (8, 8)
    assert area.hierarchy["top"]["ff"] == 8
    assert area.hierarchy["top"]["lut"] > 0
    for resource in ("lut", "ff", "dsp", "block_ram"):
        assert sum(unit[resource] for unit in area.hierarchy.values()) == getattr(area, resource)


@pytest.mark.parametrize("family", FAMILIES)
def test_scratchpads_are_block_ram_without_bypass_logic(family):
    bits = TINY.depth(MemoryType.ACC) * TINY.element_bits(MemoryType.ACC)
    area = measure(synthesise(convert(Scratchpad(TINY, MemoryType.ACC), "pad"), "pad", family), family)
    assert area.block_ram >= bits / (18 << 10 if family == "ecp5" else 36 << 10)
    assert area.ff == 0
    assert area.lut <= 2 * area.block_ram  # decoding of banks, where an address does not fit one block


def test_a_failing_synthesis_says_why():
    with pytest.raises(ToolError, match=r"yosys failed: .*\bm\b"):
        synthesise("module n; endmodule", "m", "ecp5")


@pytest.mark.parametrize("family", FAMILIES)
def test_fields_with_the_names_of_bits_are_told_apart(family):
    netlist = synthesise(FIELDS, "m", family)
    assert measure(netlist, family).ff == 18
    names = netlist.module["netnames"]
    assert (len(names["a[1]"]["bits"]), len(names["a[1][3]"]["bits"])) == (16, 2)


def test_abc9_of_fields_with_the_names_of_bits_says_where_it_fails(monkeypatch):
    monkeypatch.setattr(synthesis, "with_marked_indices", str)
    with pytest.raises(ToolError, match=r"yosys failed: ERROR: Assert .* failed"):
        synthesise(FIELDS, "m", "ecp5")


def test_an_unknown_family_is_refused():
    with pytest.raises(ConfigError, match=r"FPGA family 'ice40' is unknown; there are ecp5, xc7"):
        synthesise("module m; endmodule", "m", "ice40")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("datapath.compute_unit.pipeline.alu_3", "compute_unit.pipeline.alu"),
        ("datapath.load_to_compute", "load_to_compute"),
        ("registers", "registers"),
        ("datapath", "datapath"),
    ],
)
def test_reports_name_units_without_the_datapath_and_the_numbers_of_lanes(path, name):
    assert unit_name(path) == name


@pytest.mark.parametrize(
    ("plain", "marked"),
    [
        ("wire [7:0] \\wgt[10][11] ;", "wire [7:0] \\wgt<10><11> ;"),
        ("assign \\wgt$2[0]  = wgt[7:0];", "assign \\wgt$2<0>  = wgt[7:0];"),
        ("assign x = a[1] + \\read[3] [5];", "assign x = a[1] + \\read<3> [5];"),
        ("\\m.unit  unit (.\\rows[2] (\\rows[2] ));", "\\m.unit  unit (.\\rows<2> (\\rows<2> ));"),
        ("assign y = a[3] < 4;", "assign y = a[3] < 4;"),
    ],
)
def test_only_names_of_fields_are_marked(plain, marked):
    assert with_marked_indices(plain) == marked
    assert with_plain_indices(marked) == plain


def test_names_that_synthesis_derives_get_their_brackets_back():
    assert with_plain_indices('"a<1><3>_TRELLIS_FF_Q_5": 1') == '"a[1][3]_TRELLIS_FF_Q_5": 1'
