"""The system on chip of each board elaborates, and its parts are connected and initialised as the map says."""

import re
from contextlib import chdir

import pytest

from vdla.boards.description import Board, board_names, load_board
from vdla.boards.soc import MODULE, REGISTERS, board_soc, csr_addresses, dram_steps
from vdla.hw.spec.presets import TINY
from vdla.hw.verilog import emit
from vdla.hw.vivado import interface_attributes


@pytest.fixture(scope="module")
def accelerator(tmp_path_factory):
    file = tmp_path_factory.mktemp("verilog") / "accelerator.v"
    file.write_text(emit(TINY, "axi", MODULE))
    return file


@pytest.fixture(scope="module")
def systems(accelerator, tmp_path_factory):
    """Return a function that elaborates the system of a board once: the system and its folder."""
    elaborated = {}

    def system(name):
        if name not in elaborated:
            folder = tmp_path_factory.mktemp(name)
            soc = board_soc(load_board(name), TINY, accelerator, load_board(name).clock_mhz)
            with chdir(folder):
                soc.build(build_dir=str(folder), build_name="system", run=False)
            elaborated[name] = soc, folder
        return elaborated[name]

    return system


@pytest.mark.parametrize("name", board_names(Board))
def test_every_port_of_the_accelerator_is_connected(name, systems):
    _, folder = systems(name)
    instance = re.search(rf"{MODULE} {MODULE} ?\((.*?)\n\);", (folder / "system.v").read_text(), re.DOTALL)
    connected = set(re.findall(r"\.(\w+)\s*\(", instance[1]))
    assert set(interface_attributes(TINY)) - connected == {"interrupt"}


@pytest.mark.parametrize("name", board_names(Board))
def test_pins_are_those_of_the_board(name, systems):
    _, folder = systems(name)
    constraints = (folder / "system.lpf").read_text()
    assert constraints.count("LOCATE COMP") > 40
    assert "serial_tx" in constraints


def test_the_registers_and_the_dram_are_where_the_map_says(systems):
    soc, _ = systems("ulx3s-85f")
    regions = soc.bus.regions
    assert regions["vdla"].origin == REGISTERS
    assert (regions["main_ram"].origin, regions["main_ram"].size) == (0x4000_0000, 32 << 20)


def test_the_dram_is_initialised_with_the_commands_of_its_standard(systems):
    """SDR SDRAM: precharge all, load mode, precharge all, two refreshes, load mode; then the controller."""
    soc, _ = systems("ulx3s-85f")
    csr = csr_addresses(soc)
    steps = dram_steps(soc, csr)
    commands = [value for address, value, _ in steps if address == csr["sdram_dfii_pi0_command"]]
    precharge, mode, refresh = 0b1011, 0b1111, 0b1101  # RAS WE CS, all four, RAS CAS CS
    assert commands == [precharge, mode, precharge, refresh, refresh, mode]
    cas_latency_2_burst_1 = 0x20
    addresses = [value for address, value, _ in steps if address == csr["sdram_dfii_pi0_address"]]
    assert addresses[-1] == cas_latency_2_burst_1
    assert steps[0] == (csr["sdram_dfii_control"], 0b1110, 0)
    assert steps[-1] == (csr["sdram_dfii_control"], 1, 0)


def test_the_dram_has_its_100_us_before_the_first_command(systems):
    soc, _ = systems("ulx3s-85f")
    csr = csr_addresses(soc)
    steps = dram_steps(soc, csr)
    first = next(index for index, step in enumerate(steps) if step[0] == csr["sdram_dfii_pi0_command_issue"])
    assert sum(wait for _, _, wait in steps[:first]) >= 100
