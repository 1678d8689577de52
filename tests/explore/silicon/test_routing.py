"""A small design is placed and routed in its shell of shift registers; its paths are named by its units."""

import random

import pytest

from tests.explore.silicon.test_synthesis import UNITS
from vdla.explore.silicon.netlist import Netlist
from vdla.explore.silicon.routing import LARGE_LUTS, in_shell, route, router_of
from vdla.explore.silicon.synthesis import synthesise

INVERTER = "0101010101010101"  # of A: entry 0 is the last digit


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


def lut(bits: list, output: int) -> dict:
    ports = dict(zip("ABCD", ([bit] for bit in (*bits, "0", "0", "0", "0")[:4]), strict=True))
    return {
        "type": "LUT4",
        "parameters": {"INIT": INVERTER},
        "port_directions": {**dict.fromkeys(ports, "input"), "Z": "output"},
        "connections": {**ports, "Z": [output]},
    }


MODULE = {  # y = (not a, a, b[1], 1), with a bit number that only a cell's connection uses
    "ports": {
        "clk": {"direction": "input", "bits": [2]},
        "a": {"direction": "input", "bits": [3]},
        "b": {"direction": "input", "bits": [4, 5]},
        "y": {"direction": "output", "bits": [9, 3]},
        "z": {"direction": "output", "bits": [5]},
    },
    "cells": {"not": lut([3], 9), "dangling": lut([4], 12)},
    "netnames": {name: {"bits": [bit]} for name, bit in (("clk", 2), ("a", 3), ("b0", 4), ("b1", 5))},
}


def simulated(module: dict, values: list[int]) -> list[int]:
    """Return `shift_out` after each clock edge, for a value of `shift_in` before each; registers begin with 0."""
    cells = list(module["cells"].values())
    state = {cell["connections"]["Q"][0]: 0 for cell in cells if cell["type"] == "TRELLIS_FF"}
    outputs = []
    for value in (*values, 0):
        wires = {"0": 0, "1": 1, module["ports"]["shift_in"]["bits"][0]: value, **state}
        for _ in cells:  # until every LUT has settled
            for cell in cells:
                if cell["type"] == "LUT4":
                    ports = cell["connections"]
                    index = sum(wires.get(ports[name][0], 0) << place for place, name in enumerate("ABCD"))
                    wires[ports["Z"][0]] = int(cell["parameters"]["INIT"][15 - index])
        outputs.append(wires[module["ports"]["shift_out"]["bits"][0]])
        state = {
            cell["connections"]["Q"][0]: wires.get(cell["connections"]["DI"][0], 0)
            for cell in cells
            if cell["type"] == "TRELLIS_FF"
        }
    return outputs[1:]


def test_a_shift_register_drives_the_inputs_and_another_folds_the_outputs():
    shell, rng = in_shell(MODULE), random.Random(0)
    values = [rng.randrange(2) for _ in range(60)]
    chain, captured, folded = [0, 0, 0], [0, 0, 0], [0, 0, 0]
    expected = []
    for value in values:
        outputs = [1 - chain[0], chain[0], chain[2]]
        folded = [folded[place - 1] * (place > 0) ^ captured[place] for place in range(3)]
        chain, captured = [value, *chain[:2]], outputs
        expected.append(folded[-1])
    assert simulated(shell, values) == expected
    assert set(expected) == {0, 1}


def test_registers_have_the_clock_of_the_design_and_bits_of_their_own():
    shell = in_shell(MODULE)
    added = {name: cell for name, cell in shell["cells"].items() if name not in MODULE["cells"]}
    registers = [cell for cell in added.values() if cell["type"] == "TRELLIS_FF"]
    assert all(
        cell["connections"]["CLK"] == [2] and cell["connections"]["LSR"] == ["0"] for cell in registers
    )
    driven = [
        cell["connections"][port][0]
        for cell in shell["cells"].values()
        for port in ("Q", "Z")
        if port in cell["connections"]
    ]
    assert len(driven) == len(set(driven))
    assert shell["ports"]["clk"] == {"direction": "input", "bits": [2]}
    assert shell["ports"]["shift_in"]["bits"][0] > 12
