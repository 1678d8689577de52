"""Weights and biases as integers, with the factors of Gemm multiplied in; which products can be quantised."""

import numpy as np
import pytest

from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.graph.quantise_weights import (
    is_quantisable_product,
    product_parts,
    quantised_product,
    scale_for,
    without_factors,
)

WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)


def product(op: str, weights: np.ndarray, bias: np.ndarray | None = None, **attributes):
    """Return a graph, and its product of x with constants."""
    constants = {"w": weights} | ({} if bias is None else {"b": bias})
    given = {"x": TensorType((3, 2), "float32")}
    types = given | {name: TensorType(array.shape, "float32") for name, array in constants.items()}
    node = Node(op, ("x", *constants), ("y",), attributes)
    return Graph("f", given, ("y",), (node,), constants, types), node


def gemm(bias: np.ndarray | None = None, weights: np.ndarray = WEIGHTS, trans_a: int = 0, trans_b: int = 0):
    return product("Gemm", weights, bias, alpha=0.5, beta=3.0, transA=trans_a, transB=trans_b)


@pytest.mark.parametrize(
    ("bias", "expected"),
    [
        (None, None),
        (np.float32([1, 2, 3]), [3, 6, 9]),
        (np.float32([[1, 2, 3]]), [3, 6, 9]),
        (np.float32(2), [6, 6, 6]),
    ],
    ids=["none", "row", "matrix of one row", "one number"],
)
@pytest.mark.parametrize("transposed", [0, 1])
def test_factors_of_gemm_are_multiplied_into_weights_and_bias(bias, expected, transposed):
    graph, node = gemm(bias, WEIGHTS.T if transposed else WEIGHTS, trans_b=transposed)
    weights, axis, scaled_bias = product_parts(graph, node)
    np.testing.assert_array_equal(weights.T if transposed else weights, WEIGHTS / 2)
    assert axis == (0 if transposed else 1)
    assert (None if scaled_bias is None else scaled_bias.tolist()) == expected
    assert without_factors(node).attributes == {**node.attributes, "alpha": 1.0, "beta": 1.0}


@pytest.mark.parametrize(("op", "axis"), [("Conv", 0), ("ConvTranspose", 1), ("MatMul", 1)])
def test_other_products_keep_their_constants(op, axis):
    bias = np.float32([1, 2, 3])
    graph, node = product(op, WEIGHTS, bias)
    weights, product_axis, product_bias = product_parts(graph, node)
    assert weights is WEIGHTS
    assert product_bias is bias
    assert product_axis == axis
    assert without_factors(node) is node


@pytest.mark.parametrize(
    ("case", "can"),
    [
        (gemm(), True),
        (gemm(np.float32([1, 2, 3])), True),
        (gemm(np.float32([[1, 2, 3]])), True),
        (gemm(np.float32(1)), True),
        (gemm(np.ones((3, 3), np.float32)), False),
        (gemm(np.ones((3, 1), np.float32)), False),  # a number for each of three rows, not three columns
        (gemm(np.ones((1, 1), np.float32)), True),
        (gemm(trans_a=1), False),
        (gemm(np.float32([1, 2, 3]), WEIGHTS.T, trans_b=1), True),
        (gemm(np.float32([1, 2]), WEIGHTS.T, trans_b=1), False),
        (product("MatMul", WEIGHTS), True),
        (product("MatMul", np.ones((1, 2, 3), np.float32)), False),
        (product("Conv", WEIGHTS), True),
        (product("ConvTranspose", WEIGHTS), True),
        (product("Add", WEIGHTS), False),
    ],
)
def test_products_with_constants_along_one_dimension_can_be_quantised(case, can):
    assert is_quantisable_product(*case) == can


def test_products_of_activations_and_of_constants_alone_cannot_be_quantised():
    graph, _ = product("MatMul", WEIGHTS)
    assert not is_quantisable_product(graph, Node("MatMul", ("x", "x"), ("y",), {}))
    assert not is_quantisable_product(graph, Node("MatMul", ("w", "w"), ("y",), {}))


def test_a_large_bias_makes_the_scale_of_its_channel_coarser():
    graph, node = product("Conv", WEIGHTS, np.float32([1, -1e9]))
    weights, bias = quantised_product(graph, node, np.float32(0.5))
    assert weights.scale == pytest.approx([2 / 127, 1e9 / (0.5 * 2**30)])
    assert weights.values.tolist() == [[0, 64, 127], [2, 2, 3]]
    assert bias.values.tolist() == [127, -(2**30)]
    assert bias.scale == pytest.approx(0.5 * weights.scale)
    assert (weights.axis, bias.axis) == (0, 0)


def test_outputs_of_several_groups_have_the_scales_of_their_columns():
    graph, node = product("ConvTranspose", WEIGHTS, np.float32([1, 2, 3, 4, 5, 6e9]))
    weights, bias = quantised_product(graph, node, np.float32(1))
    assert weights.scale == pytest.approx([3 / 127, 4 / 127, 6e9 / 2**30])
    assert bias.values.tolist() == [42, 64, 1, 169, 159, 2**30]
    assert bias.scale.tolist() == [*weights.scale, *weights.scale]


def test_scales_reach_the_largest_magnitude_and_zeros_have_one_too():
    tiny = np.finfo(np.float32).tiny
    scales = scale_for([0, tiny, 127 * tiny, 254 * tiny, 127])
    np.testing.assert_allclose(scales, [1 / 127, 1 / 127, 1 / 127, 2 * tiny, 1], rtol=1e-6)
