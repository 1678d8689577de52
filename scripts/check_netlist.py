#!/usr/bin/env python3
"""Run programs on the netlist that Yosys makes of the core for ECP5, and compare it with the RTL.

The netlist consists of LUTs, carry cells, flip-flops, block RAMs and multipliers. DRAM, cycles and counters
of each random program must be the same as on the RTL. Exit status 1 on any difference.
"""

import json
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
from generators.programs import IMAGE_BYTES, random_program

from vdla.boards.tools import yosys
from vdla.explore.silicon.hardware import MODULE
from vdla.explore.silicon.synthesis import netlist_of
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import PRESETS, preset
from vdla.runtime.devices.rtl.build import Optimise
from vdla.runtime.devices.rtl.design import Design, core_sources
from vdla.runtime.devices.rtl.device import RtlDevice

BLOCKS = Path(__file__).parent / "netlist" / "ecp5_blocks.v"
PROGRAM_LENGTH = 60
NEW_NAMES = {"DP16KD": "ecp5_block_ram", "MULT18X18D": "ecp5_multiplier"}
"""Blocks whose behaviour `BLOCKS` describes."""

KEPT_PARAMETERS = ("DATA_WIDTH_A", "DATA_WIDTH_B", "WRITEMODE_A", "WRITEMODE_B")
NEEDED = {
    "DP16KD": {"REGMODE_A": "NOREG", "REGMODE_B": "NOREG", "CLKAMUX": "CLKA", "CLKBMUX": "CLKB"},
    "MULT18X18D": {f"REG_{part}_CLK": "NONE" for part in ("INPUTA", "INPUTB", "PIPELINE", "OUTPUT")},
}
"""Parameters that must have these values where they are given: the modes that `BLOCKS` describes."""

PINS = {
    "DP16KD": tuple(f"{pin}{port}" for pin in ("DI", "AD", "CLK", "CE", "WE", "RST", "DO") for port in "AB"),
    "MULT18X18D": ("A", "B", "SIGNEDA", "SIGNEDB", "P"),
}

Cell = dict[str, Any]


def with_vectors(cell: Cell) -> Cell:
    """Return a cell of the netlist; for a cell of NEW_NAMES, with numbered pins gathered into vectors.

    Raises:
        ValueError: the cell is in a mode that `BLOCKS` does not describe.
    """
    kind = cell["type"]
    if kind not in NEW_NAMES:
        return cell
    check_mode(kind, cell["parameters"])
    parameters = {name: value for name, value in cell["parameters"].items() if name in KEPT_PARAMETERS}
    vectors = {name: bits for name, bits in gathered(cell["connections"]).items() if name in PINS[kind]}
    directions = {re.sub(r"\d+$", "", pin): direction for pin, direction in cell["port_directions"].items()}
    return {
        **cell,
        "type": NEW_NAMES[kind],
        "parameters": parameters,
        "connections": vectors,
        "port_directions": {name: directions[name] for name in vectors},
    }


def gathered(connections: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the pins by name, DIA0 and DIA1 as DIA; a pin that is not connected is low."""
    vectors: dict[str, dict[int, Any]] = {}
    for pin, bits in connections.items():
        name, index = re.fullmatch(r"(.*?)(\d*)", pin).groups()
        vectors.setdefault(name, {})[int(index or 0)] = bits[0] if bits else "0"
    return {name: [bits.get(index, "0") for index in range(max(bits) + 1)] for name, bits in vectors.items()}


def check_mode(kind: str, parameters: Mapping[str, str]) -> None:
    """Refuse a block in a mode that `BLOCKS` does not describe.

    Raises:
        ValueError: naming the parameter.
    """
    for name, value in parameters.items():
        starts_with_data = name.startswith("INITVAL") and "1" in value
        if starts_with_data or value.strip() != NEEDED[kind].get(name, value).strip():
            raise ValueError(f"{kind} with {name} = {value} has no model in {BLOCKS.name}")


def netlist_verilog(config: AcceleratorConfig) -> str:
    """Return the netlist of the core as Verilog that any simulator reads.

    Raises:
        ToolError: Yosys is missing or fails.
        ValueError: as `check_mode`.
    """
    module = dict(netlist_of(config, "ecp5", click.echo).module)
    module["cells"] = {name: with_vectors(cell) for name, cell in module["cells"].items()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "net.json").write_text(json.dumps({"modules": {MODULE: module}}))
        (folder / "blocks.v").write_text(BLOCKS.read_text())
        commands = (
            "read_json net.json; read_verilog blocks.v; read_verilog -overwrite +/ecp5/cells_sim.v; "
            f"hierarchy -top {MODULE}; proc; flatten; opt_clean; select {MODULE}; "
            "write_verilog -noattr -selected flat.v"
        )
        yosys("netlist simulation").run(["-q", "-p", commands], folder)
        return (folder / "flat.v").read_text()


NETLIST = Design(
    netlist_verilog,
    lambda: digest_of([core_sources(), BLOCKS.read_bytes(), Path(__file__).read_bytes()]),
)


@click.command(help=__doc__)
@click.option("--config", "name", type=click.Choice(list(PRESETS)), default="tiny", show_default=True)
@click.option("--programs", default=10, show_default=True)
@click.option("--seed", default=0, show_default=True, help="of the first program")
def main(name: str, programs: int, seed: int) -> None:
    config = preset(name)
    netlist, rtl = (
        RtlDevice(config, 2 * IMAGE_BYTES, optimise=Optimise.BUILD, **chosen)
        for chosen in ({"design": NETLIST}, {})
    )
    different = 0
    for number in range(seed, seed + programs):
        program = random_program(config, number, PROGRAM_LENGTH)
        (of_netlist, netlist_dram), (of_rtl, rtl_dram) = program.run_on(netlist), program.run_on(rtl)
        same = (
            np.array_equal(netlist_dram, rtl_dram)
            and of_netlist.cycles == of_rtl.cycles
            and of_netlist.counters == of_rtl.counters
        )
        different += not same
        click.echo(
            f"program {number}: {of_rtl.cycles} cycles of the RTL, {of_netlist.cycles} of the netlist; "
            f"{'the same' if same else 'DIFFERENT'}"
        )
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
