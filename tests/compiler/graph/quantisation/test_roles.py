"""Which operators compute with integers, and which values become int8."""

from tests.compiler.graph.quantisation.graphs import attention, residual
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.quantisation.roles import Roles


def test_a_sum_between_float_operators_and_the_inside_of_a_table_stay_in_float():
    roles = Roles(residual())
    assert roles.products == {"m", "d"}
    assert roles.biases == roles.fused == {"a"}
    assert roles.others == set()
    assert roles.roots == {"s": "a", "g": "a"}
    assert roles.narrow == ("n", "a", "g", "d")


def test_a_node_in_float_leaves_nothing_of_it_to_quantise():
    assert Roles(residual(), {"m", "d"}).narrow == ()
    assert Roles(residual(), {"m"}).narrow == ("g", "d")


JOINED = """\
def f(x: float32[1, 2, 2, 2]):
    w: float32[2, 2, 1, 1] = constant([[[[1]], [[2]]], [[[3]], [[4]]]])
    v: float32[2, 4, 1, 1] = constant([[[[1]], [[2]], [[1]], [[2]]], [[[3]], [[4]], [[1]], [[2]]]])
    a: float32[1, 2, 2, 2] = Conv(x, w, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    b: float32[1, 2, 2, 2] = Conv(a, w, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    r: float32[1, 2, 2, 2] = Relu(b)
    c: float32[1, 4, 2, 2] = Concat(a, r, axis=1)
    y: float32[1, 2, 2, 2] = Conv(c, v, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    return y
"""


def test_what_is_only_joined_has_the_scale_of_the_result():
    roles = Roles(parse_graph(JOINED))
    assert roles.others == {"c"}
    assert roles.fused == {"r"}
    assert roles.leaders == {"x": "x", "a": "a", "r": "c", "c": "c", "y": "y"}  # `a` has another reader


def test_attention_computes_with_integers_but_for_its_softmax():
    roles = Roles(attention())
    assert roles.products == {"m"}
    assert roles.pairs == {"s", "y"}
    assert roles.scales == {"e"}
    assert roles.fused == {"a", "e"}
    assert roles.others == {"r", "t", "q", "k", "o", "i"}
    moved = ("a", "r", "t", "q", "k", "v", "o", "i")
    assert roles.leaders == {"x": "x", **dict.fromkeys(moved, "a"), "e": "e", "p": "p", "y": "y"}


def test_a_product_of_activations_that_stays_in_float_quantises_no_operand():
    assert Roles(attention(), {"m", "s"}).narrow == ("p", "v", "y")


PAIRS = """\
def f(x: float32[2, 2], y: float32[2, 2]):
    p: float32[2, 2] = MatMul(x, y)
    s: float32 = constant(SCALE)
    z: float32[2, 2] = Mul(p, s)
    return RESULTS
"""


def test_a_scale_goes_into_a_product_of_activations_only_if_nothing_else_reads_that():
    def scales(scale: str, results: str) -> set[str]:
        return Roles(parse_graph(PAIRS.replace("SCALE", scale).replace("RESULTS", results))).scales

    assert scales("0.5", "z") == {"z"}
    assert scales("0.5", "z, p") == scales("-0.5", "z") == set()


STRIDED = "ceil_mode=0, dilations=(1, 1), kernel_shape=(2, 2), pads=(0, 0, 0, 0), strides=(1, 1)"


def test_what_carries_a_function_of_integers_to_a_product_computes_with_integers():
    text = JOINED.replace("Relu(b)", "Sigmoid(b)").replace("v: float32[2, 4", "v: float32[2, 2")
    text = text.replace("[[1]], [[2]], [[1]], [[2]]", "[[1]], [[2]]")
    text = text.replace("[[3]], [[4]], [[1]], [[2]]", "[[3]], [[4]]")
    text = text.replace(
        "c: float32[1, 4, 2, 2] = Concat(a, r, axis=1)", f"c: float32[1, 2, 1, 1] = MaxPool(r, {STRIDED})"
    )
    roles = Roles(parse_graph(text.replace("y: float32[1, 2, 2, 2]", "y: float32[1, 2, 1, 1]")))
    assert roles.roots == {"r": "b"}
    assert roles.others == {"c"}
