"""Every operator lowered to integers stays within one unit in the last place of the float operator between
conversions."""

import numpy as np
import pytest

from tests.compiler.graph.passes.qdq import QdqBuilder, float_operators, pooled, signed
from vdla.compiler.graph.interpret import all_values
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.pipeline import INTEGERS

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
    float_values, lowered_values = all_values(graph, feeds), all_values(lowered, feeds)
    narrow = [
        name
        for name in float_values.keys() & lowered_values.keys()
        if graph.types[name].dtype in ("int8", "uint8")
    ]
    assert narrow
    return max(
        int(np.abs(signed(float_values[name]) - signed(lowered_values[name])).max()) for name in narrow
    )


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
