"""A small design is placed and routed; its paths are named by its units."""

import pytest

from tests.explore.silicon.test_synthesis import UNITS
from vdla.explore.silicon.netlist import Netlist
from vdla.explore.silicon.routing import LARGE_LUTS, route, router_of
from vdla.explore.silicon.shell import in_shell
from vdla.explore.silicon.synthesis import synthesise


@pytest.fixture(scope="module")
def netlist():
    return synthesise(UNITS, "m", "ecp5")


def test_the_shell_leaves_three_pins_and_a_register_at_each_bit(netlist):
    shell = in_shell(netlist.module)
    assert {name: port["direction"] for name, port in shell["ports"].items()} == {
        "clk": "input",
        "shift_in": "input",
        "shift_out": "output",
    }
    added = [cell for name, cell in shell["cells"].items() if name not in netlist.module["cells"]]
    inputs, outputs = 24, 32
    assert sum(cell["type"] == "TRELLIS_FF" for cell in added) == inputs + 2 * outputs
    assert sum(cell["type"] == "LUT4" for cell in added) == outputs


def test_a_routed_design_has_a_clock_and_its_slowest_path_sets_it(netlist):
    clock = route(netlist, "m", seed=3)
    worst = clock.paths[0]
    inside = {"multiplier", "lane", "top"}
    assert clock.seed == 3
    assert 50 < clock.mhz < 800
    assert worst.ns <= 1000 / clock.mhz * 1.001  # a path of the shell may be slower
    assert all(inside & {path.units[0], path.units[-1]} for path in clock.paths)
    assert any(path.units == ("lane", "top") and path.end == "top/kept" for path in clock.paths)


@pytest.mark.parametrize(
    ("luts", "carries", "router"),
    [
        (LARGE_LUTS - 1, 0, "router1"),
        (LARGE_LUTS, 0, "router2"),
        (0, LARGE_LUTS // 2, "router2"),  # a carry cell counts as two LUTs
        (LARGE_LUTS - 3, 1, "router1"),
    ],
)
def test_the_size_of_a_design_chooses_the_router(netlist, luts, carries, router):
    kinds = ["LUT4"] * luts + ["CCU2C"] * carries
    cells = {str(number): {"type": kind} for number, kind in enumerate(kinds)}
    assert router_of(Netlist({"cells": cells}, netlist.units)) == router
