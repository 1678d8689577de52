"""The reference memory's timing has bounds, to the number."""

import pytest

from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters

HIGHEST = {"latency": 1_048_576, "depth": 1024, "cycles_per_beat": 1024}


@pytest.mark.parametrize("name", HIGHEST)
def test_a_parameter_of_memory_lies_within_its_bounds(name):
    high = HIGHEST[name]
    for value in (1, high):
        assert getattr(MemoryParameters(**{name: value}), name) == value
    for value in (0, -1, high + 1, True, 1.0, "1", None):
        with pytest.raises(ConfigError) as caught:
            MemoryParameters(**{name: value})
        assert str(caught.value) == f"memory {name} = {value!r} is outside 1..{high}"


def test_the_reference_memory_answers_after_64_cycles_with_a_beat_in_each():
    assert MemoryParameters(latency=64, depth=16, cycles_per_beat=1) == REFERENCE_MEMORY
