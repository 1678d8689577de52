"""Reasons why operators stay on the host, and where they are recorded."""

import pytest

from vdla.compiler.graph.integer_forms.prerequisites import becomes_another
from vdla.compiler.graph.integer_forms.reasons import is_float, moved_by_elements
from vdla.compiler.graph.nodes import Node, producers
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.passes.to_integers import ToIntegers

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
    "an operator without a form": ("y: float32[1, 4] = Softmax(x, axis=1)", "the accelerator has no Softmax"),
    "an input that is quantised": (
        "y: int8[1, 4] = QuantizeLinear(x, s, z, axis=0)",
        "QuantizeLinear with input x that enters the network as float32; the accelerator takes int8 tensors",
    ),
    "a result that is quantised": (
        'b: float32[1, 4] = Softmax(x, axis=1, name="soft")\n    y: int8[1, 4] = QuantizeLinear(b, s, z, axis=0)',
        "QuantizeLinear with input b that Softmax 'soft' makes in float32; the accelerator takes int8 tensors",
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
        "BatchNormalization with a result of 1 dimension; the accelerator takes images, of 4 dimensions",
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
        "ReduceMean with input x: float32[1, 4]; the accelerator takes images, of 3 or 4 dimensions",
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
    assert producers(ToIntegers().run(graph))["y"].reason == reason


def test_a_recorded_reason_names_the_operator_that_reads_a_conversion():
    graph = parse_graph(f'{HEAD}    y: float32[1, 4] = Softmax(a, axis=1, name="soft")\n    return y\n')
    assert producers(ToIntegers().run(graph))["a"].reason == (
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
    node = producers(graph)["y"]
    assert (node.reason, moved_by_elements(graph, node).reason) == ("", MOVES[line])


def test_operators_that_have_another_form_become_that():
    early = ("a border", "a sum", "a mean", "normalisation", "a range")
    for title, (line, _) in NODES.items():
        if title.startswith(early):
            graph = parse_graph(f"{HEAD}    {line}\n    return y\n")
            becomes = becomes_another(graph, producers(graph)["y"])
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
    assert is_float(graph, producers(graph)["y"]) is floats


def test_an_input_that_is_left_out_is_no_real_number():
    graph = parse_graph(f"{HEAD}    y: int8[1, 8] = Concat(k, k, axis=1)\n    return y\n")
    assert not is_float(graph, Node("Concat", ("k", "", "k"), ("y",)))
