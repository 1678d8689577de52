"""The page on area shows what the store holds."""

from pathlib import Path

import pytest

from vdla.explore.silicon.estimate import silicon_of
from vdla.explore.silicon.grid import DESIGNS
from vdla.explore.silicon.pages import area_page
from vdla.explore.silicon.store import current_store

DOCS = Path(__file__).parents[3] / "docs"
MEASURED = [config for config in DESIGNS if config.digest in current_store().designs["ecp5"]]


def test_the_page_is_that_of_the_store():
    assert (DOCS / "area.md").read_text() == area_page(), "run `make docs`"


@pytest.mark.parametrize("config", MEASURED, ids=lambda config: config.name)
def test_every_measured_design_has_a_row_with_its_figures(config):
    found = silicon_of(config)
    row = (
        f"| {config.name} | ecp5 | {found.lut:,.0f} | {found.ff:,.0f} | {found.dsp:g} | {found.block_ram:g} |"
    )
    assert row in area_page()
