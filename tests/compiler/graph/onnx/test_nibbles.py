"""Integers of less than eight bits in models."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.compiler.graph.onnx.networks import model, node
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.onnx.nibbles import RANGES, as_bytes

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_quantisation_keeps_to_the_range_of_four_bits(kind, axis):
    extents = () if axis is None else (3,) if axis == 0 else (5,)
    made = model(
        [
            node("QuantizeLinear", "x s z", "q", **({} if axis is None else {"axis": axis})),
            node("DequantizeLinear", "q s z", "y", **({} if axis is None else {"axis": axis})),
        ],
        {"x": [3, 5]},
        ["y"],
        {"s": RNG.uniform(0.1, 0.4, extents).astype(np.float32)},
        opset=21,
    )
    made.graph.initializer.append(helper.make_tensor("z", kind, extents, np.full(extents, 3).ravel()))
    made.ir_version = 10
    x = RNG.normal(scale=3, size=(3, 5)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    found = interpret(load(made), {"x": x})["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert len(np.unique(found)) > 4


def test_a_scale_that_is_computed_is_refused():
    made = model(
        [node("QuantizeLinear", "x t z", "q"), node("DequantizeLinear", "q t z", "y")],
        {"x": [3, 5], "t": []},
        ["y"],
        opset=21,
    )
    made.graph.initializer.append(helper.make_tensor("z", TensorProto.INT4, (), [0]))
    with pytest.raises(GraphError, match=r"scale \('t'\) is computed while the network runs; with integers"):
        load(made)


@pytest.mark.parametrize("kind", RANGES)
def test_constants_become_bytes(kind):
    limits = RANGES[kind]
    code = getattr(TensorProto, kind.upper())
    tensor = helper.make_tensor("c", code, (2,), limits)
    from onnx import numpy_helper

    found = as_bytes(numpy_helper.to_array(tensor))
    assert found.dtype == (np.int8 if limits[0] else np.uint8)
    assert tuple(found) == limits


def test_other_constants_stay():
    array = np.zeros(2, np.int16)
    assert as_bytes(array) is array
