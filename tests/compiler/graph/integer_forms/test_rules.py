"""What has no integer form stays as it is, and says why."""

import numpy as np
import pytest

from tests.compiler.graph.passes.qdq import QdqBuilder, float_operators, pooled
from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.passes.to_integers import ToIntegers


def product(of: QdqBuilder, x: str, w: str, *bias: str, **more) -> str:
    return of.add("Gemm", x, w, *bias, **{"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0, **more})


def convolved(of: QdqBuilder, x: tuple[int, ...], w: str) -> str:
    rank = len(x) - 2
    return of.add(
        "Conv", of.quantised(*x), w, dilations=(1,) * rank, group=1, pads=(0,) * 2 * rank, strides=(1,) * rank
    )


def spread(of: QdqBuilder, zero: int = 0, **more) -> str:
    x = of.pair(of.input(1, 4, 3, 3), zero=zero)
    shape = {
        "dilations": (1, 1),
        "group": 1,
        "output_padding": (0, 0),
        "pads": (0, 0, 0, 0),
        "strides": (2, 2),
    }
    return of.add("ConvTranspose", x, of.weights(4, 2, 2, 2, axis=1), **{**shape, **more})


SPATIAL = "the accelerator takes 2 spatial dimensions, or 3 and a batch of 1"
UNFIT = {
    "Gemm with bias x1 that is not constant; the accelerator takes a constant bias": lambda of: product(
        of, of.quantised(2, 3), of.weights(3, 4, axis=1), of.input(4)
    ),
    "Gemm with bias c7 of shape (3, 3); "
    "the accelerator takes a bias of one number, or one for each output channel": lambda of: product(
        of, of.quantised(3, 3), of.weights(3, 3, axis=1), of.constant(of.values[of.quantised(3, 3)])
    ),
    "Gemm with bias c7 of shape (3, 1); "
    "the accelerator takes a bias of one number, or one for each output channel": lambda of: product(
        of, of.quantised(3, 3), of.weights(3, 3, axis=1), of.constant(of.values[of.quantised(3, 1)])
    ),
    "Gemm with weights dequantizelinear_2_0 of uint8; the accelerator takes constant int8 weights": lambda of: (
        product(of, of.quantised(2, 3), of.weights(3, 4, axis=1, zero=128, dtype="uint8"))
    ),
    "Gemm with constant weights c4 that are float32, not quantised; "
    "the accelerator takes constant int8 weights": lambda of: product(
        of, of.quantised(2, 3), of.constant(of.values[of.quantised(3, 4)])
    ),
    "Gemm with weights dequantizelinear_3_0 that are not constant; "
    "the accelerator takes constant int8 weights": lambda of: product(
        of, of.quantised(2, 3), of.quantised(3, 4)
    ),
    "Gemm with scales of weights dequantizelinear_2_0 along axis 0; "
    "the accelerator takes one scale of weights, or one for each output channel": lambda of: product(
        of, of.quantised(2, 3), of.weights(3, 4, axis=0)
    ),
    "Gemm with transA = 1; the accelerator takes transA = 0": lambda of: product(
        of, of.quantised(3, 2), of.weights(3, 4, axis=1), transA=1
    ),
    "Gemm with input x0 not quantised: it enters the network as float32; "
    "it needs int8 neighbours: quantise them (QuantizeLinear and DequantizeLinear, or --calibrate)": lambda of: (
        product(of, of.input(2, 3), of.weights(3, 4, axis=1))
    ),
    "MatMul with operands of 1 and 2 dimensions; the accelerator takes two tensors of 2 dimensions or more": (
        lambda of: of.add("MatMul", of.quantised(3), of.quantised(3, 2))
    ),
    "MatMul with channelwise operators after it; "
    "the accelerator takes at most one positive factor after it": lambda of: of.add(
        "Mul",
        of.add("MatMul", of.quantised(2, 3), of.quantised(3, 2)),
        of.constant(np.float32([0.5, -0.5])),
    ),
    "MatMul with sums of 40000 products; the accelerator takes sums of 32 bits": lambda of: of.add(
        "MatMul", of.quantised(1, 40000), of.quantised(40000, 1)
    ),
    "MatMul with weights dequantizelinear_2_0 of 1 dimension; "
    "the accelerator takes weights of 2 dimensions": lambda of: of.add(
        "MatMul", of.quantised(2, 3), of.weights(3, axis=-1)
    ),
    "MatMul with weights dequantizelinear_2_0 of 3 dimensions; "
    "the accelerator takes weights of 2 dimensions": lambda of: of.add(
        "MatMul", of.quantised(2, 2, 3), of.weights(2, 3, 2, axis=-1)
    ),
    f"Conv with 1 spatial dimension; {SPATIAL}": lambda of: convolved(
        of, (1, 2, 9), of.weights(4, 2, 3, axis=0)
    ),
    f"Conv with 3 spatial dimensions and a batch of 2; {SPATIAL}": lambda of: convolved(
        of, (2, 2, 3, 3, 3), of.weights(4, 2, 3, 3, 3, axis=0)
    ),
    "MaxPool with padding (1, 1) of kernels of depth 1; "
    "the accelerator takes less padding along depth than a kernel is deep": lambda of: of.add(
        "MaxPool",
        of.quantised(1, 2, 3, 3, 3),
        ceil_mode=0,
        dilations=(1, 1, 1),
        kernel_shape=(1, 2, 2),
        pads=(1, 0, 0, 1, 0, 0),
        strides=(1, 1, 1),
    ),
    "ConvTranspose with group = 2; the accelerator takes group = 1": lambda of: spread(of, group=2),
    "Add with operands of the shapes (2, 3) and (3,); the accelerator takes operands of one shape": lambda of: (
        of.add("Add", of.quantised(2, 3), of.quantised(3))
    ),
    "Mul with operands of the shapes (2, 3) and (3,); "
    "the accelerator takes operands of one shape, or a factor for each channel of an image": lambda of: (
        of.add("Mul", of.quantised(2, 3), of.quantised(3))
    ),
    "GlobalAveragePool with constant operand c0; the accelerator takes computed inputs "
    "(Add, Concat, Mul: also constants)": lambda of: of.add(
        "GlobalAveragePool", of.weights(1, 3, 2, 2, axis=-1)
    ),
    "Add with a scale of an operand 18000 times the result's; "
    "the accelerator takes scales of operands less than 64 times the result's": lambda of: of.add(
        "Add", of.pair(of.input(3), 900.0), of.pair(of.input(3), 0.01)
    ),
    "MaxPool with ceil_mode = 1; the accelerator takes ceil_mode = 0": lambda of: pooled(
        of, "MaxPool", ceil_mode=1
    ),
    "MaxPool with dilations (2, 1); the accelerator takes dilations of 1": lambda of: pooled(
        of, "MaxPool", dilations=(2, 1)
    ),
    "AveragePool with dilations (2, 1); the accelerator takes dilations of 1": lambda of: pooled(
        of, "AveragePool", count_include_pad=1, dilations=(2, 1)
    ),
    "AveragePool with padding (1, 0, 0, 1) and count_include_pad = 0; "
    "the accelerator takes padding only if it is counted (count_include_pad = 1)": lambda of: pooled(
        of, "AveragePool", count_include_pad=0
    ),
    f"GlobalAveragePool with 1 spatial dimension; {SPATIAL}": lambda of: of.add(
        "GlobalAveragePool", of.quantised(1, 2, 9)
    ),
    "the accelerator has no LogSoftmax": lambda of: of.add("LogSoftmax", of.quantised(2, 3), axis=1),
    "Gemm with sums of up to 4.90513e+09; the accelerator takes sums of 32 bits": lambda of: product(
        of, of.quantised(1, 300_000), of.weights(300_000, 1, axis=1)
    ),
}


def why(graph: Graph, real: str) -> str:
    """Return the reason recorded in the operator that makes `real` in a lowered graph."""
    return DefUse(graph).makers[real].reason


@pytest.mark.parametrize(
    ("zero", "reason"),
    [
        (
            3,
            "RMSNormalization with input dequantizelinear_1_0 of zero point 3; quantise its input "
            "symmetrically, as it subtracts no mean",
        ),
        (
            0,
            "RMSNormalization with an axis, constants or scales for which it has no integer form; --explain "
            "tells which",
        ),
    ],
)
def test_rows_without_a_mean_have_a_zero_point_of_0(zero, reason):
    of = QdqBuilder(0)
    scale = of.constant(np.ones(4, np.float32))
    real = of.add("RMSNormalization", of.pair(of.input(2, 4), zero=zero), scale, axis=1, epsilon=1e-5)
    lowered = ToIntegers().run(of.finish(of.pair(real, 0.05)))
    assert why(lowered, real) == reason


@pytest.mark.parametrize("reason", UNFIT)
def test_what_cannot_be_lowered_stays_and_says_why(reason):
    of = QdqBuilder(0)
    real = UNFIT[reason](of)
    graph = of.finish(of.pair(real, 0.05))
    lowered = ToIntegers().run(graph)
    assert float_operators(lowered) == float_operators(graph)
    np.testing.assert_array_equal(
        interpret(lowered, of.feeds())[graph.outputs[0]], of.values[graph.outputs[0]]
    )
    assert why(lowered, real) == reason


def from_bytes(of: QdqBuilder, scale: str, zero: str, dtype: str = "int8", axis: int = 0) -> str:
    """Add a real tensor that a DequantizeLinear makes of what enters the network."""
    return of.add("DequantizeLinear", of.add("Cast", of.input(3), to=dtype), scale, zero, axis=axis)


def one_scale(of: QdqBuilder) -> str:
    return of.constant(np.float32(0.1))


def zeros(of: QdqBuilder, *shape: int, dtype: str = "int8") -> str:
    return of.constant(np.zeros(shape, dtype))


def dead_channel(of: QdqBuilder) -> str:
    scales = of.constant(np.array([0.5, 0, 0.5, 0.5], np.float32))
    values = of.constant(of.rng.integers(-9, 9, (3, 4)).astype(np.int8))
    weights = of.add("DequantizeLinear", values, scales, zeros(of, 4), axis=1)
    return of.add("MatMul", of.quantised(2, 3), weights)


def row_of_scales(of: QdqBuilder) -> str:
    values, scales = of.constant(np.ones((1, 4), np.int32)), of.constant(np.full(4, 0.5, np.float32))
    bias = of.add("DequantizeLinear", values, scales, zeros(of, 4, dtype="int32"), axis=1)
    return product(of, of.quantised(2, 3), of.weights(3, 4, axis=1), bias)


AROUND = {  # what the conversions around an operator are not
    "Relu with input x0 not quantised: it enters the network as float32; "
    "the accelerator takes bounds after an operator that runs on the accelerator": lambda of: of.add(
        "Relu", of.input(3)
    ),
    "Relu with input sigmoid_2_0 not quantised: Sigmoid 'sigmoid_2_0' computes it as float32; "
    "the accelerator takes bounds after an operator that runs on the accelerator": lambda of: of.add(
        "Relu", of.add("Sigmoid", of.quantised(3))
    ),
    "Clip with input maxpool_2_0 that MaxPool 'maxpool_2_0' computes on the host; "
    "the accelerator takes bounds after an operator that runs on the accelerator": lambda of: of.add(
        "Clip", pooled(of, "MaxPool", ceil_mode=1), min=0.0, max=1.0
    ),
    "Transpose with input x0 not quantised: it enters the network as float32; "
    "it needs int8 neighbours: quantise them (QuantizeLinear and DequantizeLinear, or --calibrate)": lambda of: (
        of.add("Transpose", of.input(2, 3), perm=(1, 0))
    ),
    "Concat with input sigmoid_2_0 not quantised: Sigmoid 'sigmoid_2_0' computes it as float32; "
    "it needs int8 neighbours: quantise them (QuantizeLinear and DequantizeLinear, or --calibrate)": lambda of: (
        of.add("Concat", x := of.quantised(3), of.add("Sigmoid", x), axis=0)
    ),
    "Concat with constant operand c2; it needs int8 neighbours: quantise them (QuantizeLinear and DequantizeLinear, or --calibrate)": lambda of: (
        of.add("Concat", of.quantised(3), of.constant(np.ones(2, np.float32)), axis=0)
    ),
    "Relu with input cast_1_0 of a scale or zero point that is not constant; "
    "the accelerator takes one constant scale and zero point for a tensor": lambda of: of.add(
        "Relu", from_bytes(of, one_scale(of), of.add("Cast", of.input(), to="int8"))
    ),
    "Relu with input cast_0_0 of 3 scales; "
    "the accelerator takes one constant scale and zero point for a tensor": lambda of: of.add(
        "Relu", from_bytes(of, of.constant(np.array([1, 2, 3], np.float32)), zeros(of, 3))
    ),
    "Reshape with input cast_0_0 of uint8; the accelerator takes int8 tensors": lambda of: of.add(
        "Reshape", from_bytes(of, one_scale(of), zeros(of, dtype="uint8"), "uint8"), shape=(3, 1)
    ),
    "MatMul with weights dequantizelinear_0_0 of scale 0; "
    "the accelerator takes weights of scales greater than 0": dead_channel,
    "Gemm with bias dequantizelinear_0_0 of shape (1, 4) and 4 scales; "
    "the accelerator takes a bias of one number, or one for each output channel": row_of_scales,
    "Sum with operands float32[2, 3], float32[3]; the accelerator takes operands of one shape": lambda of: (
        of.add("Sum", of.quantised(2, 3), of.quantised(3))
    ),
}


@pytest.mark.parametrize("reason", AROUND)
def test_what_conversions_do_not_hold_is_told(reason):
    of = QdqBuilder(0)
    real = AROUND[reason](of)
    assert why(ToIntegers().run(of.finish(of.pair(real, 0.05))), real) == reason


RESULTS = {  # of a MaxPool, whose result is read in other ways than by one QuantizeLinear
    "result maxpool_2_0 that leaves the network as float32, not quantised; "
    "it needs int8 neighbours: quantise them (QuantizeLinear and DequantizeLinear, or --calibrate)": lambda of, real: (
        real,
    ),
    "result maxpool_2_0 that Sigmoid 'sigmoid_3_0' reads as float32, not quantised; "
    "it needs int8 neighbours: quantise them (QuantizeLinear and DequantizeLinear, or --calibrate)": lambda of, real: (
        of.add("Sigmoid", real),
    ),
    "result relu_3_0 that Sigmoid 'sigmoid_4_0' reads as float32, not quantised; "
    "it needs int8 neighbours: quantise them (QuantizeLinear and DequantizeLinear, or --calibrate)": lambda of, real: (
        of.add("Sigmoid", of.add("Relu", real)),
        of.pair(real),
    ),
    "result quantizelinear_3_0 of uint8; the accelerator takes int8 tensors": lambda of, real: (
        of.add("QuantizeLinear", real, one_scale(of), zeros(of, dtype="uint8"), axis=0),
    ),
    "result quantizelinear_3_0 of a scale or zero point that is not constant; "
    "the accelerator takes one constant scale and zero point for a tensor": lambda of, real: (
        of.add("QuantizeLinear", real, of.input(), zeros(of), axis=0),
    ),
    "scales that make a ratio of 1.28034e+28; "
    "the accelerator takes ratios of scales between 0 and 32768": lambda of, real: (of.pair(real, 1e-30),),
}


@pytest.mark.parametrize("reason", RESULTS)
def test_how_a_result_is_read_is_told(reason):
    of = QdqBuilder(0)
    real = pooled(of, "MaxPool")
    lowered = ToIntegers().run(of.finish(*RESULTS[reason](of, real)))
    assert why(lowered, real) == f"MaxPool with {reason}"


@pytest.mark.parametrize(("scale", "fits"), [(0.0002, False), (0.02, True)])
def test_what_is_added_to_channels_is_as_fine_as_the_result(scale, fits):
    of = QdqBuilder(0)
    thirds = of.constant(np.full((3, 1, 1), 1 / 3, np.float32))
    real = of.add("Add", of.pair(of.input(1, 3, 2, 2), 0.05), thirds)
    lowered = ToIntegers().run(of.finish(of.pair(real, scale)))
    if fits:
        assert float_operators(lowered) == []
    else:
        assert why(lowered, real) == (
            "Add with added constants in steps of 1.9685 times the result's scale; "
            "the accelerator takes added constants in steps of at most 1 times the result's scale"
        )


def test_a_part_of_a_split_that_is_read_in_float_is_named():
    of = QdqBuilder(0)
    a, b = of.add_many("Split", 2, of.quantised(2, 4), axis=1, split=(1, 3))
    lowered = ToIntegers().run(of.finish(of.pair(a), of.add("Sigmoid", b)))
    assert why(lowered, b) == (
        f"Split with result {b} that Sigmoid 'sigmoid_5_0' reads as float32, not quantised; "
        "it needs int8 neighbours: quantise them (QuantizeLinear and DequantizeLinear, or --calibrate)"
    )
