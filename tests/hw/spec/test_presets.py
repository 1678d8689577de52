"""Presets are looked up by name, and an unknown name is refused with the known names."""

import pytest

from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.presets import PRESETS, preset


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_found_by_its_name(name):
    assert preset(name).name == name


def test_a_preset_that_is_not_there_is_refused():
    with pytest.raises(ConfigError) as caught:
        preset("large")
    assert str(caught.value) == (
        "no preset is called 'large'; there are default, vta, paper, small, tiny, ecp5-25f, ecp5-85f, zynq-7020"
    )
