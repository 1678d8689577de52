"""Errors of sweeps: unknown names with the nearest, and values that stand there twice."""

import pytest

from vdla.explore.sweep.errors import first_repeated, unknown


@pytest.mark.parametrize(
    ("values", "repeated"), [((), None), ((1, 2, 3), None), ((3, 1, 2, 1, 3), 1), (("a", "a"), "a")]
)
def test_the_first_value_that_stands_there_before(values, repeated):
    assert first_repeated(iter(values)) == repeated


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("block", "parameter 'block' is unknown; did you mean block_in? there are block_in, bus_bits"),
        ("xyz", "parameter 'xyz' is unknown; there are block_in, bus_bits"),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest_if_one_is_near(name, message):
    assert str(unknown("parameter", name, iter(["block_in", "bus_bits"]))) == message


def test_a_name_in_another_table_is_the_nearest():
    for name, near in (("memory.burst_bytes", "burst_bytes"), ("latency", "memory.latency")):
        message = str(unknown("parameter", name, ["memory.latency", "burst_bytes", "memory.depth"]))
        assert f"did you mean {near}? there are memory.latency" in message
