"""Parameters of an SDRAM: their bounds, their source in a controller's settings, and the reference memory that is
most like them."""

from copy import deepcopy
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.sdram import SdramParameters, controller_parameters, memory_of, reference_like, sdram_timing
from vdla.hw.spec.target import Target
from vdla.hw.spec.target_files import apply_settings, from_toml, to_toml

LITEDRAM = {
    "phy": {
        "memtype": "SDR",
        "nphases": 1,
        "nranks": 1,
        "databits": 16,
        "cwl": 2,
        "read_latency": 3,
        "write_latency": 0,
    },
    "geom": {"colbits": 9, "bankbits": 2},
    "timing": {
        "tRP": 1,
        "tRCD": 1,
        "tWR": 1,
        "tWTR": 2,
        "tRFC": 4,
        "tREFI": 391,
        "tCCD": 1,
        "tRRD": 1,
        "tRC": 4,
        "tRAS": 3,
        "tFAW": None,
        "tZQCS": None,
    },
    "cmd_buffer_depth": 8,
    "cmd_buffer_buffered": False,
    "read_time": 32,
    "write_time": 16,
    "with_auto_precharge": True,
    "with_refresh": True,
    "refresh_postponing": 1,
    "address_mapping": "ROW_BANK_COL",
    "bank_byte_alignment": 0,
}
"""LiteDRAM's settings of an MT48LC16M16 at 50 MHz."""


def settings(**changed) -> SimpleNamespace:
    """Return `LITEDRAM`, some of the settings changed."""
    values = deepcopy(LITEDRAM)
    for name, value in changed.items():
        group, _, key = name.rpartition("__")
        (values[group] if group else values)[key] = value
    return SimpleNamespace(
        **{
            name: SimpleNamespace(**value) if isinstance(value, dict) else value
            for name, value in values.items()
        }
    )


def test_the_defaults_are_those_of_the_part_at_50_mhz():
    assert controller_parameters(settings()) == SdramParameters()


def test_limits_that_a_part_does_not_state_are_0():
    parameters = controller_parameters(settings(timing__tRRD=None, timing__tRC=None, timing__tRAS=None))
    assert (parameters.row_to_row, parameters.row_cycle, parameters.row_active) == (0, 0, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("phy__memtype", "DDR3"), ("phy__nphases", 2), ("timing__tFAW", 4), ("cmd_buffer_buffered", True)],
)
def test_a_controller_that_is_not_modelled_is_refused(name, value):
    with pytest.raises(
        ConfigError, match=f"{name.replace('__', '.')} = {value!r} is not modelled; it must be"
    ):
        controller_parameters(settings(**{name: value}))


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("refresh", 1, 1 << 20), ("row_cycle", 0, 1 << 20), ("bank_bits", 1, 4), ("read_depth", 2, 64)],
)
def test_a_parameter_lies_within_its_bounds(name, low, high):
    for value in (low, high):
        assert getattr(SdramParameters(**{name: value}), name) == value
    for value in (low - 1, high + 1, True, 1.0, "1"):
        with pytest.raises(ConfigError) as caught:
            SdramParameters(**{name: value})
        assert str(caught.value) == f"memory {name} = {value!r} is outside {low}..{high}"


def test_the_refresh_timer_has_run_for_less_than_its_interval():
    with pytest.raises(ConfigError, match=r"refresh_phase = 391 is outside 0\.\.390"):
        SdramParameters(refresh_phase=391)


def test_a_width_that_is_no_power_of_two_is_refused():
    with pytest.raises(ConfigError, match="word_bits = 24 is not a power of two"):
        SdramParameters(word_bits=24)


def test_a_bus_must_be_twice_as_wide_as_the_sdram():
    with pytest.raises(ConfigError, match=r"bus_bits = 64 is too narrow .* set bus_bits to at least 128"):
        Target(TINY, SdramParameters(word_bits=64))
    assert sdram_timing(SdramParameters(word_bits=32), TINY)["words"] == 2


def test_an_address_guard_is_where_addresses_of_the_bus_are_narrow():
    assert sdram_timing(SdramParameters(), TINY)["guarded"] == 0
    assert sdram_timing(SdramParameters(), TINY.with_changes(axi_address_bits=32))["guarded"] == 1


def test_estimates_see_a_beat_for_its_words():
    target = Target(TINY, SdramParameters())
    assert target.estimated_memory.cycles_per_beat == 4
    assert target.bytes_per_cycle == 2
    assert reference_like(REFERENCE_MEMORY, TINY) is REFERENCE_MEMORY


@pytest.mark.parametrize("memory", [MemoryParameters(5, 6, 7), SdramParameters(refresh=9)], ids=str)
def test_a_memory_is_read_back_from_its_parameters(memory):
    assert memory_of(asdict(memory)) == memory


def test_names_of_no_memory_are_refused():
    with pytest.raises(ConfigError, match="memory has the parameters lag; a memory has latency, depth"):
        memory_of({"lag": 1})


def test_a_target_with_an_sdram_is_read_back_from_its_text():
    target = Target(TINY, SdramParameters(precharge=3), 50.0)
    assert 'kind = "sdram"' in to_toml(target)
    assert from_toml(to_toml(target)) == target
    assert target.timing_digest != Target(TINY, SdramParameters(), 50.0).timing_digest


def test_a_setting_chooses_the_kind_of_memory_and_its_parameters():
    target = apply_settings(Target(TINY), ["memory.kind=sdram", "memory.refresh=7"])
    assert target.memory == SdramParameters(refresh=7)
    assert apply_settings(target, ["memory.refresh=8"]).memory == SdramParameters(refresh=8)
    assert apply_settings(target, ["memory.kind=reference"]).memory == REFERENCE_MEMORY


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("memory.kind=hbm", "memory.kind = 'hbm' is unknown; there are reference, sdram"),
        (
            "memory.refresh=7",
            "parameter 'memory.refresh' is unknown; there are latency, depth, cycles_per_beat",
        ),
    ],
)
def test_a_setting_that_the_memory_does_not_have_is_refused(setting, message):
    with pytest.raises(ConfigError) as caught:
        apply_settings(Target(TINY), [setting])
    assert str(caught.value) == message
