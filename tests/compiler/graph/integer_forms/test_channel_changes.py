"""Changes of channels, weights with zero points and factors of products as integer operators."""

import numpy as np
import pytest

from tests.compiler.graph.passes.qdq import QdqBuilder, float_operators, signed
from vdla.compiler.graph.conversions import Conversions
from vdla.compiler.graph.integer_forms.channel_changes import affine_chain_of
from vdla.compiler.graph.interpret import all_values
from vdla.compiler.graph.nodes import Graph, producers
from vdla.compiler.graph.pipeline import INTEGERS
from vdla.compiler.network.compile import FLOATS

ONCE = {"dilations": (1, 1), "group": 1, "pads": (1, 1, 1, 1), "strides": (1, 1)}


def largest_difference(graph: Graph, lowered: Graph, feeds: dict[str, np.ndarray]) -> int:
    """Return how far the quantised outputs of the lowered graph are off."""
    expected, found = all_values(graph, feeds), all_values(lowered, feeds)
    outs = [producers(graph)[name].inputs[0] for name in graph.outputs]
    return max(int(np.abs(signed(found[name]) - signed(expected[name])).max()) for name in outs)


def numbers(of: QdqBuilder, *shape: int, least: float = -2.0) -> str:
    return of.constant(of.rng.uniform(least, 2, shape).astype(np.float32))


def normalised(of: QdqBuilder, x: str, channels: int) -> str:
    scale, shift, mean = (numbers(of, channels) for _ in range(3))
    return of.add("BatchNormalization", x, scale, shift, mean, numbers(of, channels, least=0.5), epsilon=1e-5)


def convolved(of: QdqBuilder, bias: str = "none") -> str:
    x, w = of.quantised(1, 4, 5, 5), of.weights(6, 4, 3, 3, axis=0)
    return of.add("Conv", x, w, *filter(None, [of.bias(6, bias)]), **ONCE)


BEHIND = {
    "normalisation behind a convolution": lambda of: normalised(of, convolved(of), 6),
    "scale and shift behind a convolution with a bias": lambda of: of.add(
        "Add", numbers(of, 6, 1, 1), of.add("Mul", convolved(of, "float"), numbers(of, 1, 6, 1, 1))
    ),
    "bias behind a matrix product, with a bound": lambda of: of.add(
        "Relu",
        of.add("Add", of.add("MatMul", of.quantised(2, 3, 4), of.weights(4, 5, axis=1)), numbers(of, 5)),
    ),
    "quotient behind a dense layer": lambda of: of.add(
        "Div",
        of.add(
            "Gemm",
            of.quantised(3, 4),
            of.weights(5, 4, axis=0),
            of.bias(5, "quantised"),
            alpha=-0.5,
            beta=2.0,
            transA=0,
            transB=1,
        ),
        numbers(of, 5, least=0.5),
    ),
    "difference behind a transposed convolution": lambda of: of.add(
        "Sub",
        numbers(of, 1),
        of.add(
            "ConvTranspose",
            of.pair(of.input(1, 4, 3, 3), zero=0 if of.dtype == "int8" else 128),
            of.weights(4, 6, 2, 2, axis=1),
            dilations=(1, 1),
            group=1,
            output_padding=(0, 0),
            pads=(0, 0, 0, 0),
            strides=(2, 2),
        ),
    ),
}
ALONE = {
    "channels in the last of four dimensions": lambda of: of.add(
        "Mul", of.add("Add", of.quantised(1, 2, 3, 5), numbers(of, 5)), numbers(of, 5)
    ),
    "normalisation of an image": lambda of: normalised(of, of.quantised(2, 5, 3, 3), 5),
    "shift of an image, with bounds": lambda of: of.add(
        "Clip", of.add("Add", of.quantised(1, 5, 3, 3), numbers(of, 5, 1, 1)), min=-0.5, max=1.5
    ),
    "shift of rows": lambda of: of.add("Add", of.quantised(2, 3, 7), numbers(of, 7)),
    "factor of a vector": lambda of: of.add("Mul", numbers(of, 1), of.quantised(7)),
    "several changes of rows, one of them to nothing": lambda of: of.add(
        "Sub",
        of.add("Mul", of.quantised(4, 3), of.constant(np.float32([0, -1.5, 0.25]))),
        of.constant(np.float32([1, 0, -1])),
    ),
}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("title", [*BEHIND, *ALONE])
@pytest.mark.parametrize("prepared", [False, True])
def test_changes_of_channels_go_into_the_requantisation(title, dtype, prepared):
    for seed in range(6):
        of = QdqBuilder(seed, dtype)
        graph = of.finish(of.pair({**BEHIND, **ALONE}[title](of)))
        lowered = INTEGERS.run(FLOATS.run(graph) if prepared else graph)
        assert float_operators(lowered) == []
        products = [node.op for node in lowered.nodes if node.op.startswith("Int8")]
        assert len(products) == 1
        assert largest_difference(graph, lowered, of.feeds()) <= 1, f"seed {seed}"


