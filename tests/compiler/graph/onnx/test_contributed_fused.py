"""Fused float operators of ONNX Runtime's optimiser, compared with its kernels."""

import numpy as np
import pytest

from tests.compiler.graph.onnx.onnxruntime_results import check, fused
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.contributed import ACTIVATIONS, FUSED
from vdla.compiler.graph.onnx.load import load

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


CONV = {"w": normal(6, 2, 3, 3), "b": normal(6)}
PARAMETERS = {"Clip": [-0.5, 1.5], "HardSigmoid": [0.3, 0.4], "LeakyRelu": [0.2]}


@pytest.mark.parametrize("activation", ["Clip", "HardSigmoid", "LeakyRelu", "Relu", "Sigmoid", "Tanh"])
@pytest.mark.parametrize("inputs", ["x w", "x w b", "x w b z", "x w - z"])
def test_a_fused_convolution_adds_and_activates(activation, inputs):
    fed = {"x": normal(1, 4, 7, 7), "z": normal(1, 6, 4, 4)}
    fed = {name: fed[name] for name in fed if name in inputs.split()}
    given = {"activation_params": PARAMETERS[activation]} if activation in PARAMETERS else {}
    proto = fused(
        "FusedConv",
        inputs,
        fed,
        CONV,
        activation=activation,
        group=2,
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        strides=[2, 2],
        dilations=[1, 1],
        **given,
    )
    assert "Conv" in [graph_node.op for graph_node in check(proto, fed).nodes]


GEMM = {
    "Elu": {"activation_alpha": 0.5},
    "HardSigmoid": {"activation_alpha": 0.3, "activation_beta": 0.4},
    "LeakyRelu": {"activation_alpha": 0.2},
    "Relu": {},
    "Sigmoid": {},
    "Softplus": {},
    "Softsign": {},
    "Tanh": {},
}


@pytest.mark.parametrize("activation", GEMM)
@pytest.mark.parametrize("turned", [0, 1])
def test_a_fused_gemm_activates(activation, turned):
    fed = {"x": normal(3, 5)}
    constants = {"w": normal(4, 5) if turned else normal(5, 4), "b": normal(4)}
    attributes = {"alpha": 0.5, "beta": 2.0, "transB": turned, "activation": activation, **GEMM[activation]}
    check(fused("FusedGemm", "x w b", fed, constants, **attributes), fed)


def test_every_activation_is_tried():
    assert set(ACTIVATIONS) == {*GEMM, "Clip"}


