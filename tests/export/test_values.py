"""Values on the CPU: their types, their places, and which of them share memory."""

from itertools import pairwise

import numpy as np
import pytest

from vdla.export.c_text import ExportError
from vdla.export.values import CpuValues, values_of
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.runtime.module.plan import HostStep, Plan, Value

FOUR, SQUARE = Value((4,), "float32"), Value((2, 2), "float32")


def step(op: str, inputs: str, output: str, **attributes) -> HostStep:
    """Return a step on the CPU."""
    return HostStep(output, op, tuple(inputs.split()), (output,), attributes)


def placed(*steps: HostStep, constants=None, **outputs: Value) -> CpuValues:
    """Return the values of steps that read `x`, float32[4]."""
    plan = Plan("net", Target(TINY), {"x": FOUR}, outputs, steps, {}, {}, {}, constants or {})
    return values_of(plan)


def union_of(values: CpuValues, name: str) -> str:
    """Return the union that holds a value."""
    return values.places[name].partition(".")[0]


def test_a_value_whose_view_is_read_later_keeps_its_memory():
    values = placed(
        step("Relu", "x", "a"),
        step("Reshape", "a", "v", shape=(2, 2)),
        step("Relu", "x", "b"),
        step("Reshape", "b", "w", shape=(2, 2)),
        step("Add", "v w", "y"),
        y=SQUARE,
    )
    assert values.places["v"] == values.places["a"]
    assert values.types["v"] == SQUARE
    assert union_of(values, "a") != union_of(values, "b")


def test_values_that_never_live_together_share_memory():
    names = ["x", "a", "b", "c", "d"]
    steps = [step("Relu", source, result) for source, result in pairwise(names)]
    values = placed(*steps, step("Relu", "d", "y"), y=FOUR)
    assert union_of(values, "a") == union_of(values, "c") != union_of(values, "b") == union_of(values, "d")
    assert [list(members) for members in values.unions.values()] == [["a", "c"], ["b", "d"]]
    assert values.union_bytes == 2 * 16


def test_inputs_and_outputs_are_arguments():
    values = placed(step("Relu", "x", "y"), step("Relu", "y", "z"), y=FOUR, z=FOUR)
    assert [values.places[name] for name in "xyz"] == ["inputs->x", "outputs->y", "outputs->z"]
    assert not values.unions
    assert not values.copies


def test_an_output_that_no_step_writes_is_copied():
    values = placed(
        step("Relu", "x", "a"),
        step("Reshape", "a", "y", shape=(2, 2)),
        constants={"c": np.zeros(4, np.float32)},
        x=FOUR,
        y=SQUARE,
        c=FOUR,
    )
    assert values.copies == {"x": "x", "y": "a", "c": "c"}
    assert values.places["c"] == "constant_c"


def test_constants_that_nothing_reads_are_left_out():
    constants = {"c": np.zeros(4, np.float32), "unused": np.zeros(9, np.float32)}
    values = placed(step("Add", "x c", "y"), constants=constants, y=FOUR)
    assert list(values.constants) == ["constant_c"]


def test_a_type_that_c_does_not_have_is_refused():
    constants = {"half": np.zeros(4, np.float16)}
    with pytest.raises(
        ExportError, match=r"^half holds float16, which has no type in C99; there are float32, "
    ):
        placed(step("Identity", "half", "y"), constants=constants, y=Value((4,), "float16"))
