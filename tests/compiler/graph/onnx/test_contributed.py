"""ONNX Runtime's contrib operators, compared with its kernels."""

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.contributed import QUANTISED
from vdla.compiler.graph.onnx.load import load

RNG = np.random.default_rng(0)
BYTES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}


def model(op: str, inputs: list[str], fed: dict, constants: dict, out: int, **attributes) -> ModelProto:
    """Return a model of one operator: `fed` has its inputs, `constants` the others."""
    node = helper.make_node(op, inputs, ["y"], "n", domain="com.microsoft", **attributes)
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in fed.items()
    ]
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph([node], "m", values, [helper.make_tensor_value_info("y", out, None)], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def check(proto: ModelProto, fed: dict[str, np.ndarray]) -> None:
    """Compare with onnxruntime: integers by one at most."""
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, fed)
    result = interpret(load(proto), fed)["y"]
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    if result.dtype.kind == "f":
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    else:
        assert np.abs(result.astype(int) - expected).max() <= 1
        assert len(np.unique(expected)) > 2


def integers(dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def parameters(dtype: str) -> dict[str, np.ndarray]:
    """Return scales and zero points: of operands `s`, `z` and `t`, `w`, of the result `u`, `q`."""
    middle = 128 if dtype == "uint8" else 0
    points = {name: np.array(middle + point, dtype) for name, point in (("z", 3), ("w", -7), ("q", 11))}
    return points | {"s": np.float32(0.03), "t": np.float32(0.02), "u": np.float32(0.04)}


UNARY = {
    "QLinearSigmoid": ({"u": np.float32(1 / 256)}, {}),
    "QLinearLeakyRelu": ({}, {"alpha": 0.2}),
    "QLinearSoftmax": ({"u": np.float32(1 / 256), "s": np.float32(0.01)}, {"axis": 1, "opset": 13}),
    "QLinearGlobalAveragePool": ({"u": np.float32(0.01)}, {"channels_last": 0}),
    "QLinearAveragePool": (
        {},
        {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 1, 0, 1], "count_include_pad": 1},
    ),
}


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("op", UNARY)
def test_operators_with_one_operand(op, dtype):
    others, attributes = UNARY[op]
    fed = {"x": integers(dtype, 1, 4, 6, 5)}
    proto = model(op, ["x", "s", "z", "u", "q"], fed, parameters(dtype) | others, BYTES[dtype], **attributes)
    check(proto, fed)


def test_a_softmax_of_an_old_operator_set_flattens_the_dimensions_from_its_axis():
    fed, given = {"x": integers("uint8", 1, 2, 3, 2)}, parameters("uint8") | {"u": np.float32(1 / 256)}
    given["s"] = np.float32(0.005)
    proto = model("QLinearSoftmax", ["x", "s", "z", "u", "q"], fed, given, BYTES["uint8"], axis=1, opset=12)
    check(proto, fed)


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_operators_with_two_operands(op, dtype):
    fed = {"a": integers(dtype, 2, 3, 4), "b": integers(dtype, 3, 1)}
    names = ["a", "s", "z", "b", "t", "w", "u", "q"]
    check(model(op, names, fed, parameters(dtype), BYTES[dtype]), fed)


def test_zero_points_that_are_left_out_are_0():
    fed, given = {"a": integers("int8", 9), "b": integers("int8", 9)}, parameters("int8")
    proto = model("QLinearAdd", ["a", "s", "", "b", "t", "", "u"], fed, given, BYTES["int8"])
    real = fed["a"] * given["s"] + fed["b"] * given["t"]
    expected = np.clip(np.rint(real / given["u"]), -128, 127)
    assert np.abs(interpret(load(proto), fed)["y"] - expected).max() <= 1


WITHOUT_POINTS = {  # operands, and which of them are zero points
    "QLinearSigmoid": ("x s z u q", "zq", {}),
    "QLinearLeakyRelu": ("x s z u q", "zq", {}),
    "QLinearSoftmax": ("x s z u q", "zq", {"axis": 0, "opset": 13}),
    "QLinearAveragePool": ("x s z u q", "zq", {"kernel_shape": [2]}),
    "QLinearMul": ("x s z m t w u q", "zwq", {}),
    "QLinearWhere": ("c x s z m t w u q", "zwq", {}),
    "QLinearConcat": ("u q x s z m t w", "qzw", {"axis": 1}),
    "QGemm": ("r s z n t w b u q", "zwq", {}),
    "MatMulIntegerToFloat": ("r n s t z w", "zw", {}),
}


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("op", WITHOUT_POINTS)
def test_a_missing_zero_point_is_a_0_of_the_type(op, dtype):
    """Each of them, by an empty name, and at the end by no name at all."""
    names, points, attributes = WITHOUT_POINTS[op]
    fed, far = {name: integers(dtype, 1, 2, 6) for name in "xm"} | {"c": RNG.normal(size=6) > 0}, 17
    fed |= {"r": integers(dtype, 3, 4)}
    given = parameters(dtype) | {"n": integers(dtype, 4, 5), "b": np.arange(5, dtype=np.int32)}
    given |= {name: np.array(far, dtype) for name in points}
    fed = {name: array for name, array in fed.items() if name in names.split()}
    out = TensorProto.FLOAT if op == "MatMulIntegerToFloat" else BYTES[dtype]
    for point in points:
        zero = model(op, names.split(), fed, given | {point: np.array(0, dtype)}, out, **attributes)
        left = ["" if name == point else name for name in names.split()]
        while not left[-1] and len(left) > QUANTISED[op].inputs[0]:
            left.pop()
        without_point = model(op, left, fed, given, out, **attributes)
        result, expected = (interpret(load(variant), fed)["y"] for variant in (without_point, zero))
        assert result.dtype == expected.dtype, point
        np.testing.assert_array_equal(result, expected, point)


