"""A shell of shift registers around a mapped ECP5 netlist, so that pins do not limit its clock.

A shift register feeds every input bit from one pin. Every output bit ends in a register; a second shift
register folds those into one pin. All paths of the design thus run between registers, and three pins suffice.
"""

from collections.abc import Iterator, Mapping
from typing import Any

CLOCK = "clk"
UNIT = "shell"
XOR_OF_A_AND_B = "0110011001100110"
FLIP_FLOP = {
    "CEMUX": "1 ",  # the blank marks text, where Yosys writes numbers as binary digits
    "CLKMUX": "CLK",
    "GSR": "AUTO",
    "LSRMUX": "LSR",
    "REGSET": "RESET",
    "SRMODE": "LSR_OVER_CE",
}

Module = Mapping[str, Any]
"""A module of Yosys' JSON netlist."""


def in_shell(module: Module) -> Module:
    """Return a mapped ECP5 module with the shell around it; its ports are `clk`, `shift_in`, `shift_out`.

    Args:
        module: flat, with a port `clk`; its cells keep their names.
    """
    ports = module["ports"]
    clock = ports[CLOCK]["bits"][0]
    bits = _fresh(module)
    pin = next(bits)
    cells = dict(module["cells"])
    before: int | str = pin
    driven = [
        bit
        for name, port in ports.items()
        if port["direction"] == "input" and name != CLOCK
        for bit in port["bits"]
    ]
    for index, bit in enumerate(driven):
        cells[f"{UNIT}.in_{index}"] = _register(clock, before, bit)
        before = bit
    read = [bit for port in ports.values() if port["direction"] == "output" for bit in port["bits"]]
    before = "0"
    for index, bit in enumerate(read):
        captured, mixed, shifted = next(bits), next(bits), next(bits)
        cells[f"{UNIT}.out_{index}"] = _register(clock, bit, captured)
        cells[f"{UNIT}.mix_{index}"] = _xor(captured, before, mixed)
        cells[f"{UNIT}.fold_{index}"] = _register(clock, mixed, shifted)
        before = shifted
    return {
        **module,
        "ports": {
            CLOCK: {"direction": "input", "bits": [clock]},
            "shift_in": {"direction": "input", "bits": [pin]},
            "shift_out": {"direction": "output", "bits": [before]},
        },
        "cells": cells,
    }


def _fresh(module: Module) -> Iterator[int]:
    """Yield bit numbers that the module does not use."""
    used = [bit for net in module["netnames"].values() for bit in net["bits"] if isinstance(bit, int)]
    used += [
        bit
        for cell in module["cells"].values()
        for bits in cell["connections"].values()
        for bit in bits
        if isinstance(bit, int)
    ]
    number = max(used) + 1
    while True:
        yield number
        number += 1


def _cell(
    kind: str, parameters: Mapping[str, str], inputs: Mapping[str, object], output: str, bit: object
) -> Module:
    return {
        "hide_name": 0,
        "type": kind,
        "parameters": dict(parameters),
        "attributes": {},
        "port_directions": {**dict.fromkeys(inputs, "input"), output: "output"},
        "connections": {**{port: [value] for port, value in inputs.items()}, output: [bit]},
    }


def _register(clock: object, value: object, bit: object) -> Module:
    return _cell("TRELLIS_FF", FLIP_FLOP, {"CLK": clock, "DI": value, "LSR": "0"}, "Q", bit)


def _xor(left: object, right: object, bit: object) -> Module:
    inputs = {"A": left, "B": right, "C": "0", "D": "0"}
    return _cell("LUT4", {"INIT": XOR_OF_A_AND_B}, inputs, "Z", bit)
