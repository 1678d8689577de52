"""Multiply-accumulates of the parts that onnxruntime runs, also in subgraphs."""

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tests.compiler.graph.onnx.networks import FLOAT, model, node
from vdla.compiler.graph.onnx.part_macs import MacCount, macs_of_part


def of(nodes, inputs, constants=None, numbers=None, opset=17) -> MacCount:
    """Return what is counted of a model of nodes.

    Args:
        constants: shapes of float constants.
        numbers: other constants.
    """
    zeros = {name: np.zeros(shape, np.float32) for name, shape in (constants or {}).items()}
    proto: ModelProto = model(nodes, inputs, ["y"], {**zeros, **(numbers or {})}, opset)
    return macs_of_part(proto.SerializeToString())


def counted(nodes, inputs, constants) -> int:
    count = of(nodes, inputs, constants)
    assert not count.open
    return count.macs


@pytest.mark.parametrize("op", ["LSTM", "DynamicQuantizeLSTM"])
def test_a_recurrent_layer_multiplies_in_every_step(op):
    nodes = [node(op, "x w r", "y", hidden_size=6)]
    assert counted(nodes, {"x": [8, 2, 5]}, {"w": [1, 24, 5], "r": [1, 24, 6]}) == 8 * 2 * 24 * (5 + 6)


def test_products_count_by_shapes_that_are_inferred():
    nodes = [node("Neg", "x", "a"), node("MatMul", "a w", "b"), node("Gemm", "b v", "y", transA=1)]
    assert counted(nodes, {"x": [4, 5]}, {"w": [5, 3], "v": [4, 2]}) == 4 * 5 * 3 + 3 * 4 * 2


def test_a_product_of_unknown_extents_is_named():
    nodes = [node("MatMul", "x w", "a"), node("NonZero", "a", "n"), node("Cast", "n", "f", to=1)]
    nodes.append(node("MatMul", "v f", "y"))
    count = of(nodes, {"x": [4, 5]}, {"w": [5, 3], "v": [1, 2]})
    assert count == MacCount(4 * 5 * 3, ("MatMul 'the_MatMul' not counted",))


MICROSOFT = "com.microsoft"
B, S, N, H, P = 2, 5, 4, 8, 3  # batch, rows, heads, channels of a head, rows of the past
D = N * H
PAST = (B, N, P, H)
CONTRIBUTED = {
    "Attention": ("x w b", {"x": (B, S, D), "w": (D, 3 * D), "b": (3 * D,)}, {"num_heads": N}),
    "MultiHeadAttention": (
        "q k v - - - p r",
        {"q": (B, S, D), "k": (B, 7, D), "v": (B, 7, D), "p": PAST, "r": PAST},
        {"num_heads": N},
    ),
    "FusedMatMul": ("a w", {"a": (B, D, S), "w": (D, 6)}, {"transA": 1}),
    "FusedConv": ("a w", {"a": (1, 4, 9, 9), "w": (6, 2, 3, 3)}, {"group": 2, "activation": "Relu"}),
    "FusedGemm": ("a w", {"a": (S, D), "w": (D, 6)}, {"activation": "Relu"}),
}
EXPECTED = {
    "Attention": B * S * D * 3 * D + 2 * B * S * S * D,
    "MultiHeadAttention": 2 * B * S * D * (7 + P),
    "FusedMatMul": B * S * D * 6,
    "FusedConv": 6 * 7 * 7 * 2 * 9,
    "FusedGemm": S * D * 6,
}


@pytest.mark.parametrize("op", CONTRIBUTED)
def test_operators_of_onnxruntime_count_by_shapes_that_it_infers(op):
    inputs, shapes, attributes = CONTRIBUTED[op]
    nodes = [node(op, inputs, "t", domain=MICROSOFT, **attributes), node("Neg", "t", "y")]
    assert of(nodes, shapes) == MacCount(EXPECTED[op])


def test_a_query_of_several_heads_for_a_key():
    """GroupQueryAttention: its keys from runs before count, too."""
    inputs = {"q": (B, S, D), "k": (B, S, 2 * H), "v": (B, S, 2 * H), "p": (B, 2, P, H), "r": (B, 2, P, H)}
    numbers = {"l": np.full(B, P + S - 1, np.int32), "t": np.array(P + S, np.int32)}
    attention = node(
        "GroupQueryAttention",
        "q k v p r l t",
        "y u w",
        domain=MICROSOFT,
        num_heads=N,
        kv_num_heads=2,
    )
    assert of([attention], inputs, numbers=numbers) == MacCount(2 * B * S * D * (P + S))