@pytest.mark.parametrize("attributes", [{}, {"opset": 13}, {"opset": 12}, {"opset": 11, "axis": 2}])
def test_the_axis_of_a_softmax_has_the_default_of_its_operator_set(attributes):
    fed, given = {"x": integers("int8", 2, 3, 2)}, parameters("int8") | {"u": np.float32(1 / 256)}
    proto = model("QLinearSoftmax", ["x", "s", "z", "u", "q"], fed, given, BYTES["int8"], **attributes)
    real = (fed["x"].astype(float) - given["z"]) * given["s"]
    new = attributes.get("opset", 13) > 12
    axes = -1 if new or attributes.get("axis") == 2 else (1, 2)
    powers = np.exp(real)
    expected = np.rint(powers / powers.sum(axes, keepdims=True) * 256) + given["q"]
    result = interpret(load(proto), fed)["y"]
    assert np.abs(result - np.clip(expected, -128, 127)).max() <= 1


def test_means_along_axes():
    """onnxruntime declares the operator, but has no kernel of it."""
    fed, given = {"x": integers("int8", 2, 4, 6, 5)}, parameters("int8")
    attributes = {"axes": [1, 3], "keepdims": 0}
    proto = model("QLinearReduceMean", ["x", "s", "z", "u", "q"], fed, given, BYTES["int8"], **attributes)
    means = (fed["x"].astype(float) - given["z"]).mean((1, 3)) * given["s"] / given["u"] + given["q"]
    assert np.abs(interpret(load(proto), fed)["y"] - np.clip(means, -128, 127)).max() <= 1


@pytest.mark.parametrize("dtype", BYTES)
def test_tensors_of_several_scales_are_joined(dtype):
    fed = {"a": integers(dtype, 2, 3), "b": integers(dtype, 2, 5)}
    names = ["u", "q", "a", "s", "z", "b", "t", "w"]
    check(model("QLinearConcat", names, fed, parameters(dtype), BYTES[dtype], axis=1), fed)


def test_a_choice_of_two_tensors():
    fed = {
        "c": np.array([True, False, True, False, True]),
        "a": integers("uint8", 3, 5),
        "b": integers("uint8", 5),
    }
    names = ["c", "a", "s", "z", "b", "t", "w", "u", "q"]
    check(model("QLinearWhere", names, fed, parameters("uint8"), BYTES["uint8"]), fed)


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("real", [False, True])
def test_products_with_biases_and_scales_of_columns(dtype, turned, real):
    fed = {"a": integers(dtype, 5, 7)}
    given = parameters(dtype) | {
        "m": integers(dtype, *((4, 7) if turned else (7, 4))),
        "t": RNG.uniform(0.001, 0.01, 4).astype(np.float32),
        "w": np.full(4, parameters(dtype)["w"], dtype),
        "c": RNG.integers(-9000, 9000, 4).astype(np.int32),
    }
    names = ["a", "s", "z", "m", "t", "w", "c"] + ([] if real else ["u", "q"])
    out = TensorProto.FLOAT if real else BYTES[dtype]
    check(model("QGemm", names, fed, given, out, alpha=0.5, transB=turned), fed)


@pytest.mark.parametrize("bias", [False, True])
def test_products_of_integers_to_real_numbers(bias):
    fed = {"a": integers("uint8", 2, 3, 7)}
    given = parameters("uint8") | {
        "m": integers("uint8", 7, 4),
        "t": RNG.uniform(0.001, 0.01, 4).astype(np.float32),
        "w": integers("uint8", 4),
        "c": RNG.normal(size=4).astype(np.float32),
    }
    names = ["a", "m", "s", "t", "z", "w"] + ["c"] * bias
    check(model("MatMulIntegerToFloat", names, fed, given, TensorProto.FLOAT), fed)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_conversions(dtype):
    fed = {"x": RNG.normal(size=(3, 4)).astype(np.float32)}
    given = {"s": np.float32(0.01), "z": np.array(7, dtype)}
    proto = model(
        "QuantizeLinear", ["x", "s", "z"], fed, given, helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    )
    check(proto, fed)
    fed = {"x": integers(dtype, 3, 4)}
    given = {"s": RNG.uniform(0.1, 1, 4).astype(np.float32), "z": np.full(4, 7, dtype)}
    check(model("DequantizeLinear", ["x", "s", "z"], fed, given, TensorProto.FLOAT, axis=1), fed)


