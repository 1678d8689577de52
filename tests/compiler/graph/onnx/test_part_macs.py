"""Multiply-accumulates of the parts that onnxruntime runs."""

import numpy as np
import pytest

from tests.compiler.graph.onnx.networks import model, node
from vdla.compiler.graph.onnx.part_macs import macs_of_part


def counted(nodes, inputs, constants) -> int:
    constants = {name: np.zeros(shape, np.float32) for name, shape in constants.items()}
    return macs_of_part(model(nodes, inputs, ["y"], constants).SerializeToString())


@pytest.mark.parametrize("op", ["LSTM", "DynamicQuantizeLSTM"])
def test_a_recurrent_layer_multiplies_in_every_step(op):
    nodes = [node(op, "x w r", "y", hidden_size=6)]
    assert counted(nodes, {"x": [8, 2, 5]}, {"w": [1, 24, 5], "r": [1, 24, 6]}) == 8 * 2 * 24 * (5 + 6)


def test_products_count_by_shapes_that_are_inferred():
    nodes = [node("Neg", "x", "a"), node("MatMul", "a w", "b"), node("Gemm", "b v", "y", transA=1)]
    assert counted(nodes, {"x": [4, 5]}, {"w": [5, 3], "v": [4, 2]}) == 4 * 5 * 3 + 3 * 4 * 2


def test_a_product_of_unknown_extents_does_not_count():
    nodes = [node("MatMul", "x w", "a"), node("NonZero", "a", "n"), node("Cast", "n", "f", to=1)]
    nodes.append(node("MatMul", "v f", "y"))
    assert counted(nodes, {"x": [4, 5]}, {"w": [5, 3], "v": [1, 2]}) == 4 * 5 * 3
