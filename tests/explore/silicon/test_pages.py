"""The pages on area and clock show what the store holds."""

from pathlib import Path

import pytest

from vdla.explore.silicon.estimate import silicon_of
from vdla.explore.silicon.grid import DESIGNS
from vdla.explore.silicon.pages import area_page, timing_page
from vdla.explore.silicon.store import current_store

DOCS = Path(__file__).parents[3] / "docs"
MEASURED = [config for config in DESIGNS if config.digest in current_store().designs["ecp5"]]


@pytest.mark.parametrize(("name", "page"), [("area.md", area_page), ("timing.md", timing_page)])
def test_the_page_is_that_of_the_store(name, page):
    assert (DOCS / name).read_text() == page(), "run `make docs`"


@pytest.mark.parametrize("config", MEASURED, ids=lambda config: config.name)
def test_every_measured_design_has_a_row_with_its_figures(config):
    found = silicon_of(config)
    row = (
        f"| {config.name} | ecp5 | {found.lut:,.0f} | {found.ff:,.0f} | {found.dsp:g} | {found.block_ram:g} |"
    )
    assert row in area_page()


def test_every_routed_design_has_a_row_with_its_clock():
    page = timing_page()
    routed = [config for config in MEASURED if "mhz" in current_store().designs["ecp5"][config.digest]]
    assert routed
    assert all(f"| {config.name} | {silicon_of(config).mhz:.1f} |" in page for config in routed)
