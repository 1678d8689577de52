"""Constants with a scale for each block, against onnxruntime's DequantizeLinear."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.graph.onnx.networks import model, node
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.onnx.quantised import dequantise_blocks, unpacked_weights

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_dequantised_constant_is_float(kind, axis):
    low, high = {TensorProto.INT4: (-8, 8), TensorProto.UINT4: (0, 16), TensorProto.INT8: (-128, 128)}[kind]
    shape, scales = (8, 12), (2, 12) if axis == 0 else (8, 3)
    made = model(
        [
            node("DequantizeLinear", "w s z", "r", axis=axis, block_size=4),
            node("MatMul", "x r", "y"),
        ],
        {"x": [2, 8]},
        ["y"],
        {"s": RNG.uniform(0.1, 1, scales).astype(np.float32)},
        opset=21,
    )
    for name, extents in (("w", shape), ("z", scales)):
        values = RNG.integers(low, high, extents)
        made.graph.initializer.append(helper.make_tensor(name, kind, extents, values.ravel()))
    x = RNG.normal(size=(2, 8)).astype(np.float32)
    made.ir_version = 10
    (expected,) = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    graph = load(made)
    np.testing.assert_allclose(interpret(graph, {"x": x})["y"], expected, rtol=1e-5, atol=1e-4)
    assert [each.op for each in graph.nodes] == ["MatMul"]


def test_the_last_block_may_be_smaller():
    found = dequantise_blocks(np.arange(5, dtype=np.int8), np.float32([1, 10]), np.int8([0, 1]), 0, 3)
    np.testing.assert_array_equal(found, [0, 1, 2, 20, 30])


@pytest.mark.parametrize(
    ("scales", "block", "message"),
    [
        ((3,), 3, r"scale or zero point \(3,\) is not one for each block of 3 along axis 0: \(2,\)"),
        ((2,), -3, "attribute block_size = -3 is negative"),
    ],
)
def test_mismatched_blocks_are_refused(scales, block, message):
    with pytest.raises(RefusalError, match=message):
        dequantise_blocks(np.zeros(5, np.int8), np.ones(scales, np.float32), None, 0, block)


def test_computed_integers_are_refused(without_onnxruntime):
    made = model(
        [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q t", "y", axis=1, block_size=2)],
        {"x": [2, 4]},
        ["y"],
        {"s": np.float32(1), "z": np.int8(0), "t": np.ones((2, 2), np.float32)},
        opset=21,
    )
    with pytest.raises(GraphError, match=r"x \('q'\) is computed while the network runs"):
        load(made)


def test_the_middle_is_the_zero_point_where_none_is_given():
    packed = np.array([[[0x70, 0xF8]]], np.uint8)
    found = unpacked_weights(packed, np.float32([2]), None, 4, 1, 4, 4)
    np.testing.assert_array_equal(found, np.float32([[-16], [-2], [0], [14]]))


def test_numpy_reads_integers_of_four_bits():
    tensor = helper.make_tensor("w", TensorProto.INT4, (3,), [-8, 0, 7])
    assert str(numpy_helper.to_array(tensor).dtype) == "int4"
