"""Every planted delay finds its place in the hardware, and changes it."""

import pytest
from planted_delays import CONFIG, PLANTS, planted_design

from vdla.hw.verilog import emit


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTS)
def test_a_delay_is_another_core(name, plain):
    assert planted_design(name).emit(CONFIG) != plain


@pytest.fixture(scope="module")
def plain() -> str:
    """Return the core without delays."""
    return emit(CONFIG, top="core")
