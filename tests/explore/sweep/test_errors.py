"""Errors of sweeps: unknown names with the nearest, and values that stand there twice."""

import pytest

from vdla.explore.sweep.errors import SweepError, first_repeated, unknown
from vdla.explore.sweep.specification import from_values

LAYER = {"channels": 8, "outputs": 8, "size": 4}
GOOD = {"parameters": {"block_in": [8]}, "workloads": [{"conv": LAYER}]}


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


def layer(**changes):
    return {"workloads": [{"conv": LAYER | changes}]}


def shaped(**shapes):
    return {"workloads": [{"model": "m.onnx", "shapes": shapes}]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampler": "x"}, 'sampler = \'x\' is not allowed; it takes "tpe" or "nsga2" or "random"'),
        ({"budget": "al"}, "budget = 'al' is not allowed; it takes a whole number or \"all\""),
        ({"budget": 1.5}, 'budget = 1.5 is not allowed; it takes a whole number or "all"'),
        ({"seed": True}, "seed = True is not allowed; it takes a whole number"),
        (
            {"seed": 1 << 40},
            "seed = 1099511627776 is not allowed; it takes a whole number of at most 2147483648",
        ),
        ({"base": {"config": 3}}, "base.config = 3 is not allowed; it takes text"),
        ({"objectives": "lut"}, "objectives = 'lut' is not allowed; it takes a list"),
        ({"constraints": ["1", 1]}, "constraints[1] = 1 is not allowed; it takes text"),
        ({"limits": {"ff": 1, "lut": True}}, "limits.lut = True is not allowed; it takes a number"),
        (layer(size="a"), "workloads[0].conv.size = 'a' is not allowed; it takes a whole number"),
        (
            layer(kernel="a"),
            "workloads[0].conv.kernel = 'a' is not allowed; it takes a whole number or a list",
        ),
        (layer(kernel=[1]), "workloads[0].conv.kernel = [1] is not allowed; it takes a list of 2"),
        (
            layer(padding="sam"),
            'workloads[0].conv.padding = \'sam\' is not allowed; it takes a whole number or "same" or "valid"',
        ),
        ({"workloads": [{"conv": {"outputs": 1}}]}, "workloads[0].conv.channels is missing; give it"),
        (
            shaped(w=[3], x=[1, 0]),
            "workloads[0].shapes.x[1] = 0 is not allowed; it takes a whole number of at least 1",
        ),
        (shaped(w=[3], x=4), "workloads[0].shapes.x = 4 is not allowed; it takes a list"),
    ],
)
def test_an_error_names_the_value_and_what_is_allowed(changes, message):
    with pytest.raises(SweepError) as caught:
        from_values(GOOD | changes)
    assert str(caught.value) == message


def test_what_is_missing_from_the_whole_is_named():
    with pytest.raises(SweepError, match=r"^workloads is missing; give it$"):
        from_values({"parameters": GOOD["parameters"]})
