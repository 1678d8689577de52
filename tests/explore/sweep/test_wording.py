"""Errors of types in specifications, in plain words."""

import pytest

from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.specification import from_values

LAYER = {"channels": 8, "outputs": 8, "size": 4}
GOOD = {"parameters": {"block_in": [8]}, "workloads": [{"conv": LAYER}]}


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
