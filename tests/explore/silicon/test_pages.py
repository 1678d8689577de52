"""The pages on area and clock show what the store holds: figures, errors, intervals, and the example sweep."""

from pathlib import Path

import pytest

from vdla.explore.silicon.clock import estimated_clock
from vdla.explore.silicon.estimate import silicon_of
from vdla.explore.silicon.grid import DESIGNS, SHOWN
from vdla.explore.silicon.pages import area_page, timing_page
from vdla.explore.silicon.result import ROUTED
from vdla.explore.silicon.store import current_store

DOCS = Path(__file__).parents[3] / "docs"
MEASURED = [config for config in DESIGNS if config.digest in current_store().designs["ecp5"]]
ROOT = Path(__file__).parents[3]
CLOCK_PAGE = timing_page(ROOT / "examples" / "sweeps" / "clock.toml")
ROUTED_DESIGNS = [config for config in SHOWN if silicon_of(config).clock == ROUTED]


def test_the_page_is_that_of_the_store():
    assert (DOCS / "area.md").read_text() == area_page(), "run `make docs`"


@pytest.mark.parametrize("config", MEASURED, ids=lambda config: config.name)
def test_every_measured_design_has_a_row_with_its_figures(config):
    silicon = silicon_of(config)
    row = (
        f"| {config.name} | ecp5 | {silicon.lut:,.0f} | {silicon.ff:,.0f} "
        f"| {silicon.dsp:g} | {silicon.block_ram:g} |"
    )
    assert row in area_page()


def test_the_clock_page_is_that_of_the_store():
    assert (ROOT / "docs" / "timing.md").read_text() == CLOCK_PAGE, "run `make docs`"


@pytest.mark.parametrize("config", ROUTED_DESIGNS, ids=lambda config: config.name)
def test_a_routed_design_has_a_row_with_its_estimate_as_if_it_had_not_been_routed(config):
    mhz, guess = silicon_of(config).mhz, estimated_clock(config, "ecp5")
    row = next(line for line in CLOCK_PAGE.splitlines() if line.startswith(f"| {config.name} |"))
    figures = row.split(" | ")[2:7]
    interval, error = f"{guess.low:.0f} to {guess.high:.0f}", f"{100 * (guess.mhz / mhz - 1):+.0f}%"
    assert figures == [f"{mhz:.1f}", f"{guess.mhz:.1f}", interval, error, guess.limited_by]


def test_the_routed_designs_are_varied():
    assert len(ROUTED_DESIGNS) >= 8
    assert {config.alu_stages for config in ROUTED_DESIGNS} == {1, 2}
    assert {config.block_out // config.alu_pieces for config in ROUTED_DESIGNS} >= {1, 4}
    assert len({config.macs_per_cycle for config in ROUTED_DESIGNS}) >= 4


def test_the_page_says_how_many_intervals_hold():
    guesses = {config.name: estimated_clock(config, "ecp5") for config in ROUTED_DESIGNS}
    held = sum(
        guesses[config.name].low <= silicon_of(config).mhz <= guesses[config.name].high
        for config in ROUTED_DESIGNS
    )
    assert f"It holds the routed clock of {held} of them." in CLOCK_PAGE


def test_every_block_of_the_sweep_has_six_clocks():
    rows = [
        line for line in CLOCK_PAGE.splitlines() if line.startswith("| ") and line.split()[1].count("x") == 1
    ]
    rows = [line for line in rows if line.split()[1].replace("x", "").isdigit()]
    assert len(rows) == 12
    assert all(line.count(" to ") == 6 for line in rows)
