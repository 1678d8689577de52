"""Constants with a scale for each block, and integers of less than eight bits, against onnxruntime."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.graph.onnx.networks import model, node
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.onnx.quantised import (
    RANGES,
    as_bytes,
    dequantise_blocks,
    narrow_tensor,
    unpacked_weights,
)

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_dequantised_constant_is_float(kind, axis):
    low, high = {TensorProto.INT4: (-8, 8), TensorProto.UINT4: (0, 16), TensorProto.INT8: (-128, 128)}[kind]
    shape, scales = (8, 12), (2, 12) if axis == 0 else (8, 3)
    proto = model(
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
        proto.graph.initializer.append(helper.make_tensor(name, kind, extents, values.ravel()))
    x = RNG.normal(size=(2, 8)).astype(np.float32)
    proto.ir_version = 10
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    graph = load(proto)
    np.testing.assert_allclose(interpret(graph, {"x": x})["y"], expected, rtol=1e-5, atol=1e-4)
    assert [each.op for each in graph.nodes] == ["MatMul"]


def test_the_last_block_may_be_smaller():
    result = dequantise_blocks(np.arange(5, dtype=np.int8), np.float32([1, 10]), np.int8([0, 1]), 0, 3)
    np.testing.assert_array_equal(result, [0, 1, 2, 20, 30])


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
    proto = model(
        [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q t", "y", axis=1, block_size=2)],
        {"x": [2, 4]},
        ["y"],
        {"s": np.float32(1), "z": np.int8(0), "t": np.ones((2, 2), np.float32)},
        opset=21,
    )
    with pytest.raises(GraphError, match=r"x \('q'\) is computed while the network runs"):
        load(proto)


def test_the_middle_is_the_zero_point_where_none_is_given():
    packed = np.array([[[0x70, 0xF8]]], np.uint8)
    weights = unpacked_weights(packed, np.float32([2]), None, 4, 1, 4, 4)
    np.testing.assert_array_equal(weights, np.float32([[-16], [-2], [0], [14]]))


def test_numpy_reads_integers_of_four_bits():
    tensor = helper.make_tensor("w", TensorProto.INT4, (3,), [-8, 0, 7])
    assert str(numpy_helper.to_array(tensor).dtype) == "int4"


# Integers of less than eight bits


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_quantisation_keeps_to_the_range_of_four_bits(kind, axis):
    extents = () if axis is None else (3,) if axis == 0 else (5,)
    proto = model(
        [
            node("QuantizeLinear", "x s z", "q", **({} if axis is None else {"axis": axis})),
            node("DequantizeLinear", "q s z", "y", **({} if axis is None else {"axis": axis})),
        ],
        {"x": [3, 5]},
        ["y"],
        {"s": RNG.uniform(0.1, 0.4, extents).astype(np.float32)},
        opset=21,
    )
    proto.graph.initializer.append(helper.make_tensor("z", kind, extents, np.full(extents, 3).ravel()))
    proto.ir_version = 10
    x = RNG.normal(scale=3, size=(3, 5)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    result = interpret(load(proto), {"x": x})["y"]
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    assert len(np.unique(result)) > 4


def test_the_axis_of_a_quantisation_may_follow_other_attributes():
    """Of scales that go along rows; the extents are unequal, so another axis would not fit."""
    pair = (
        node("QuantizeLinear", "x s z", "q", axis=0, saturate=1),
        node("DequantizeLinear", "q s z", "y", axis=0),
    )
    scales, x = np.float32([0.1, 0.2, 0.4]), RNG.normal(scale=3, size=(3, 5)).astype(np.float32)
    proto = model(pair, {"x": [3, 5]}, ["y"], {"s": scales}, opset=21)
    proto.graph.initializer.append(helper.make_tensor("z", TensorProto.INT4, (3,), [1, 2, -3]))
    given = list(proto.graph.node[0].attribute)[::-1]
    assert [attribute.name for attribute in given] == ["saturate", "axis"]
    del proto.graph.node[0].attribute[:]
    proto.graph.node[0].attribute.extend(given)
    points, wide = np.array([[1], [2], [-3]]), scales[:, None]
    expected = (np.clip(np.rint(x / wide) + points, -8, 7) - points) * wide
    np.testing.assert_allclose(interpret(load(proto), {"x": x})["y"], expected, rtol=1e-6)


def test_a_scale_that_is_computed_is_refused_without_onnxruntime(without_onnxruntime):
    proto = model(
        [node("QuantizeLinear", "x t z", "q"), node("DequantizeLinear", "q t z", "y")],
        {"x": [3, 5], "t": []},
        ["y"],
        opset=21,
    )
    proto.graph.initializer.append(helper.make_tensor("z", TensorProto.INT4, (), [0]))
    with pytest.raises(GraphError, match=r"scale \('t'\) is computed while the network runs; with integers"):
        load(proto)


@pytest.mark.parametrize("kind", RANGES)
def test_constants_become_bytes(kind):
    limits = RANGES[kind]
    code = getattr(TensorProto, kind.upper())
    tensor = helper.make_tensor("c", code, (2,), limits)
    converted = as_bytes(numpy_helper.to_array(tensor))
    assert converted.dtype == (np.int8 if limits[0] else np.uint8)
    assert tuple(converted) == limits


def test_other_constants_stay():
    array = np.zeros(2, np.int16)
    assert as_bytes(array) is array


@pytest.mark.parametrize("kind", RANGES)
def test_bytes_become_constants_of_fewer_bits_again(kind):
    limits = RANGES[kind]
    tensor = helper.make_tensor("c", getattr(TensorProto, kind.upper()), (2,), limits)
    assert narrow_tensor("c", as_bytes(numpy_helper.to_array(tensor)), limits) == tensor


def with_constant(proto, code=TensorProto.INT4):
    """Return a model with a constant `c` of two integers."""
    proto.graph.initializer.append(helper.make_tensor("c", code, (2,), [-3, 7]))
    proto.ir_version = 10
    return proto


def test_a_cast_to_the_type_of_four_bits_does_not_become_one_to_bytes():
    nodes = [node("CastLike", "x c", "n"), node("Cast", "n", "y", to=TensorProto.FLOAT)]
    proto = with_constant(model(nodes, {"x": [3]}, ["y"], opset=21))
    (result,) = interpret(load(proto), {"x": np.array([5, -7, 3], np.float32)}).values()
    np.testing.assert_array_equal(result, [5, -7, 3])
    assert [each.op for each in load(proto).nodes] == ["OnnxRuntime"]


@pytest.mark.parametrize("mover", [[], [node("Identity", "c", "n")]])
def test_fewer_bits_do_not_leave_a_network(mover):
    proto = with_constant(model([node("Relu", "x", "y"), *mover], {"x": [3]}, ["y"], opset=21))
    name = "n" if mover else "c"
    proto.graph.output.append(helper.make_tensor_value_info(name, TensorProto.INT4, [2]))
    with pytest.raises(GraphError, match=r"integers of less than eight bits, .*; put a DequantizeLinear"):
        load(proto)


def test_host_nodes_read_the_constants_of_the_model():
    nodes = [node("DequantizeLinear", "c h", "n"), node("Cast", "n", "f", to=TensorProto.FLOAT)]
    proto = with_constant(
        model([*nodes, node("Add", "x f", "y")], {"x": [2]}, ["y"], {"h": np.float16(0.5)}, opset=21)
    )
    (result,) = interpret(load(proto), {"x": np.zeros(2, np.float32)}).values()
    np.testing.assert_array_equal(result, [-1.5, 3.5])