def test_the_tail_names_the_product_or_the_first_change():
    for cases, alone in ((BEHIND, False), (ALONE, True)):
        for title, make in cases.items():
            of = QdqBuilder(0)
            graph = of.finish(of.pair(make(of)))
            found = Conversions(graph)
            maker = found.makers[found.source(producers(graph)[graph.outputs[0]].inputs[0])]
            maker = found.makers[found.source(maker.inputs[0])]
            chain = affine_chain_of(found, maker)
            assert chain.alone is alone, title
            assert found.is_dequantised(chain.node.inputs[0]) or alone


def read_twice(of: QdqBuilder) -> tuple[str, ...]:
    sums = convolved(of)
    return of.pair(of.add("Mul", sums, numbers(of, 6, 1, 1))), of.pair(sums)


def of_real_numbers(of: QdqBuilder) -> tuple[str, ...]:
    return (of.pair(of.add("Add", of.add("Sigmoid", of.input(5)), numbers(of, 5))),)


@pytest.mark.parametrize("make", [read_twice, of_real_numbers])
def test_other_changes_stay(make):
    of = QdqBuilder(0)
    graph = of.finish(*make(of))
    lowered = INTEGERS.run(graph)
    assert set(float_operators(lowered)) & {"Add", "Mul", "Conv"}
    assert largest_difference(graph, lowered, of.feeds()) <= 1


PRODUCTS = ("Int8Conv", "Int8ConvTranspose", "Int8MatMul")
WIDE = {
    "an image of few channels that comes in": lambda of, w: of.add(
        "Conv", of.quantised(1, 3, 5, 5), w(4, 3, 3, 3, axis=0), **ONCE
    ),
    "groups": lambda of, w: of.add(
        "Conv", of.quantised(1, 6, 5, 5), w(6, 2, 3, 3, axis=0), **{**ONCE, "group": 3}
    ),
    "whole blocks of channels": lambda of, w: of.add(
        "Conv",
        of.pair(of.add("Sigmoid", of.quantised(1, 32, 3, 3))),
        w(4, 32, 1, 1, axis=0),
        **{**ONCE, "pads": (0, 0, 0, 0)},
    ),
    "other channels": lambda of, w: of.add(
        "Conv", of.pair(of.add("Sigmoid", of.quantised(1, 5, 3, 3))), w(4, 5, 3, 3, axis=-1), **ONCE
    ),
    "rows": lambda of, w: of.add(
        "MatMul", of.pair(of.add("Sigmoid", of.quantised(2, 3, 7))), w(7, 4, axis=1)
    ),
    "a dense layer": lambda of, w: of.add(
        "Gemm",
        of.quantised(2, 7),
        w(4, 7, axis=0),
        of.bias(4, "float"),
        alpha=1.0,
        beta=1.0,
        transA=0,
        transB=1,
    ),
    "a transposed convolution": lambda of, w: of.add(
        "ConvTranspose",
        of.pair(of.input(1, 4, 3, 3), zero=0),
        w(4, 6, 2, 2, axis=1),
        dilations=(1, 1),
        group=1,
        output_padding=(0, 0),
        pads=(0, 0, 0, 0),
        strides=(2, 2),
    ),
}


@pytest.mark.parametrize("title", WIDE)
@pytest.mark.parametrize(
    ("dtype", "zero"), [("int8", 3), ("int8", -128), ("uint8", 117), ("uint8", 0), ("uint8", 128)]
)
def test_weights_with_zero_points_are_exact(title, dtype, zero):
    for seed in range(4):
        of = QdqBuilder(seed)

        def weights(*shape: int, axis: int) -> str:
            return of.weights(*shape, axis=axis, zero=zero, dtype=dtype)  # noqa: B023

        graph = of.finish(of.pair(WIDE[title](of, weights)))
        lowered = INTEGERS.run(graph)
        assert set(float_operators(lowered)) <= {"Sigmoid"}
        assert largest_difference(graph, lowered, of.feeds()) <= 1, f"seed {seed}"
        (node,) = (node for node in lowered.nodes if node.op in PRODUCTS)
        values = lowered.constants[node.inputs[1]]
        fits = values.min() >= -128 and values.max() <= 127
        assert values.dtype == ("int8" if fits else "int16"), f"seed {seed}"


def test_weights_with_zero_points_that_are_signed_bytes_without_them_are_not_doubled():
    of = QdqBuilder(0)
    values = of.constant(of.rng.integers(0, 128, (4, 3, 3, 3)).astype(np.int8))
    w = of.add("DequantizeLinear", values, of.constant(np.float32(0.01)), of.constant(np.int8(70)), axis=0)
    graph = of.finish(of.pair(of.add("Conv", of.quantised(1, 3, 5, 5), w, **ONCE)))
    lowered = INTEGERS.run(graph)
    assert [node.op for node in lowered.nodes].count("Int8Conv") == 1
    assert largest_difference(graph, lowered, of.feeds()) <= 1