def test_a_quantised_attention():
    numbers = {
        "x": np.zeros((B, S, D), np.uint8),
        "w": np.zeros((D, 3 * D), np.int8),
        "s": np.float32(1),
    }
    nodes = [node("QAttention", "x w b s s", "y", domain=MICROSOFT, num_heads=N)]
    assert of(nodes, {}, {"b": (3 * D,)}, numbers) == MacCount(EXPECTED["Attention"])


def test_weights_in_blocks_count_by_their_attributes():
    packed = {"w": np.zeros((6, 2, 8), np.uint8)}
    attributes = {"K": 32, "N": 6, "bits": 4, "block_size": 16}
    nodes = [node("MatMulNBits", "x w s", "y", domain=MICROSOFT, **attributes)]
    assert of(nodes, {"x": (B, S, 32)}, {"s": (12,)}, packed) == MacCount(B * S * 32 * 6)


@pytest.mark.parametrize("heads_first", [False, True])
def test_attention_of_onnx(heads_first):
    shapes = {"q": (B, N, S, H), "k": (B, N, 7, H), "v": (B, N, 7, H)}
    if not heads_first:
        shapes = {"q": (B, S, D), "k": (B, 7, D), "v": (B, 7, D)}
    heads = {} if heads_first else {"q_num_heads": N, "kv_num_heads": N}
    assert of([node("Attention", "q k v", "y", **heads)], shapes, opset=23) == MacCount(2 * B * S * D * 7)


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)], 2 * 3 * 4 * 5),
        ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)], 2 * 3 * 4 * 5),
        ("ij->ji", [(3, 4)], 0),
    ],
)
def test_einsum_sums_over_letters_missing_from_the_result(equation, shapes, expected):
    inputs = {f"x{place}": shape for place, shape in enumerate(shapes)}
    assert of([node("Einsum", " ".join(inputs), "y", equation=equation)], inputs) == MacCount(expected)


def test_products_count_next_to_an_operator_unknown_to_onnxruntime():
    """ONNX infers their shapes, also where the network computes a shape of another shape."""
    nodes = [
        node("Nonsense", "x", "n", domain=MICROSOFT),
        node("Shape", "x", "s"),
        node("Gather", "s i", "turned"),
        node("Reshape", "x turned", "r"),
        node("MatMul", "r w", "y"),
    ]
    count = of(nodes, {"x": (4, 5)}, {"w": (4, 7)}, {"i": np.array([1, 0])})
    assert count == MacCount(5 * 4 * 7)


def test_an_operator_that_nothing_counts_is_named():
    nodes = [node("QMoE", "x", "y", domain=MICROSOFT)]
    assert of(nodes, {"x": (2, 3)}) == MacCount(0, ("QMoE 'the_QMoE' not counted",))


# Subgraphs

PRODUCT = 3 * 4 * 4  # of x[3, 4] and w[4, 4]


def value(name: str, kind: int = FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def loop(condition=None, most="most", begins="yes") -> list:
    """Return a Loop over x whose body multiplies by w, which it takes from outside."""
    nodes = [node("MatMul", "state w", "next")]
    nodes += condition or [node("Identity", "go", "on")]
    inputs = [value("number", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("state")]
    body = helper.make_graph(nodes, "body", inputs, [value("on", TensorProto.BOOL, []), value("next")])
    return [helper.make_node("Loop", [most, begins, "x"], ["y"], "l", body=body)]


NUMBERS = {"most": np.array(6), "yes": np.array(True), "endless": np.array(2**63 - 1), "no": np.array(False)}
DEPENDS = [node("ReduceMax", "next", "m", keepdims=0), node("Cast", "m", "on", to=TensorProto.BOOL)]
ALWAYS = [helper.make_node("Constant", [], ["on"], value=numpy_helper.from_array(np.array(True)))]
OPEN = ("Loop 'l' counted for one trip",)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (loop(), MacCount(6 * PRODUCT)),
        (loop(ALWAYS), MacCount(6 * PRODUCT)),
        (loop(begins=""), MacCount(6 * PRODUCT)),
        (loop(DEPENDS), MacCount(PRODUCT, OPEN)),
        (loop(most=""), MacCount(PRODUCT, OPEN)),
        (loop(most="endless"), MacCount(PRODUCT, OPEN)),
        (loop(begins="no"), MacCount(PRODUCT, OPEN)),
    ],
)
def test_a_loop_counts_its_trips_where_they_are_known(nodes, expected):
    assert of(nodes, {"x": (3, 4)}, {"w": (4, 4)}, NUMBERS) == expected


@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan_runs_once_for_each_row(axis):
    body = helper.make_graph(
        [node("MatMul", "state w", "next"), node("Add", "next row", "out")],
        "body",
        [value("state"), value("row")],
        [value("next"), value("out")],
    )
    scan_node = helper.make_node(
        "Scan", ["x", "rows"], ["z", "y"], "s", body=body, num_scan_inputs=1, scan_input_axes=[axis]
    )
    rows = (7, 4) if axis == 0 else (4, 7)
    assert of([scan_node], {"x": (3, 4), "rows": rows}, {"w": (4, 4)}) == MacCount(7 * PRODUCT)


