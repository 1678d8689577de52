"""Spaces: values, ranges, expressions, constraints."""

import pytest

from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.parameters import NAMES, value_of, with_values
from vdla.explore.sweep.space import space_of
from vdla.explore.sweep.specification import from_values
from vdla.hw.spec.target import TARGETS, Target

LAYER = {"conv": {"size": 8, "channels": 16, "outputs": 16}}


def space(parameters, *constraints):
    """Return the space of parameters over the preset `default`."""
    values = {"parameters": parameters, "constraints": list(constraints), "workloads": [LAYER]}
    return space_of(from_values(values), Target())


def combinations(parameters, *constraints):
    """Return the values of each point."""
    return [tuple(point.values.values()) for point in space(parameters, *constraints).points()]


@pytest.mark.parametrize(
    ("parameters", "constraints", "points"),
    [
        ({"block_in": [8, 16], "block_out": [4, 8]}, (), [(8, 4), (8, 8), (16, 4), (16, 8)]),
        ({"block_in": "block_out", "block_out": [4, 8]}, (), [(4, 4), (8, 8)]),
        ({"block_in": 8, "memory.latency": {"from": 10, "to": 30, "step": 10}}, (), [(8, 10), (8, 20), (8, 30)]),
        ({"memory.latency": {"from": 16, "to": 100, "times": 2}}, (), [(16,), (32,), (64,)]),
        ({"inp_buffer_bytes": ["16KiB", 32768], "acc_buffer_bytes": "4 * inp_buffer_bytes"}, (), [(16384, 65536), (32768, 131072)]),
        ({"clock_mhz": [50, 100.5]}, (), [(50.0,), (100.5,)]),
        ({"extensions": ["none", "requantise,overwrite"]}, (), [("none",), ("requantise,overwrite",)]),
        ({"block_in": [8, 16, 32], "block_out": [8, 16]}, ("block_in * block_out <= 128", "block_in > 8"), [(16, 8)]),
        ({"block_in": [8, 16]}, ("block_in < block_out",), [(8,)]),
        ({"block_in": "2 * batch", "batch": "block_out / 2", "block_out": [4]}, (), [(4, 2, 4)]),
    ],
)  # fmt: skip
def test_points_are_the_combinations_that_satisfy_the_constraints(parameters, constraints, points):
    assert combinations(parameters, *constraints) == points


def test_points_are_numbered_from_zero_without_gaps():
    points = space({"block_in": [8, 16, 32]}, "block_in != 16").points()
    assert [(point.number, point.values["block_in"]) for point in points] == [(0, 8), (1, 32)]


@pytest.mark.parametrize(
    ("parameters", "constraints", "message"),
    [
        ({"blok_in": [8]}, (), "parameter 'blok_in' is unknown; did you mean block_in? there are batch, "),
        ({"name": ["a"]}, (), "parameter 'name' is unknown"),
        ({}, (), "parameters is empty"),
        ({"block_in": []}, (), "parameters.block_in = [] is empty; give at least one value"),
        ({"block_in": [8, "8"]}, (), "parameters.block_in holds 8 twice"),
        ({"block_in": ["eight"]}, (), "parameters.block_in = 'eight' is not a whole number"),
        ({"block_in": [True]}, (), "parameters.block_in = True is not a number"),
        ({"extensions": [1]}, (), "parameters.extensions = 1 is not text"),
        ({"clock_mhz": [10**400]}, (), "is beyond 1e+300"),
        ({"block_in": {"from": 8, "to": 4, "step": 1}}, (), "parameters.block_in is empty: from = 8 is more than to = 4"),
        ({"block_in": {"from": 8, "to": 9}}, (), "needs step or times; a range is {from = 8"),
        ({"block_in": {"from": 8, "to": 9, "step": 0}}, (), "does not grow"),
        ({"block_in": {"from": 1, "to": 9e9, "step": 1}}, (), "has more than 10,000 values"),
        ({"block_in": {"from": 1, "end": 9, "step": 1}}, (), "parameters.block_in: Object contains unknown field `end`; a range is"),
        ({"block_in": {"from": 1, "to": float("inf"), "step": 1}}, (), "has a number beyond 9223372036854775808; a range is"),
        ({"block_in": {"from": 1, "to": 9, "step": float("nan")}}, (), "has a number beyond"),
        ({"block_in": {"from": 1, "to": 1 << 62, "times": 1e300}}, (), "has a number beyond"),
        ({"block_in": {"from": 1, "to": 1 << 62, "times": 10**3900}}, (), "has a number beyond"),
        ({"memory.latency": [*range(1, 300_000), 1]}, (), "parameters.memory.latency holds 1 twice"),
        ({"memory.latency": list(range(1, 900_001))}, tuple(f"block_in > {n}" for n in range(20)), "60 operations, numbers and names, for each of 900,000 combinations"),
        ({"block_in": "block_ot"}, (), "in expression 'block_ot', parameter 'block_ot' is unknown; did you mean block_out?"),
        ({"block_in": "block_out", "block_out": "block_in"}, (), "depend on each other in a circle"),
        ({"block_in": [8]}, ("block_in = 8",), "expression 'block_in = 8' cannot be read"),
        ({"block_in": [8, 16]}, ("block_in > 16",), "no combination of 2 satisfies the constraints: 'block_in > 16' rejects 2"),
        ({"memory.latency": list(range(1, 1002)), "memory.depth": list(range(1, 1001))}, (), "1,001,000 combinations"),
    ],
)  # fmt: skip
def test_a_wrong_space_is_one_line(parameters, constraints, message):
    with pytest.raises(SweepError) as caught:
        space(parameters, *constraints).points()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", TARGETS)
def test_the_values_of_a_target_make_it_again(name):
    target = TARGETS[name]
    values = {key: value_of(target, key) for key in NAMES}
    assert with_values(TARGETS["default"], values).digest == target.digest


def test_an_expression_without_a_value_says_whose_it_is():
    with pytest.raises(SweepError, match=r"^parameters.batch: expression 'block_in // 0' has no value for "):
        combinations({"block_in": [8], "batch": "block_in // 0"})
    with pytest.raises(SweepError, match=r"^constraints: expression '1 % 0' has no value: "):
        combinations({"block_in": [8]}, "1 % 0")
