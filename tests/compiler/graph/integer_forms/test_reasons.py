"""Reasons why operators stay on the host, and where they are recorded."""

import numpy as np
import pytest

from tests.compiler.graph.passes.qdq import QdqBuilder, float_operators, signed
from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.integer_forms.prerequisites import becomes_another
from vdla.compiler.graph.integer_forms.site import CHANGE
from vdla.compiler.graph.interpret import all_values
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.passes.to_integers import MergedConversions, ToIntegers, is_float, moved_by_elements
from vdla.compiler.graph.pipeline import INTEGERS
from vdla.compiler.network.compile import FLOATS

NEIGHBOURS = "it needs int8 neighbours: quantise them (QuantizeLinear and DequantizeLinear, or --calibrate)"
HEAD = """\
def f(x: float32[1, 4], k: int8[1, 4], u: uint8[1, 4], i: float32[1, 2, 3, 3], n: float32[2], m: float32[1, 1, 3, 3]):
    s: float32 = constant(0.5)
    t: float32 = constant(0.25)
    z: int8 = constant(-3)
    c: float32[2] = constant([1.0, 2.0])
    w: float32[2, 2, 1, 1] = constant([[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]])
    a: float32[1, 4] = DequantizeLinear(k, s, z, axis=0)
"""
NODES = {
    "a reason of its own": ('y: float32[1, 4] = Neg(x, reason="said before")', "said before"),
    "an operator without a form": (
        "y: float32[1, 4] = LogSoftmax(x, axis=1)",
        "the accelerator has no LogSoftmax",
    ),
    "rows that are not quantised": (
        "y: float32[1, 4] = Softmax(x, axis=1)",
        "Softmax with input x not quantised: it enters the network as float32; it needs int8 neighbours: "
        "quantise them (QuantizeLinear and DequantizeLinear, or --calibrate)",
    ),
    "an input that is quantised": (
        "y: int8[1, 4] = QuantizeLinear(x, s, z, axis=0)",
        "QuantizeLinear with input x that enters the network as float32; the accelerator takes int8 tensors",
    ),
    "a result that is quantised": (
        'b: float32[1, 4] = Softmax(x, axis=1, name="soft")\n    y: int8[1, 4] = QuantizeLinear(b, s, z, axis=0)',
        "QuantizeLinear with input b that Softmax 'soft' computes as float32; the accelerator takes int8 tensors",
    ),
    "an output that is dequantised": (
        "y: float32[1, 4] = DequantizeLinear(k, t, z, axis=0)",
        "DequantizeLinear with result y that leaves the network as float32; the accelerator takes int8 tensors",
    ),
    "two scales that are too far apart": (
        "v: float32 = constant(1e-30)\n    y: int8[1, 4] = QuantizeLinear(a, v, z, axis=0)",
        "DequantizeLinear with scales that make a ratio of 5e+29; "
        "the accelerator takes ratios of scales between 0 and 32768",
    ),
    "normalisation of rows": (
        "y: float32[2] = BatchNormalization(n, c, c, c, c, epsilon=0.5)",
        "BatchNormalization with a result of 1 dimension; the accelerator takes images, of 4 dimensions, or "
        "volumes, of 5",
    ),
    "normalisation by what is computed": (
        "y: float32[1, 2, 3, 3] = BatchNormalization(i, c, n, c, c, epsilon=0.5)",
        "BatchNormalization with parameter n that is not constant; the accelerator takes constant parameters",
    ),
    "normalisation by a variance that is computed": (
        "y: float32[1, 2, 3, 3] = BatchNormalization(i, c, c, c, n, epsilon=0.5)",
        "BatchNormalization with parameter n that is not constant; the accelerator takes constant parameters",
    ),
    "a border of another kind": (
        'y: float32[1, 2, 4, 3] = Pad(i, mode="edge", pads=(0, 0, 1, 0, 0, 0, 0, 0), value=0.0)',
        "Pad with mode = edge; the accelerator takes a border of zeros around images, which becomes padding "
        "of the AveragePool, Conv or MaxPool after it",
    ),
    "a border that stays": (
        'y: float32[1, 2, 4, 3] = Pad(i, mode="constant", pads=(0, 0, 1, 0, 0, 0, 0, 0), value=0.0)',
        "Pad with a border that no operator after it can pad with; the accelerator takes a border of zeros "
        "around images, which becomes padding of the AveragePool, Conv or MaxPool after it",
    ),
    "a sum of three shapes": (
        "y: float32[1, 2, 3, 3] = Sum(i, m)",
        "Sum with operands float32[1, 2, 3, 3], float32[1, 1, 3, 3]; the accelerator takes operands of one shape",
    ),
    "a mean of channels": (
        "y: float32[1, 1, 3, 3] = ReduceMean(i, axes=(1,), keepdims=1)",
        "ReduceMean with axes = (1,); the accelerator takes only dimensions of space",
    ),
    "a mean of a matrix": (
        "y: float32[1, 1] = ReduceMean(x, axes=(1,), keepdims=1)",
        "ReduceMean with input x: float32[1, 4]; the accelerator takes rows, images or volumes, of 3 to 5 "
        "dimensions",
    ),
    "a mean of rows that stays": (
        "y: float32[1, 2, 1, 1] = ReduceMean(i, axes=(2, 3), keepdims=1)",
        "ReduceMean is a part of a normalisation, which the host runs",
    ),
    "a range that a run tells": (
        "y: uint8[1, 4]\n    q: float32\n    r: uint8\n    y, q, r = DynamicQuantizeLinear(x)",
        "DynamicQuantizeLinear with a range computed at run time; give samples of the inputs "
        "(--calibrate SAMPLES.npz)",
    ),
}


