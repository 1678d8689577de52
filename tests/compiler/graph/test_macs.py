"""Multiply-accumulates of operators by their shapes."""

import pytest

from vdla.compiler.graph.macs import OperatorShapes, macs, macs_of
from vdla.compiler.graph.parse import parse_graph
from vdla.runtime.host.dtypes import UNKNOWN


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
        (
            "x: int8[1, 4, 5, 5], p: int64[4, 1]",
            "int8[1, 4, 2, 2] = Int8AveragePool(x, p, border=0, kernel_shape=(3, 2), pads=(0, 0, 0, 0), "
            "strides=(2, 2))",
            4 * 2 * 2 * 6,
        ),
        ("x: int8[3, 5], f: int8[5], p: int64[4, 5]", "int8[3, 5] = Int8Scale(x, f, p, axis=-1)", 15),
        ("x: float32[7]", "float32[7] = Neg(x)", 0),
    ],
)
def test_every_product_of_an_operator_counts_once(inputs, result, expected):
    assert counted(inputs, result) == expected


QUERIES, KEYS, VALUES = (2, 3, 5, 7), (2, 3, 4, 7), (2, 3, 4, 6)
OPERATORS = {
    "Attention": ((QUERIES, KEYS, VALUES), (2, 3, 5, 6), {}, 2 * 3 * 5 * (7 + 6) * 4),
    "Attention behind 9 rows": (
        (QUERIES, KEYS, VALUES, None, (2, 3, 9, 7), (2, 3, 9, 6)),
        (2, 3, 5, 6),
        {},
        2 * 3 * 5 * (7 + 6) * (4 + 9),
    ),
    "com.microsoft.Attention": (((2, 5, 6), (6, 24)), (2, 5, 8), {}, 2 * 5 * 6 * 24 + 2 * 5 * (8 + 8) * 5),
    "com.microsoft.Attention without a mask or rows before": (
        ((2, 5, 6), (6, 24), None, None, None),
        (2, 5, 8),
        {},
        2 * 5 * 6 * 24 + 2 * 5 * (8 + 8) * 5,
    ),
    "com.microsoft.Attention behind 3 rows": (
        ((2, 5, 6), (6, 24), None, None, (2, 2, 4, 3, 2)),
        (2, 5, 8),
        {},
        2 * 5 * 6 * 24 + 2 * 5 * (8 + 8) * (5 + 3),
    ),
    "com.microsoft.Attention with wide values": (
        ((2, 5, 6), (6, 18)),
        (2, 5, 10),
        {"qkv_hidden_sizes": (4, 4, 10)},
        2 * 5 * 6 * 18 + 2 * 5 * (4 + 10) * 5,
    ),
    "com.microsoft.QAttention behind 3 rows": (
        ((2, 5, 6), (6, 24), *[None] * 6, (2, 2, 4, 3, 2)),
        (2, 5, 8),
        {},
        2 * 5 * 6 * 24 + 2 * 5 * (8 + 8) * (5 + 3),
    ),
    "com.microsoft.GroupQueryAttention": (((2, 5, 16), (2, 5, 8)), (2, 5, 16), {}, 2 * 2 * 5 * 16 * 5),
    "com.microsoft.GroupQueryAttention behind 9 rows": (
        ((2, 5, 16), (2, 5, 8), (2, 5, 8), (2, 1, 9, 8)),
        (2, 5, 16),
        {},
        2 * 2 * 5 * 16 * (5 + 9),
    ),
    "com.microsoft.MultiHeadAttention": (
        ((2, 5, 12), (2, 7, 12), (2, 7, 8)),
        (2, 5, 8),
        {},
        2 * 5 * (12 + 8) * 7,
    ),
    "com.microsoft.MultiHeadAttention of keys by head behind 9 rows": (
        ((2, 5, 12), (2, 4, 7, 3), (2, 4, 7, 2), None, None, None, (2, 4, 9, 3)),
        (2, 5, 8),
        {},
        2 * 5 * (12 + 8) * (7 + 9),
    ),
    "com.microsoft.MultiHeadAttention packed": (((2, 5, 4, 3, 2),), (2, 5, 8), {}, 2 * 5 * (8 + 8) * 5),
    "Einsum": (((2, 3), (3, 5)), (2, 5), {"equation": "ij,jk->ik"}, 2 * 3 * 5),
    "Einsum of stacks": (
        ((7, 2, 3), (7, 3, 5)),
        (7, 2, 5),
        {"equation": "...ij, ...jk -> ...ik"},
        7 * 2 * 3 * 5,
    ),
    "Einsum of three": (((2, 3), (3, 5), (5, 4)), (2, 4), {"equation": "ij,jk,kl->il"}, 2 * 2 * 3 * 5 * 4),
    "Einsum of one": (((2, 3),), (3, 2), {"equation": "ij->ji"}, 0),
    "Einsum to a number": (((2, 3), (2, 3)), (), {"equation": "ij,ij->"}, 2 * 3),
    "QLinearConv": (((1, 4, 5, 5), (), (), (6, 2, 3, 3)), (1, 6, 3, 3), {"group": 2}, 6 * 9 * 2 * 9),
    "ConvTranspose": (((1, 4, 2, 2), (4, 3, 3, 3)), (1, 6, 5, 5), {"group": 2}, 4 * 4 * 3 * 9),
    "LSTM": (((5, 2, 3), (1, 16, 3), (1, 16, 4)), (5, 1, 2, 4), {}, 5 * 2 * 16 * (3 + 4)),
    "com.microsoft.MatMulNBits": (((2, 3, 8), (6, 1, 4)), (2, 3, 6), {"K": 8, "N": 6}, 2 * 3 * 8 * 6),
    "Gemm": (((3, 4), (4, 5)), (3, 5), {"transA": 0}, 3 * 4 * 5),
    "Gemm without attributes": (((3, 4), (4, 5)), (3, 5), {}, 3 * 4 * 5),
    "Gemm whose attribute is no integer": (((3, 4), (4, 5)), (3, 5), {"transA": "1"}, 3 * 4 * 5),
    "Gemm of unknown rows": (((UNKNOWN, 4), (4, 5)), (UNKNOWN, 5), {}, None),
    "MatMul of something unknown": ((None, (4, 5)), (3, 5), {}, None),
    "MoE": (((3, 4),), (3, 4), {}, None),
    "Softmax": (((3, 4),), (3, 4), {}, 0),
}


@pytest.mark.parametrize("title", OPERATORS)
def test_operators_count_by_their_definitions(title):
    inputs, result, attributes, expected = OPERATORS[title]
    domain, _, op = title.partition(" ")[0].rpartition(".")
    others = (7, 11)  # the shape of a further output, which counts for nothing
    assert macs_of(op, OperatorShapes(inputs, [result, others], attributes), domain) == expected
