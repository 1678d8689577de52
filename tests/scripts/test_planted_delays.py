"""Every planted delay finds its place in the hardware, and changes it."""

from functools import cache

import pytest
from planted_delays import CASES, planted_design

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.verilog import emit


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "config"), [pytest.param(*case, id=f"{case[0]}, {case[1].name}") for case in CASES]
)
def test_a_delay_is_another_core(name, config):
    assert planted_design(name).emit(config) != plain(config)


@cache
def plain(config: AcceleratorConfig) -> str:
    """Return the core without delays."""
    return emit(config, top="core")