@pytest.mark.parametrize(
    ("k", "block", "bits", "points"),
    [
        *(
            (k, block, 4, points)
            for k, block in ((64, 32), (80, 16))
            for points in ("none", "packed", "real")
        ),
        *(
            (48, 16, 8, points) for points in ("none", "packed")
        ),  # onnxruntime has no kernel for real zero points
    ],
)
def test_weights_in_blocks(k, block, bits, points):
    fed, n, blocks = {"a": RNG.normal(size=(3, k)).astype(np.float32)}, 5, -(-k // block)
    given = {
        "b": RNG.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8),
        "s": RNG.uniform(0.01, 0.1, n * blocks).astype(np.float32),
        "z": RNG.integers(0, 256, n * -(-blocks * bits // 8)).astype(np.uint8)
        if points == "packed"
        else RNG.uniform(0, 15, n * blocks).astype(np.float32),
        "c": RNG.normal(size=n).astype(np.float32),
    }
    names = ["a", "b", "s"] + ["z"] * (points != "none")
    if points == "none":
        names += ["", "", "c"]
    proto = model("MatMulNBits", names, fed, given, TensorProto.FLOAT, K=k, N=n, bits=bits, block_size=block)
    check(proto, fed)


X = {"x": np.zeros((1, 2, 4, 4), np.uint8)}
BLOCKS = {"b": np.zeros((4, 2, 16), np.uint8), "s": np.ones(8, np.float32), "z": np.zeros(3, np.uint8)}
REAL = {"x": np.zeros((2, 64), np.float32)}
REFUSED = {
    "it has 3 inputs; QLinearSigmoid takes 4 to 5": ("QLinearSigmoid", "x s z", X, {}),
    "it has an attribute 'gamma', which QLinearSigmoid does not have; it takes none": (
        "QLinearSigmoid",
        "x s z u q",
        X,
        {"gamma": 1},
    ),
    "attribute alpha is not of the kind FLOAT": ("QLinearLeakyRelu", "x s z u q", X, {"alpha": 1}),
    "attribute channels_last = 1 is not supported; it may be 0": (
        "QLinearGlobalAveragePool",
        "x s z u q",
        X,
        {"channels_last": 1},
    ),
    "operator Inverse is not supported": ("Inverse", "x", X, {}),
    "attribute K is missing": ("MatMulNBits", "x b s", REAL, {"N": 4, "block_size": 32}),
    "B has 128 bytes and scales 8 elements; K = 96, N = 4 and block_size = 32 need 192 and 12": (
        "MatMulNBits",
        "x b s",
        REAL,
        {"K": 96, "N": 4, "block_size": 32},
    ),
    "zero_points has 3 elements; 8 blocks have one each": (
        "MatMulNBits",
        "x b s z",
        REAL,
        {"K": 64, "N": 4, "block_size": 32},
    ),
    "uint8 of 5 bits in blocks of 32 is not supported; uint8 of 2, 4 or 8 bits is, in blocks of whole bytes": (
        "MatMulNBits",
        "x b s",
        REAL,
        {"K": 64, "N": 4, "block_size": 32, "bits": 5},
    ),
    "scales ('x') is computed while the network runs; it must be a constant": (
        "MatMulNBits",
        "x b x",
        REAL,
        {"K": 64, "N": 4, "block_size": 32},
    ),
    "attribute weight_prepacked holds weights in a GPU-specific layout; it may be 0": (
        "MatMulNBits",
        "x b s",
        REAL,
        {"K": 64, "N": 4, "block_size": 32, "weight_prepacked": 1},
    ),
    "its input 4 (g_idx, 's') is not supported": (
        "MatMulNBits",
        "x b s z s",
        REAL,
        {"K": 64, "N": 4, "block_size": 32},
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals_give_the_reason(message, without_onnxruntime):
    op, inputs, fed, attributes = REFUSED[message]
    proto = model(op, inputs.split(), fed, parameters("uint8") | BLOCKS, TensorProto.UINT8, **attributes)
    with pytest.raises(GraphError) as error:
        load(proto)
    assert f"  node 0, com.microsoft.{op} 'n': {message}" in str(error.value).splitlines()


def test_every_operator_has_a_test():
    tested = {
        *UNARY,
        "QLinearReduceMean",
        "QLinearAdd",
        "QLinearMul",
        "QLinearConcat",
        "QLinearWhere",
        "QGemm",
        "MatMulNBits",
    }
    assert set(QUANTISED) == tested | {"MatMulIntegerToFloat", "DequantizeLinear", "QuantizeLinear"}
