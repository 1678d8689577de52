"""The system on chip of each board elaborates, and its parts are connected and initialised as the map says."""

import re
from contextlib import chdir

import pytest
from litex.soc.cores.clock import ECP5PLL
from migen import ClockDomain, Signal

from vdla.boards.description import Board, board_names, load_board
from vdla.boards.soc import MODULE, REGISTERS, board_soc, choose_closest_clocks, csr_addresses, dram_steps
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


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (50.0, 50.0),
        (70.0, 70.0),  # LiteX gives 69.44, the first within its margin
        (71.3, 71.25),  # within a thousandth
        (76.1, 76.785714),  # only within the margin of the clock generator
    ],
)
def test_a_clock_is_the_closest_that_the_pll_gives(asked, given):
    pll = ECP5PLL()
    pll.register_clkin(Signal(), 25e6)
    for phase in (0, 90):
        pll.create_clkout(ClockDomain("sys"), asked * 1e6, phase=phase, with_reset=False)
    choose_closest_clocks(pll)
    assert sorted(pll.clkouts) == [0, 1]
    config = pll.compute_config()
    assert [config[f"clko{output}_freq"] for output in (0, 1)] == pytest.approx([given * 1e6] * 2)


def test_a_clock_without_settings_keeps_the_margins_of_the_clock_generator():
    pll = ECP5PLL()
    pll.register_clkin(Signal(), 25e6)
    pll.create_clkout(ClockDomain("sys"), 397e6, margin=0, with_reset=False)
    choose_closest_clocks(pll)
    assert [margin for *_, margin, _ in pll.clkouts.values()] == [0]


def test_the_system_clock_of_a_board_is_exact(accelerator, tmp_path):
    soc = board_soc(load_board("ulx3s-85f"), TINY, accelerator, 70.0)
    with chdir(tmp_path):
        soc.build(build_dir=str(tmp_path), build_name="system", run=False)
    dividers = dict(re.findall(r"\.(CLK\w+_DIV)\s*\(\d+'d(\d+)\)", (tmp_path / "system.v").read_text()))
    values = {name: int(value) for name, value in dividers.items()}
    fed_back = values["CLKFB_DIV"] * values["CLKOS2_DIV"]
    assert 25 * fed_back / values["CLKI_DIV"] / values["CLKOP_DIV"] == 70
