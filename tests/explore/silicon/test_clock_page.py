"""The page on clocks shows what the store holds: figures, errors, intervals, and the example sweep."""

from pathlib import Path

import pytest

from vdla.explore.silicon.clock import estimated_clock
from vdla.explore.silicon.clock_page import timing_page
from vdla.explore.silicon.estimate import silicon_of
from vdla.explore.silicon.grid import SHOWN
from vdla.explore.silicon.result import ROUTED

ROOT = Path(__file__).parents[3]
PAGE = timing_page(ROOT / "examples" / "sweeps" / "clock.toml")
DESIGNS = [config for config in SHOWN if silicon_of(config).clock == ROUTED]


def test_the_page_is_that_of_the_store():
    assert (ROOT / "docs" / "timing.md").read_text() == PAGE, "run `make docs`"


@pytest.mark.parametrize("config", DESIGNS, ids=lambda config: config.name)
def test_a_routed_design_has_a_row_with_its_estimate_as_if_it_had_not_been_routed(config):
    mhz, guess = silicon_of(config).mhz, estimated_clock(config, "ecp5")
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {config.name} |"))
    figures = row.split(" | ")[2:7]
    interval, error = f"{guess.low:.0f} to {guess.high:.0f}", f"{100 * (guess.mhz / mhz - 1):+.0f}%"
    assert figures == [f"{mhz:.1f}", f"{guess.mhz:.1f}", interval, error, guess.limited_by]


def test_the_routed_designs_are_varied():
    assert len(DESIGNS) >= 8
    assert {config.alu_stages for config in DESIGNS} == {1, 2}
    assert {config.block_out // config.alu_pieces for config in DESIGNS} >= {1, 4}
    assert len({config.macs_per_cycle for config in DESIGNS}) >= 4


def test_the_page_says_how_many_intervals_hold():
    guesses = {config.name: estimated_clock(config, "ecp5") for config in DESIGNS}
    held = sum(guesses[one.name].low <= silicon_of(one).mhz <= guesses[one.name].high for one in DESIGNS)
    assert f"It holds the routed clock of {held} of them." in PAGE


def test_every_block_of_the_sweep_has_six_clocks():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and line.split()[1].count("x") == 1]
    rows = [line for line in rows if line.split()[1].replace("x", "").isdigit()]
    assert len(rows) == 12
    assert all(line.count(" to ") == 6 for line in rows)