def scan(opset: int, scanned: str = "rows more", **attributes) -> MacCount:
    """Return what is counted of a Scan over two tensors of unequal extents, whose body multiplies."""
    inner = [value("state"), value("row"), value("other")]
    nodes = [node("MatMul", "state w", "next"), node("Sum", "next row other", "out")]
    body = helper.make_graph(nodes, "body", inner, [value("next"), value("out")])
    scan_node = helper.make_node(
        "Scan", ["x", *scanned.split()], ["z", "y"], "s", body=body, num_scan_inputs=2, **attributes
    )
    shapes = {"x": (3, 4), "rows": (7, 4), "more": (7, 3, 4)}
    return of([scan_node], shapes, {"w": (4, 4)}, opset=opset)


def test_a_scan_without_axes_goes_along_the_first():
    assert scan(17) == MacCount(7 * PRODUCT)
    assert scan(17, scan_input_axes=[0, 0]) == MacCount(7 * PRODUCT)
    assert scan(17, scan_input_axes=[-2, -3]) == MacCount(7 * PRODUCT)


@pytest.mark.parametrize("most", [0, 1, 1 << 20])
def test_a_loop_of_few_or_many_trips(most):
    numbers = {**NUMBERS, "most": np.array(most)}
    assert of(loop(), {"x": (3, 4)}, {"w": (4, 4)}, numbers) == MacCount(most * PRODUCT)


def test_a_loop_of_negative_trips_runs_never():
    numbers = {**NUMBERS, "most": np.array(-3)}
    assert of(loop(), {"x": (3, 4)}, {"w": (4, 4)}, numbers) == MacCount(0)


@pytest.mark.parametrize(("most", "known"), [((1 << 31) - 1, True), (1 << 31, False)])
def test_a_loop_with_the_greatest_trip_count_is_ended_by_its_condition(most, known):
    numbers = {**NUMBERS, "most": np.array(most)}
    expected = MacCount(most * PRODUCT) if known else MacCount(PRODUCT, OPEN)
    assert of(loop(), {"x": (3, 4)}, {"w": (4, 4)}, numbers) == expected


def test_counts_add():
    left, right = MacCount(3, ("a", "b")), MacCount(4, ("b", "c"))
    assert left + right == MacCount(7, ("a", "b", "c"))
    assert MacCount() + left == left


def branch(names: str, result: str):
    nodes = [node("MatMul", f"x {name}", f"{result}{name}") for name in names.split()]
    last = helper.make_node("Sum", [node_proto.output[0] for node_proto in nodes], [result])
    return helper.make_graph([*nodes, last], result, [], [value(result)])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("w", MacCount(PRODUCT)),
        ("w v", MacCount(2 * PRODUCT, ("If 'i' counted for its larger branch",))),
    ],
)
def test_an_if_counts_its_larger_branch(names, expected):
    if_node = helper.make_node(
        "If", ["c"], ["y"], "i", then_branch=branch("w", "a"), else_branch=branch(names, "b")
    )
    numbers = {"c": np.array(True)}
    assert of([if_node], {"x": (3, 4)}, {"w": (4, 4), "v": (4, 4)}, numbers) == expected


def test_a_subgraph_that_captures_a_value_of_unknown_type_is_counted_as_far_as_it_goes():
    if_node = helper.make_node(
        "If", ["c"], ["y"], "i", then_branch=branch("w n", "a"), else_branch=branch("w", "b")
    )
    nodes = [node("Nonsense", "x", "n", domain=MICROSOFT), if_node]
    count = of(nodes, {"x": (3, 4)}, {"w": (4, 4)}, {"c": np.array(True)})
    assert count == MacCount(PRODUCT, ("MatMul 'the_MatMul' not counted",))


def test_loops_within_loops_multiply():
    inner = loop()
    inner[0].input[:] = ["most", "yes", "state"]
    inner[0].output[0] = "next"
    body = inner[0].attribute[0].g
    for values, names in ((body.input, ("n", "h", "t")), (body.output, ("j", "u"))):
        for place, name in enumerate(names):
            values[place].name = name
    del body.node[:]
    body.node.extend([node("MatMul", "t w", "u"), node("Identity", "h", "j")])
    outer = loop()
    graph = outer[0].attribute[0].g
    del graph.node[:]
    graph.node.extend([*inner, node("Identity", "go", "on")])
    assert of(outer, {"x": (3, 4)}, {"w": (4, 4)}, NUMBERS) == MacCount(36 * PRODUCT)
