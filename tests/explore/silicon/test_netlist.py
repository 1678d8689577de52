"""Cells of a flat netlist belong to the unit whose signal they drive, else to that of their neighbours."""

import pytest

from vdla.explore.silicon.netlist import TOP, Netlist, Units, units_of

VERILOG = """
module \\m.outer.inner (clk, d, \\q[0] );
  input clk;
  input [3:0] d;
  output \\q[0] ;
endmodule
module \\m.outer (clk, d, sum);
  input clk;
  input [3:0] d;
  output sum;
  \\m.outer.inner  inner (
    .clk(clk),
    .d(d),
    .\\q[0] (part)
  );
  \\m.absent  absent (
    .sum(lost)
  );
endmodule
module m (clk, x, y);
  input clk;
  input [3:0] x;
  output y;
  \\m.outer  outer (
    .clk(clk),
    .d(x),
    .sum(y)
  );
endmodule
"""
UNITS = units_of(VERILOG, "m")


def test_units_have_their_inputs_and_what_drives_the_signals_around_them():
    assert UNITS.inputs == {
        "outer.inner": {"clk", "d"},
        "outer": {"clk", "d"},
        TOP: {"clk", "x"},
    }
    assert UNITS.drivers == {("outer", "part"): ("outer.inner", "q[0]"), (TOP, "y"): ("outer", "sum")}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("outer.inner.held", ("outer.inner", "held")),
        ("outer.inner.a.b", ("outer.inner", "a.b")),
        ("outer.other.held", ("outer", "other.held")),
        ("outer", (TOP, "outer")),
        ("other.held", (TOP, "other.held")),
        ("y", (TOP, "y")),
    ],
)
def test_a_flattened_name_stands_in_the_innermost_unit_that_it_names(name, expected):
    assert UNITS.of_name(name) == expected


@pytest.mark.parametrize(
    ("unit", "signal", "driver"),
    [
        (TOP, "y", "outer"),
        ("outer", "part", "outer.inner"),
        ("outer", "d", None),
        ("outer", "sum", "outer"),
        (TOP, "x", None),
        ("unknown", "x", "unknown"),
    ],
)
def test_the_unit_behind_a_signal(unit, signal, driver):
    assert UNITS.driving(unit, signal) == driver


def cell(kind: str, inputs: list, outputs: list) -> dict:
    ports = {"I": "input", "O": "output"}
    return {"type": kind, "port_directions": ports, "connections": {"I": inputs, "O": outputs}}


def unit_of(cells: dict, names: dict, units: Units = UNITS) -> dict[str, str]:
    nets = {name: {"bits": bits} for name, bits in names.items()}
    return Netlist({"cells": cells, "netnames": nets}, units).unit_of_cell


def test_a_cell_with_a_name_of_the_design_stands_where_the_name_does():
    cells = {
        "outer.held": cell("FF", [1], [2]),
        "outer.held_LUT4_Z": cell("LUT4", [3], [4]),  # named after its neighbour
        "outer.held_lut_A": cell("LUT4", [3], [5]),
        "outer.held_$abc_B": cell("LUT4", [3], [6]),
        "$auto$outer": cell("LUT4", [3], [7]),
    }
    units = unit_of(cells, {"outer.inner.q": [4], "outer.inner.r": [5, "x"]})
    assert units["outer.held"] == "outer"
    assert units["outer.held_LUT4_Z"] == units["outer.held_lut_A"] == "outer.inner"
    assert units["outer.held_$abc_B"] == "outer"
    assert units["$auto$outer"] == TOP


def test_a_bit_belongs_to_the_innermost_unit_that_names_it_without_being_given_it():
    cells = {"$1": cell("LUT4", [], [8]), "$2": cell("LUT4", [], [9]), "$3": cell("LUT4", [], [10])}
    names = {
        "outer.part[3]": [8],  # driven by the sub-module
        "outer.inner.d": [9],  # an input there
        "x": [9],  # and of the top
        "outer.kept": [10],
        "top_level": [10],
    }
    assert unit_of(cells, names) == {"$1": "outer.inner", "$2": TOP, "$3": "outer"}


def test_of_two_units_of_one_depth_the_last_named_has_the_bit():
    units = Units({"a": frozenset(), "b": frozenset(), "b.c": frozenset()}, {})
    cells = {"$1": cell("LUT4", [], [1])}
    assert unit_of(cells, {"a.x": [1], "b.x": [1]}, units) == {"$1": "b"}
    assert unit_of(cells, {"b.c.x": [1], "a.x": [1]}, units) == {"$1": "b.c"}
    assert unit_of(cells, {"a.x": [1], "x": [1]}, units) == {"$1": "a"}


def test_a_nameless_cell_has_the_unit_of_most_of_the_cells_that_it_feeds_else_of_those_that_feed_it():
    units = Units({"a": frozenset(), "b": frozenset(), "c": frozenset()}, {})
    cells = {
        "a.one": cell("FF", [1], [11]),
        "b.one": cell("FF", [1], [12]),
        "b.two": cell("FF", [1], [13]),
        "c.one": cell("FF", [2], [14]),
        "$feeds_two_of_b": cell("LUT4", [3, 14], [1]),
        "$feeds_that": cell("LUT4", ["0"], [3]),
        "$fed_by_a": cell("LUT4", [11], [20]),
        "$fed_by_that": cell("LUT4", [20], [21]),
        "$fed_by_a_and_c": cell("LUT4", [14, 11], [22]),
        "$alone": cell("LUT4", [30], [31]),
    }
    assert unit_of(cells, {}, units) == {
        "a.one": "a",
        "b.one": "b",
        "b.two": "b",
        "c.one": "c",
        "$feeds_two_of_b": "b",
        "$feeds_that": "b",
        "$fed_by_a": "a",
        "$fed_by_that": "a",
        "$fed_by_a_and_c": "a",  # of as many, the first by name
        "$alone": TOP,
    }


def test_cells_are_counted_by_kind_and_by_unit():
    cells = {
        "outer.held": cell("FF", [], [1]),
        "outer.other": cell("FF", [], [2]),
        "$x": cell("LUT4", [], [3]),
    }
    netlist = Netlist({"cells": cells, "netnames": {}}, UNITS)
    assert netlist.kinds() == {"FF": 2, "LUT4": 1}
    assert netlist.kinds_by_unit() == {"outer": {"FF": 2}, TOP: {"LUT4": 1}}
