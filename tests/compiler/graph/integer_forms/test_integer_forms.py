"""Every operator lowered to integers stays within one unit in the last place of the float operator between
conversions."""

import numpy as np
import pytest

from tests.compiler.graph.passes.qdq import QdqBuilder, float_operators, pooled, signed
from vdla.compiler.graph.interpret import all_values
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.passes.to_integers import parts_less
from vdla.compiler.graph.pipeline import INTEGERS
from vdla.runtime.host.int8 import BYTES
from vdla.runtime.requantise import requantise

CONVOLUTIONS = {
    "plain": (1, (1, 1), (0, 0, 0, 0), (1, 1)),
    "padded": (1, (1, 1), (1, 1, 1, 1), (1, 1)),
    "groups": (2, (2, 1), (0, 1, 2, 0), (1, 2)),
    "depthwise": (4, (1, 1), (1, 1, 0, 2), (2, 2)),
}


def convolution(of: QdqBuilder, how: str, axis: int, bias: str) -> str:
    group, dilations, pads, strides = CONVOLUTIONS[how]
    x, w = of.quantised(2, 4, 7, 6), of.weights(8, 4 // group, 3, 2, axis=axis)
    inputs = (x, w, of.bias(8, bias)) if bias != "none" else (x, w)
    return of.add("Conv", *inputs, dilations=dilations, group=group, pads=pads, strides=strides)


def dense(of: QdqBuilder, transposed: int, bias: str) -> str:
    x, w = of.quantised(3, 20), of.weights(*((8, 20) if transposed else (20, 8)), axis=0 if transposed else 1)
    inputs = (x, w, of.bias(8, bias)) if bias != "none" else (x, w)
    return of.add("Gemm", *inputs, alpha=1.0, beta=1.0, transA=0, transB=transposed)


def joined(of: QdqBuilder) -> str:
    parts = of.quantised(2, 3, 4), of.quantised(2, 1, 4), of.pair(of.add("Relu", of.quantised(2, 2, 4)))
    return of.add("Concat", *parts, axis=1)


def flattened(of: QdqBuilder) -> str:
    image = of.quantised(1, 3, 4, 2)
    return of.kept(of.add("Flatten", image, axis=1), image)


def bounded(of: QdqBuilder, inner: tuple[float, float], outer: tuple[float, float]) -> str:
    clipped = of.add(
        "Clip", of.add("Add", of.quantised(4, 50), of.quantised(4, 50)), min=inner[0], max=inner[1]
    )
    return of.add("Clip", clipped, min=outer[0], max=outer[1])


OPERATORS = {
    **{
        f"Conv, {how}, bias {bias}, scales along {axis}": lambda of, how=how, axis=axis, bias=bias: (
            convolution(of, how, axis, bias)
        )
        for how in CONVOLUTIONS
        for axis, bias in ((0, "int32"), (0, "float"), (-1, "none"))
    },
    **{
        f"Gemm, transB {transposed}, bias {bias}": lambda of, transposed=transposed, bias=bias: dense(
            of, transposed, bias
        )
        for transposed in (0, 1)
        for bias in ("none", "float", "int32")
    },
    "Gemm, bias of one row": lambda of: of.add(
        "Gemm",
        of.quantised(3, 8),
        of.weights(8, 3, axis=1),
        of.constant(of.rng.normal(size=(1, 3)).astype(np.float32)),
        alpha=1.0,
        beta=1.0,
        transA=0,
        transB=0,
    ),
    "MatMul of many rows": lambda of: of.add("MatMul", of.quantised(2, 3, 20), of.weights(20, 8, axis=1)),
    "MatMul, one scale": lambda of: of.add("MatMul", of.quantised(5, 7), of.weights(7, 2, axis=-1)),
    "MatMul of activations": lambda of: of.add("MatMul", of.quantised(3, 20), of.quantised(20, 7)),
    "MatMul of stacks of activations": lambda of: of.add(
        "MatMul", of.quantised(2, 1, 4, 9), of.quantised(3, 9, 5)
    ),
    "MatMul of activations, divided": lambda of: of.add(
        "Div", of.add("MatMul", of.quantised(2, 3, 8), of.quantised(2, 8, 4)), of.constant(np.float32(2.8))
    ),
    "Add": lambda of: of.add("Add", of.quantised(3, 50), of.quantised(3, 50)),
    "Add of itself": lambda of: of.add("Add", *[of.quantised(60)] * 2),
    "Add of very different scales": lambda of: of.add(
        "Add", of.pair(of.input(99), 0.4), of.pair(of.input(99), 0.003)
    ),
    "Mul": lambda of: of.add("Mul", of.quantised(3, 50), of.quantised(3, 50)),
    "MaxPool": lambda of: pooled(of, "MaxPool"),
    "AveragePool": lambda of: pooled(of, "AveragePool", pads=(0, 0, 0, 0), count_include_pad=0),
    "AveragePool over padding": lambda of: pooled(of, "AveragePool", count_include_pad=1),
    "GlobalAveragePool": lambda of: of.add("GlobalAveragePool", of.quantised(2, 5, 7, 6)),
    "Relu": lambda of: of.add("Relu", of.quantised(3, 50)),
    "Clip": lambda of: of.add("Clip", of.quantised(3, 50), min=-0.37, max=1.21),
    "Relu of Conv": lambda of: of.add("Relu", convolution(of, "padded", 0, "int32")),
    "Clip of Clip of Add": lambda of: bounded(of, (-0.5, 1.0), (-1.5, 0.7)),
    "Clip to where an inner one never is": lambda of: bounded(of, (0.0, 1.0), (-1.5, -0.7)),
    "Clip with bounds the wrong way round": lambda of: bounded(of, (1.0, 0.2), (-9.0, 9.0)),
    "Clip without bounds": lambda of: bounded(of, (float("-inf"), float("inf")), (-1.0, float("inf"))),
    "Relu of MaxPool": lambda of: of.add("Relu", pooled(of, "MaxPool")),
    "Relu of Concat": lambda of: of.add("Relu", joined(of)),
    "Concat": joined,
    "MatMul of a flattened image": lambda of: of.add("MatMul", flattened(of), of.weights(24, 5, axis=1)),
    "Gemm of a flattened image": lambda of: of.add(
        "Gemm",
        flattened(of),
        of.weights(5, 24, axis=0),
        of.bias(5, "int32"),
        alpha=1.0,
        beta=1.0,
        transA=0,
        transB=1,
    ),
    "another scale": lambda of: of.quantised(3, 50),
    "Flatten": lambda of: of.add("Flatten", of.quantised(2, 3, 4), axis=1),
    "Reshape": lambda of: of.add("Reshape", of.quantised(2, 3, 4), shape=(4, 6)),
    "Transpose": lambda of: of.add("Transpose", of.quantised(2, 3, 4), perm=(2, 0, 1)),
    "Squeeze": lambda of: of.add("Squeeze", of.quantised(2, 1, 4), axes=(1,)),
    "Unsqueeze": lambda of: of.add("Unsqueeze", of.quantised(2, 4), axes=(0,)),
}


def largest_difference(graph: Graph, lowered: Graph, feeds: dict[str, np.ndarray]) -> int:
    """Return how far the 8-bit values that both graphs have are apart."""
    one, other = all_values(graph, feeds), all_values(lowered, feeds)
    narrow = [name for name in one.keys() & other.keys() if graph.types[name].dtype in ("int8", "uint8")]
    assert narrow
    return max(int(np.abs(signed(one[name]) - signed(other[name])).max()) for name in narrow)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("title", OPERATORS)
def test_results_differ_by_at_most_one(title, dtype):
    for seed in range(6):
        of = QdqBuilder(seed, dtype)
        graph = of.finish(of.pair(OPERATORS[title](of)))
        lowered = INTEGERS.run(graph)
        assert float_operators(lowered) == [], f"seed {seed}"
        assert largest_difference(graph, lowered, of.feeds()) <= 1, f"seed {seed}"


@pytest.mark.parametrize(
    ("pads", "strides", "output_padding"),
    [((0, 0, 0, 0), (1, 1), (0, 0)), ((1, 1, 1, 1), (2, 2), (0, 0)), ((1, 0, 2, 1), (2, 1), (1, 0))],
)
def test_transposed_convolutions_of_zero_point_0_become_integer_ones(pads, strides, output_padding):
    for seed in range(6):
        of = QdqBuilder(seed, "int8")
        of.zero_point = lambda dtype, *shape, of=of: of.constant(np.zeros(shape, dtype))
        x, w = of.quantised(1, 5, 4, 3), of.weights(5, 6, 4, 3, axis=1)
        real = of.add(
            "ConvTranspose",
            x,
            w,
            of.bias(6, "float"),
            dilations=(1, 1),
            group=1,
            output_padding=output_padding,
            pads=pads,
            strides=strides,
        )
        graph = of.finish(of.pair(of.add("Relu", real)))
        lowered = INTEGERS.run(graph)
        assert [node.op for node in lowered.nodes if node.op.startswith("Int8")] == ["Int8ConvTranspose"]
        assert largest_difference(graph, lowered, of.feeds()) <= 1, f"seed {seed}"


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("channels", [5, 16])
@pytest.mark.parametrize("dilations", [(1, 1), (1, 2), (3, 1)])
@pytest.mark.parametrize(("weights", "point"), [("int8", 0), ("uint8", 20)])
def test_transposed_convolutions_of_any_zero_point_and_dilation(channels, dtype, dilations, weights, point):
    for seed, zero in enumerate((0, 1, -128, 127, -60)):
        of = QdqBuilder(seed, dtype)
        zero += 128 * (dtype == "uint8")
        x = of.pair(of.input(1, channels, 4, 3), zero=zero)
        more = {"dilations": dilations, "group": 1, "output_padding": (0, 0), "pads": (1, 0, 0, 1)}
        w = of.weights(channels, 6, 2, 3, axis=1, zero=point, dtype=weights)
        real = of.add("ConvTranspose", x, w, of.bias(6, "float"), strides=(2, 2), **more)
        graph = of.finish(of.pair(real))
        lowered = INTEGERS.run(graph)
        assert float_operators(lowered) == [], f"zero point {zero}"
        assert largest_difference(graph, lowered, of.feeds()) <= 1, f"zero point {zero}"
        less = [node for node in lowered.nodes if node.outputs[0].endswith("_less")]
        assert [node.op for node in less] == [("Concat" if channels == 16 else "Int8Conv")] * bool(less)
        assert bool(less) == (zero != 128 * (dtype == "uint8"))


@pytest.mark.parametrize("zero", range(-128, 128, 5))
def test_an_integer_less_its_zero_point_is_the_sum_of_few_bytes(zero):
    parts = parts_less(zero)
    assert len(parts) <= 3
    assert (
        sum(requantise(BYTES, part).astype(int) for part in parts).tolist()
        == (BYTES.astype(int) - zero).tolist()
    )


@pytest.mark.parametrize(
    ("shape", "height", "dilations", "rows"),
    [
        ((1, 4, 7, 6), 3, (1, 1), True),
        ((1, 4, 7, 6), 3, (1, 2), True),
        ((1, 4, 7, 6), 3, (2, 1), False),
        ((1, 4, 7, 6), 1, (2, 2), True),
        ((2, 4, 7, 6), 3, (1, 1), False),
    ],
)
@pytest.mark.parametrize("strides", [(1, 1), (2, 1)])
def test_depthwise_kernels_of_nine_bits_lie_on_repeated_rows(shape, height, dilations, rows, strides):
    for seed in range(4):
        of = QdqBuilder(seed, "uint8")
        w = of.weights(4, 1, height, 2, axis=-1, zero=20 + seed, dtype="uint8")
        more = {"dilations": dilations, "group": 4, "pads": (1, 0, 2, 1), "strides": strides}
        graph = of.finish(of.pair(of.add("Conv", of.quantised(*shape), w, of.bias(4, "int32"), **more)))
        lowered = INTEGERS.run(graph)
        assert float_operators(lowered) == []
        assert [node.op for node in lowered.nodes].count("Resize") == rows
        assert largest_difference(graph, lowered, of.feeds()) <= 1, f"seed {seed}"


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_parts_of_a_split_may_have_scales_of_their_own(dtype):
    for seed in range(6):
        of = QdqBuilder(seed, dtype)
        a, b, c = of.add_many("Split", 3, of.quantised(2, 9), axis=1, split=(2, 3, 4))
        graph = of.finish(of.pair(a), of.pair(of.add("Relu", b)), of.pair(c, 0.03))
        lowered = INTEGERS.run(graph)
        assert float_operators(lowered) == []
        assert largest_difference(graph, lowered, of.feeds()) <= 1


@pytest.mark.parametrize("op", ["Concat", "Conv", "Split"])
def test_one_result_may_be_quantised_twice_and_read_in_float(op):
    for seed in range(6):
        of = QdqBuilder(seed)
        real = {
            "Concat": joined,
            "Conv": lambda of: convolution(of, "padded", 0, "float"),
            "Split": lambda of: of.add_many("Split", 2, of.quantised(6, 4), axis=0, split=(2, 4))[1],
        }[op](of)
        graph = of.finish(
            of.pair(real), of.pair(real), of.pair(of.add("Relu", real)), of.add("Sigmoid", real)
        )
        lowered = INTEGERS.run(graph)
        assert {"Sigmoid", op} == set(float_operators(lowered))
        assert largest_difference(graph, lowered, of.feeds()) <= 1
        sigmoid = graph.outputs[-1]
        np.testing.assert_allclose(all_values(lowered, of.feeds())[sigmoid], of.values[sigmoid], rtol=1e-6)


def quantised_operator(of: QdqBuilder, op: str) -> str:
    """Add an operator on quantised tensors, between conversions; its weights have their own type."""

    def parts(dtype: str, *shape: int) -> tuple[str, ...]:
        parameters = of.constant(np.float32(0.02)), of.zero_point(dtype)
        return of.add("QuantizeLinear", of.input(*shape), *parameters, axis=0), *parameters

    out = of.constant(np.float32(0.05)), of.zero_point(of.dtype)
    match op:
        case "QLinearMatMul":
            result = of.add(op, *parts(of.dtype, 3, 4), *_weights(of, (4, 5), 5), *out)
        case "QLinearConv":
            bias = of.constant(of.rng.integers(-2000, 2000, 6).astype(np.int32))
            result = of.add(
                op,
                *parts(of.dtype, 1, 4, 5, 5),
                *_weights(of, (6, 2, 3, 3), 6),
                *out,
                bias,
                dilations=(1, 1),
                group=2,
                pads=(1, 1, 1, 1),
                strides=(1, 1),
            )
    return of.add("DequantizeLinear", result, *out, axis=0)


def _weights(of: QdqBuilder, shape: tuple[int, ...], channels: int) -> tuple[str, ...]:
    zero = 128 if of.dtype == "uint8" else 0
    arrays = (
        of.rng.integers(zero - 128, zero + 128, shape),
        of.rng.uniform(0.001, 0.01, channels),
        np.full(channels, zero),
    )
    return tuple(
        of.constant(array.astype(dtype))
        for array, dtype in zip(arrays, (of.dtype, np.float32, of.dtype), strict=True)
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("op", ["QLinearConv", "QLinearMatMul"])
def test_operators_on_quantised_tensors_become_integer_ones(op, dtype):
    for seed in range(6):
        of = QdqBuilder(seed, dtype)
        graph = of.finish(quantised_operator(of, op))
        lowered = INTEGERS.run(graph)
        assert [node.op for node in lowered.nodes if node.op.startswith(("Int8", "QLinear"))] == [
            op.replace("QLinear", "Int8")
        ], f"seed {seed}"
        assert float_operators(lowered) == []
        assert largest_difference(graph, lowered, of.feeds()) <= 1, f"seed {seed}"


def test_a_bias_far_beyond_what_weights_reach_fits_the_accumulator():
    for seed in range(10):
        of = QdqBuilder(seed)
        values, zeros = (
            of.constant(of.rng.integers(-128, 128, (40, 3)).astype(np.int8)),
            of.constant(np.zeros(3, np.int8)),
        )
        scales = of.constant(np.array([1e-2, 1e-9, 1e-12], np.float32))
        w = of.add("DequantizeLinear", values, scales, zeros, axis=1)
        bias = of.constant(np.array([-1.0, 2.0, 3.0], np.float32))
        product = of.add("Gemm", of.quantised(6, 40), w, bias, alpha=1.0, beta=1.0, transA=0, transB=0)
        graph = of.finish(of.pair(product))
        lowered = INTEGERS.run(graph)
        assert float_operators(lowered) == []
        quantised = graph.nodes[-1].inputs[0]
        found = all_values(lowered, of.feeds())[quantised]
        assert np.abs(found.astype(int) - of.values[quantised]).max() <= 1
