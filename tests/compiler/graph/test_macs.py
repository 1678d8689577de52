"""Multiply-accumulates of operators by their shapes."""

import pytest

from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.parse import parse_graph


def counted(inputs: str, result: str) -> int:
    """Return the multiply-accumulates of the last operator of a graph."""
    graph = parse_graph(f"def f({inputs}):\n    y: {result}\n    return y\n")
    return macs(graph, graph.nodes[-1])


@pytest.mark.parametrize(
    ("inputs", "result", "expected"),
    [
        (
            "x: float32[1, 4, 5, 5], w: float32[6, 2, 3, 3]",
            "float32[1, 6, 3, 3] = Conv(x, w, dilations=(1, 1), group=2, pads=(0, 0, 0, 0), strides=(1, 1))",
            6 * 9 * 2 * 9,
        ),
        ("x: float32[2, 3, 4], w: float32[2, 4, 5]", "float32[2, 3, 5] = MatMul(x, w)", 2 * 3 * 4 * 5),
        (
            "x: float32[4, 3], w: float32[4, 5]",
            "float32[3, 5] = Gemm(x, w, alpha=1.0, beta=1.0, transA=1, transB=0)",
            3 * 4 * 5,
        ),
        (
            "x: float32[1, 4, 2, 2], w: float32[4, 6, 3, 3]",
            "float32[1, 6, 5, 5] = ConvTranspose(x, w, dilations=(1, 1), group=1, output_padding=(0, 0), "
            "pads=(0, 0, 0, 0), strides=(2, 2))",
            4 * 4 * 6 * 9,
        ),
        (
            "a: int8[4, 6], b: int8[4, 6], w: int64[4, 1]",
            "int8[4, 8] = Int8Products(a, b, w, a_places=(0, 0, 0, 3), b_places=(0, 0, 0, 3), places=(0, 0, 0, 4), "
            "shape=(4, 8), size=(4, 4, 3), transposed=1, zeros=(0, 0))",
            2 * 4 * 4 * 3,
        ),
        ("x: float32[7]", "float32[7] = Neg(x)", 0),
    ],
)
def test_every_product_of_an_operator_counts_once(inputs, result, expected):
    assert counted(inputs, result) == expected
