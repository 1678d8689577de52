"""Parameters of targets by name: kinds, limits, and texts that `--set` takes back."""

import re
from dataclasses import replace

import pytest

from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.parameters import (
    LARGEST_REAL,
    NAMES,
    checked,
    plain,
    require_name,
    settings,
    value_of,
    with_values,
)
from vdla.hw.spec.presets import SMALL, TINY
from vdla.hw.spec.target import Target

CHECKED = [
    ("inp_buffer_bytes", "8KiB", 8192),
    ("block_in", 8, 8),
    ("block_in", 8.0, 8),
    ("block_in", 2.5, 2.5),
    ("memory.latency", "16", 16),
    ("clock_mhz", 20, 20.0),
    ("clock_mhz", 2.5, 2.5),
    ("clock_mhz", LARGEST_REAL, LARGEST_REAL),
    ("energy.dram", -LARGEST_REAL, -LARGEST_REAL),
    ("extensions", "none", "none"),
]


@pytest.mark.parametrize(("name", "value", "expected"), CHECKED)
def test_a_value_has_the_kind_of_its_parameter(name, value, expected):
    checked_value = checked(name, value)
    assert (checked_value, type(checked_value)) == (expected, type(expected))


REFUSED = [
    ("extensions", 3, "parameters.extensions = 3 is not text, such as"),
    ("block_in", True, "parameters.block_in = True is not a number"),
    ("block_in", None, "parameters.block_in = None is not a number"),
    ("block_in", "many", "parameters.block_in"),
    ("clock_mhz", "20", "parameters.clock_mhz = '20' is not a number"),
    ("clock_mhz", False, "parameters.clock_mhz = False is not a number"),
    ("clock_mhz", 1.1e300, "parameters.clock_mhz = 1.1e+300 is beyond 1e+300"),
    ("clock_mhz", -(10**400), "is beyond 1e+300"),
]


@pytest.mark.parametrize(("name", "value", "message"), REFUSED, ids=str)
def test_a_value_of_another_kind_is_refused(name, value, message):
    with pytest.raises(SweepError, match=re.escape(message)):
        checked(name, value)


@pytest.mark.parametrize(("value", "expected"), [(3, 3), (3.0, 3), (-2.0, -2), (2.5, 2.5)])
def test_a_whole_number_is_an_integer(value, expected):
    assert (plain(value), type(plain(value))) == (expected, type(expected))


def test_names_of_labels_are_no_parameters():
    for name in ("name", "clock_source"):
        with pytest.raises(SweepError, match=f"parameter '{name}' is unknown"):
            require_name(name)
    for name in NAMES:
        require_name(name)


@pytest.mark.parametrize("config", [TINY, SMALL.with_changes(extensions=())], ids=["tiny", "none"])
@pytest.mark.parametrize("name", NAMES)
def test_the_value_of_a_target_is_a_setting_that_changes_nothing(config, name):
    target = Target(config)
    value = value_of(target, name)
    same = with_values(target, {name: value})
    assert replace(same, clock_source=target.clock_source) == target
    assert settings({name: value}) == [f"{name}={value}"]


def test_values_that_tell_targets_apart():
    target = Target(TINY)
    assert value_of(target, "extensions").count(",") == len(TINY.extensions) - 1
    assert value_of(Target(TINY.with_changes(extensions=())), "extensions") == "none"
    assert value_of(target, "clock_mhz") == target.clock_mhz
    assert value_of(target, "memory.latency") == target.memory.latency
    assert value_of(target, "energy.dram") == target.energy.dram