@pytest.mark.parametrize(("left", "right"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("alpha", [1.0, 0.25])
def test_a_fused_product_turns_and_scales(left, right, alpha):
    fed = {"a": normal(2, 4, 3) if left else normal(2, 3, 4)}
    constants = {"b": normal(2, 5, 4) if right else normal(2, 4, 5)}
    check(fused("FusedMatMul", "a b", fed, constants, alpha=alpha, transA=left, transB=right), fed)


@pytest.mark.parametrize(("op", "inputs"), [("Gelu", "x"), ("BiasGelu", "x b"), ("QuickGelu", "x")])
def test_gelus(op, inputs):
    fed = {"x": normal(2, 3, 8)}
    check(fused(op, inputs, fed, {"b": normal(8)}), fed)


@pytest.mark.parametrize("inputs", ["x", "x b"])
def test_a_fast_gelu_is_the_approximation(inputs):
    fed = {"x": normal(2, 3, 8)}
    graph = check(fused("FastGelu", inputs, fed, {"b": normal(8)}), fed)
    assert graph.nodes[-1].attributes["approximate"] == "tanh"


@pytest.mark.parametrize("inputs", ["x s g", "x s g b", "x s g b c", "x s g - c"])
@pytest.mark.parametrize("outputs", ["y", "y - - t"])
def test_a_normalisation_of_a_sum(inputs, outputs):
    fed = {"x": normal(2, 3, 8), "s": normal(2, 3, 8)}
    constants = {name: normal(8) for name in "gbc"}
    proto = fused("SkipLayerNormalization", inputs, fed, constants, outputs, epsilon=1e-3)
    proto.graph.node[0].output[:] = [name.strip("-") for name in proto.graph.node[0].output]
    check(proto, fed)


@pytest.mark.parametrize("inputs", ["x s g", "x s g b"])
@pytest.mark.parametrize("outputs", ["y", "y - - t"])
def test_a_normalisation_of_a_sum_by_its_root_mean_square(inputs, outputs):
    fed = {"x": normal(2, 3, 8), "s": normal(2, 3, 8)}
    constants = {name: normal(8) for name in "gb"}
    proto = fused("SkipSimplifiedLayerNormalization", inputs, fed, constants, outputs, epsilon=1e-3)
    proto.graph.node[0].output[:] = [name.strip("-") for name in proto.graph.node[0].output]
    check(proto, fed)


@pytest.mark.parametrize("axis", [-1, 1])
def test_a_normalisation_by_the_root_mean_square(axis):
    fed = {"x": normal(2, 3, 8)}
    proto = fused(
        "SimplifiedLayerNormalization", "x g", fed, {"g": normal(*fed["x"].shape[axis:])}, axis=axis
    )
    proto.graph.node[0].domain = ""
    assert [graph_node.op for graph_node in check(proto, fed).nodes] == ["RMSNormalization"]


@pytest.mark.parametrize("inputs", ["x w s", "x w s z", "x w s - b", "x w t z b"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_dynamically_quantised_product(inputs, dtype):
    fed = {"x": normal(2, 3, 6)}
    # onnxruntime saturates sums of two larger products of int8 on processors with AVX2 and without VNNI.
    low, high = (-64, 64) if dtype is np.int8 else (0, 255)
    constants = {
        "w": RNG.integers(low, high, (6, 4)).astype(dtype),
        "s": np.float32(0.02),
        "t": RNG.uniform(0.01, 0.02, 4).astype(np.float32),
        "z": np.array(3, dtype) if "t" not in inputs.split() else np.full(4, 3, dtype),
        "b": normal(4),
    }
    graph = check(fused("DynamicQuantizeMatMul", inputs, fed, constants), fed)
    assert "MatMulInteger" in [graph_node.op for graph_node in graph.nodes]


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("SkipLayerNormalization", "x s g"),
        ("FusedMatMul", "x m"),
        ("TransposeMatMul", "x m"),
        ("FusedGemm", "r m"),
        ("FusedConv", "i w"),
        ("QuickGelu", "x"),
    ],
)
def test_attributes_that_are_left_out_have_the_defaults_of_onnxruntime(op, inputs):
    fed = {
        "x": normal(2, 3, 8) * 0.01,
        "s": normal(2, 3, 8) * 0.01,
        "r": normal(3, 8),
        "i": normal(1, 2, 5, 5),
    }
    fed = {name: fed[name] for name in fed if name in inputs.split()}
    constants = {"g": normal(8), "m": normal(8, 4), "w": normal(6, 2, 3, 3)}
    given = {"activation": "Relu"} if op in ("FusedGemm", "FusedConv") else {}
    check(fused(op, inputs, fed, constants, **given), fed)


def test_both_operands_of_a_transposed_product_are_turned():
    fed, constants = {"a": normal(2, 4, 3)}, {"b": normal(2, 5, 4)}
    check(fused("TransposeMatMul", "a b", fed, constants, alpha=0.5, transA=1, transB=1), fed)


@pytest.mark.parametrize("given", [{"transBatchA": 1}, {"transBatchB": 1}])
def test_transposed_batches_are_refused(given, without_onnxruntime):
    proto = fused("FusedMatMul", "a b", {"a": normal(2, 4, 3)}, {"b": normal(2, 3, 4)}, **given)
    with pytest.raises(GraphError, match="transBatchA = 1 and transBatchB = 1 are not supported"):
        load(proto)


@pytest.mark.parametrize(
    ("activation", "given", "wanted"), [("LeakyRelu", [0.1, 0.2], 1), ("Clip", [0.5], 2), ("Relu", [1.0], 0)]
)
def test_activations_of_other_parameters_are_refused(activation, given, wanted, without_onnxruntime):
    proto = fused(
        "FusedConv",
        "x w",
        {"x": normal(1, 4, 7, 7)},
        CONV,
        group=2,
        activation=activation,
        activation_params=given,
    )
    message = f"activation {activation} has {len(given)} parameters; it takes {wanted}"
    with pytest.raises(GraphError, match=message):
        load(proto)


@pytest.mark.parametrize("outputs", ["y m", "y - v"])
def test_the_mean_and_deviation_of_a_normalised_sum_are_refused(outputs, without_onnxruntime):
    fed = {"x": normal(2, 3, 4), "z": normal(2, 3, 4)}
    proto = fused("SkipLayerNormalization", "x z g", fed, {"g": normal(4)}, outputs)
    with pytest.raises(
        GraphError, match="its outputs mean and inv_std_var are not supported; leave them out"
    ):
        load(proto)


def test_every_operator_is_tried():
    tried = {"BiasGelu", "DynamicQuantizeMatMul", "FastGelu", "FusedConv", "FusedGemm", "FusedMatMul", "Gelu"}
    tried |= {"QuickGelu", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "TransposeMatMul"}
    assert set(FUSED) == tried


def test_an_activation_that_is_not_known_is_left_to_onnxruntime(without_onnxruntime):
    proto = fused("FusedConv", "x w", {"x": normal(1, 4, 7, 7)}, CONV, group=2, activation="Mish")
    with pytest.raises(GraphError, match=r"activation = 'Mish' is not supported; Clip, Elu, "):
        load(proto)


def test_operators_in_a_cpu_specific_layout_are_refused_with_advice():
    proto = fused("Conv", "x w", {"x": normal(1, 4, 7, 7)}, CONV)
    proto.graph.node[0].domain = "com.microsoft.nchwc"
    proto.opset_import.add(domain="com.microsoft.nchwc", version=1)
    with pytest.raises(GraphError) as error:
        load(proto)
    assert str(error.value).endswith(
        "operator Conv of com.microsoft.nchwc holds weights in a CPU-specific layout; write the optimised "
        "file with ORT_ENABLE_EXTENDED, or compile the original file"
    )