@pytest.mark.parametrize("title", NODES)
def test_the_reason_is_recorded_in_the_node(title):
    line, reason = NODES[title]
    graph = parse_graph(f"{HEAD}    {line}\n    return y\n")
    assert DefUse(ToIntegers().run(graph)).makers["y"].reason == reason


def test_a_recorded_reason_names_the_operator_that_reads_a_conversion():
    graph = parse_graph(f'{HEAD}    y: float32[1, 4] = Softmax(a, axis=1, name="soft")\n    return y\n')
    assert DefUse(ToIntegers().run(graph)).makers["a"].reason == (
        "DequantizeLinear with result a that Softmax 'soft' reads as float32; the accelerator takes int8 tensors"
    )


MOVES = {
    "y: int8[1, 8] = Concat(k, k, axis=1)": (
        "Concat with single elements to move; the accelerator takes whole blocks of channels (Concat)"
    ),
    "y: uint8[1, 8] = Concat(u, u, axis=1)": (
        "Concat with input u of uint8; the accelerator takes int8 tensors"
    ),
}


@pytest.mark.parametrize("line", MOVES)
def test_a_move_of_integers_gets_its_reason_from_placement(line):
    graph = ToIntegers().run(parse_graph(f"{HEAD}    {line}\n    return y\n"))
    node = DefUse(graph).makers["y"]
    assert (node.reason, moved_by_elements(graph, node).reason) == ("", MOVES[line])


def test_operators_that_have_another_form_become_that():
    early = ("a border", "a sum", "a mean", "normalisation", "a range")
    for title, (line, _) in NODES.items():
        if title.startswith(early):
            graph = parse_graph(f"{HEAD}    {line}\n    return y\n")
            becomes = becomes_another(graph, DefUse(graph).makers["y"])
            assert becomes is (title == "a mean of rows that stays"), title


@pytest.mark.parametrize(
    ("line", "floats"),
    [
        ("y: int8[1, 8] = Concat(k, k, axis=1)", False),
        ("y: int8[1, 4] = QuantizeLinear(x, s, z, axis=0)", True),
        ('y: int32[1, 4] = Cast(x, to="int32")', True),
        ('y: float32[1, 4] = Cast(k, to="float32")', True),
        ('y: int32[1, 4] = Cast(k, to="int32")', False),
    ],
)
def test_what_reads_or_makes_real_numbers(line, floats):
    graph = parse_graph(f"{HEAD}    {line}\n    return y\n")
    assert is_float(graph, DefUse(graph).makers["y"]) is floats


def test_an_input_that_is_left_out_is_no_real_number():
    graph = parse_graph(f"{HEAD}    y: int8[1, 8] = Concat(k, k, axis=1)\n    return y\n")
    assert not is_float(graph, Node("Concat", ("k", "", "k"), ("y",)))


# Changes of channels, weights with zero points and factors of products as integer operators

ONCE = {"dilations": (1, 1), "group": 1, "pads": (1, 1, 1, 1), "strides": (1, 1)}


def largest_difference(graph: Graph, lowered: Graph, feeds: dict[str, np.ndarray]) -> int:
    """Return how far the quantised outputs of the lowered graph are off."""
    expected, actual = all_values(graph, feeds), all_values(lowered, feeds)
    outs = [DefUse(graph).makers[name].inputs[0] for name in graph.outputs]
    return max(int(np.abs(signed(actual[name]) - signed(expected[name])).max()) for name in outs)


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


def test_a_chain_is_merged_into_the_product_or_into_one_change():
    for cases, alone in ((BEHIND, False), (ALONE, True)):
        for title, make in cases.items():
            of = QdqBuilder(0)
            graph = of.finish(of.pair(make(of)))
            merged = MergedConversions(graph)
            maker = merged.makers[merged.source(DefUse(graph).makers[graph.outputs[0]].inputs[0])]
            chain = merged.chain(merged.makers[merged.source(maker.inputs[0])])
            assert (chain.node.op == CHANGE) is alone, title
            assert merged.is_dequantised(chain.node.inputs[0])


def test_a_merged_chain_computes_what_its_operators_compute():
    """A factor for all channels fits both axes of an image; the next operator decides."""
    graph = parse_graph(
        """def f(k: int8[1, 2, 3, 4]):
    s: float32 = constant(0.5)
    z: int8 = constant(-3)
    one: float32 = constant(3.0)
    last: float32[4] = constant([1.0, -2.0, 0.0, 4.0])
    a: float32[1, 2, 3, 4] = DequantizeLinear(k, s, z, axis=0)
    b: float32[1, 2, 3, 4] = Mul(a, one)
    c: float32[1, 2, 3, 4] = Sub(last, b)
    y: float32[1, 2, 3, 4] = Div(c, one)
    return y
"""
    )
    merged = MergedConversions(graph)
    chain = merged.chain(merged.makers["y"])
    assert (chain.node.inputs, chain.node.attributes) == (("a",), {"axis": -1})
    np.testing.assert_allclose(chain.affine.factors, [-1] * 4)
    np.testing.assert_allclose(chain.affine.shifts, np.array([1, -2, 0, 4]) / 3)
    assert merged.chain(merged.makers["b"]).node.attributes == {"axis": 1}


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
