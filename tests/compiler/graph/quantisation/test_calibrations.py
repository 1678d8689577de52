"""Calibration data: the cost of errors in each tensor."""

import numpy as np

from tests.compiler.graph.quantisation.graphs import attention, attention_samples, residual, samples
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.quantisation.calibrations import calibrations_of, error_weights, input_power
from vdla.compiler.graph.quantisation.grids import Criterion, grid_of
from vdla.compiler.graph.quantisation.observe import observe
from vdla.compiler.graph.quantisation.roles import Roles


def test_errors_count_by_the_weights_they_are_multiplied_by():
    roles = Roles(residual())
    weights = error_weights(roles)
    np.testing.assert_array_equal(weights["n"], [1 + 4, 1 + 9, 1 + 16, 25 + 1])
    assert weights["a"] is None
    assert weights["d"] is None


def test_the_error_of_a_tensor_read_by_a_table_counts_after_the_table():
    roles = Roles(residual())
    calibrations = calibrations_of(roles, observe(roles.graph, samples(1), error_weights(roles)))
    x = np.array([-2.0, 0, 3])
    (silu,) = calibrations["a"].function(x)
    np.testing.assert_allclose(silu, x / (1 + np.exp(-x)), rtol=1e-6)
    assert calibrations["n"].function is None


def test_operands_of_products_of_activations_are_symmetric():
    roles = Roles(attention())
    calibrations = calibrations_of(roles, observe(roles.graph, attention_samples(1), error_weights(roles)))
    assert {name for name, case in calibrations.items() if case.symmetric} == {"a", "p"}


def test_weights_of_convolutions_count_by_input_channel():
    text = """\
def f(x: float32[1, 2, 3, 3]):
    w: float32[2, GROUPED, 1, 1] = constant(VALUES)
    y: float32[1, 2, 3, 3] = Conv(x, w, dilations=(1, 1), group=GROUP, pads=(0, 0, 0, 0), strides=(1, 1))
    return y
"""
    dense = (
        text.replace("GROUPED", "2")
        .replace("GROUP", "1")
        .replace("VALUES", "[[[[1]], [[2]]], [[[3]], [[4]]]]")
    )
    single = text.replace("GROUPED", "1").replace("GROUP", "2").replace("VALUES", "[[[[1]]], [[[3]]]]")
    for source, wanted in ((dense, [10, 20]), (single, [1, 9])):
        graph = parse_graph(source)
        np.testing.assert_array_equal(input_power(graph, graph.nodes[0]).reshape(-1), wanted)


GATED = """\
def f(x: float32[1, 1, 2, 2]):
    w: float32[1, 1, 1, 1] = constant([[[[1]]]])
    c: float32[1, 1, 2, 2] = Conv(x, w, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    s: float32[1, 1, 2, 2] = Sigmoid(c)
    d: float32[1, 1, 2, 2] = Conv(x, w, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    m: float32[1, 1, 2, 2] = Mul(d, s)
    y: float32[1, 1, 2, 2] = Conv(m, w, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    return y
"""


def test_negative_zero_points_of_factors_fit_a_byte():
    roles = Roles(parse_graph(GATED))
    given = [{"x": np.ones((1, 1, 2, 2), np.float32)}]
    calibrations = calibrations_of(roles, observe(roles.graph, given, error_weights(roles)))
    assert {name: case.lowest for name, case in calibrations.items()} == {
        "x": -128,
        "c": -128,
        "s": -127,
        "d": -127,
        "m": -128,
        "y": -128,
    }
    assert grid_of(calibrations["s"], Criterion.EXTREMES).zero == -127
