"""Which operators compute with integers, and which values become int8."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from tests.compiler.graph.quantisation.graphs import ROWS, attention, residual, rows, unrolled
from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.quantisation import roles as subject
from vdla.compiler.graph.quantisation.roles import Roles
from vdla.compiler.graph.verify import verify


def test_a_sum_between_float_operators_and_the_inside_of_a_table_stay_in_float():
    roles = Roles(residual())
    assert roles.products == {"m", "d"}
    assert roles.biases == roles.fused == {"a"}
    assert roles.others == set()
    assert roles.roots == {"s": "a", "g": "a"}
    assert roles.narrow == ("n", "a", "g", "d")


def test_a_node_in_float_has_no_int8_values():
    assert Roles(residual(), {"m", "d"}).narrow == ()
    assert Roles(residual(), {"m"}).narrow == ("g", "d")


def test_normalisations_between_integer_operators_compute_with_integers():
    assert Roles(rows(), normalises=True).others == {"a", "n", "b", "o"}
    assert Roles(rows(), {"n"}, normalises=True).others == {"a", "b", "o"}
    assert Roles(rows(), {"n", "o"}, normalises=True).narrow == ("x", "m", "n", "p", "o", "y")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("RMSNormalization(b, g, axis=1", "RMSNormalization(b, w, axis=0"),
        ("RMSNormalization(b, g,", "RMSNormalization(b, x,"),
        ("MatMul(o, w)", "Sigmoid(o)"),
    ],
    ids=["of other axes", "by a computed scale", "before a float operator"],
)
def test_sums_before_other_normalisations_stay_in_float(before, after):
    assert Roles(parse_graph(ROWS.replace(before, after)), normalises=True).others == {"a", "n"}


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


def test_tensors_that_only_a_concat_reads_have_the_scale_of_its_result():
    roles = Roles(parse_graph(JOINED))
    assert roles.others == {"c"}
    assert roles.fused == {"r"}
    assert roles.leaders == {"x": "x", "a": "a", "r": "c", "c": "c", "y": "y"}  # `a` has another reader


def test_the_results_of_all_steps_of_an_operation_share_a_scale():
    leaders = Roles(unrolled()).leaders
    assert leaders["h0"] == leaders["h1"]
    assert leaders["s0"] == leaders["s1"]
    assert len(set(leaders.values())) == 5, "h, s, and both inputs and the result"


def test_a_step_in_float_shares_no_scale():
    roles = Roles(unrolled(), {"h0", "s0"})
    assert "h0" not in roles.leaders
    assert roles.leaders["h1"] == "h1"


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


def test_a_scale_is_fused_into_a_product_of_activations_with_no_other_reader():
    def scales(scale: str, results: str) -> set[str]:
        return Roles(parse_graph(PAIRS.replace("SCALE", scale).replace("RESULTS", results))).scales

    assert scales("0.5", "z") == {"z"}
    assert scales("0.5", "z, p") == scales("-0.5", "z") == set()


STRIDED = "ceil_mode=0, dilations=(1, 1), kernel_shape=(2, 2), pads=(0, 0, 0, 0), strides=(1, 1)"


def test_moves_between_a_table_and_a_product_compute_with_integers():
    text = JOINED.replace("Relu(b)", "Sigmoid(b)").replace("v: float32[2, 4", "v: float32[2, 2")
    text = text.replace("[[1]], [[2]], [[1]], [[2]]", "[[1]], [[2]]")
    text = text.replace("[[3]], [[4]], [[1]], [[2]]", "[[3]], [[4]]")
    text = text.replace(
        "c: float32[1, 4, 2, 2] = Concat(a, r, axis=1)", f"c: float32[1, 2, 1, 1] = MaxPool(r, {STRIDED})"
    )
    roles = Roles(parse_graph(text.replace("y: float32[1, 2, 2, 2]", "y: float32[1, 2, 1, 1]")))
    assert roles.roots == {"r": "b"}
    assert roles.others == {"c"}


HEAD = """\
def f(x: float32[2, 3], v: float32[2, 3], j: int64[2]):
    w: float32[3, 3] = constant([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    b: float32[3] = constant([1, 2, 3])
    n: float32 = constant(0.5)
    i: int64[2] = constant([1, 0])
    p: float32[2, 3] = MatMul(x, w)
"""


def roles_of(*lines: str, gives: str = "y", in_float: set[str] | None = None) -> Roles:
    body = "".join(f"    {line}\n" for line in lines)
    return Roles(parse_graph(f"{HEAD}{body}    return {gives}\n"), in_float or set())


def parts(roles: Roles, name: str) -> str:
    """Return the parts that a node has."""
    sets = ("products", "pairs", "biases", "scales", "fused", "others", "roots")
    return " ".join(each for each in sets if name in getattr(roles, each))


BEHIND = {  # what stands behind a product p, and the parts of y
    "a bias": ("y: float32[2, 3] = Add(p, b)", "biases fused"),
    "a bias, the other way round": ("y: float32[2, 3] = Add(b, p)", "biases fused"),
    "a number": ("y: float32[2, 3] = Add(p, n)", "biases fused"),
    "a bias of one row": (
        "r: float32[1, 3] = constant([[1, 2, 3]])\n    y: float32[2, 3] = Add(p, r)",
        "biases fused",
    ),
    "a bias for each row": (
        "r: float32[2, 1] = constant([[1], [2]])\n    y: float32[2, 3] = Add(p, r)",
        "",
    ),
    "a bias for each element": (
        "r: float32[2, 3] = constant([[1, 2, 3], [4, 5, 6]])\n    y: float32[2, 3] = Add(p, r)",
        "",
    ),
    "a bias that makes the result larger": (
        "r: float32[1, 1, 3] = constant([[[1, 2, 3]]])\n    y: float32[1, 2, 3] = Add(p, r)",
        "",
    ),
    "a bias that is infinite": (
        'r: float32[3] = constant([1, float("inf"), 3])\n    y: float32[2, 3] = Add(p, r)',
        "",
    ),
    "a factor for each column": ("y: float32[2, 3] = Mul(p, b)", ""),
    "a factor": ("y: float32[2, 3] = Mul(p, n)", "roots"),
    "a bound": ("y: float32[2, 3] = Relu(p)", "fused"),
    "a bound of two sides": ("y: float32[2, 3] = Clip(p, max=6.0, min=0.0)", "fused"),
    "a bound behind a bias": ("q: float32[2, 3] = Add(p, b)\n    y: float32[2, 3] = Relu(q)", "fused"),
    "a bound behind a function": ("q: float32[2, 3] = Tanh(p)\n    y: float32[2, 3] = Relu(q)", "roots"),
    "a function": ("y: float32[2, 3] = Sigmoid(p)", "roots"),
    "a function of one row": ("r: float32[3] = constant([1, 2, 3])\n    y: float32[2, 3] = Div(p, r)", ""),
    "a function of several numbers": (
        "r: float32[1, 3] = constant([[1, 2, 3]])\n    y: float32[2, 3] = Max(p, r)",
        "",
    ),
    "a function of two tensors": ("y: float32[2, 3] = Div(p, v)", ""),
    "a function of a tensor and itself": (
        "q: float32[2, 3] = Sigmoid(p)\n    y: float32[2, 3] = Mul(p, q)",
        "roots",
    ),
    "a view": ("y: float32[3, 2] = Transpose(p, perm=(1, 0))", "others"),
    "rows by constant places": ("y: float32[2, 3] = Gather(p, i, axis=0)", "others"),
    "rows by computed places": ("y: float32[2, 3] = Gather(p, j, axis=0)", ""),
    "a view of another view": (
        "q: float32[3, 2] = Transpose(p, perm=(1, 0))\n    y: float32[6] = Reshape(q, shape=(6,))",
        "others",
    ),
    "a sum with a tensor of real numbers": ("y: float32[2, 3] = Add(p, v)", ""),
    "a join with a constant": (
        "r: float32[1, 3] = constant([[1, 2, 3]])\n    y: float32[3, 3] = Concat(p, r, axis=0)",
        "",
    ),
    "a product": ("y: float32[2, 3] = MatMul(p, w)", "products"),
    "a product by what is infinite": (
        'r: float32[3, 1] = constant([[1], [float("inf")], [3]])\n    y: float32[2, 1] = MatMul(p, r)',
        "",
    ),
    "a product of two": (
        "q: float32[3, 2] = Transpose(v, perm=(1, 0))\n    y: float32[2, 2] = MatMul(p, q)",
        "pairs",
    ),
    "a softmax": ("y: float32[2, 3] = Softmax(p, axis=1)", ""),
}


@pytest.mark.parametrize("title", BEHIND)
def test_an_operator_after_a_product_has_its_role(title):
    line, expected = BEHIND[title]
    roles = roles_of(line)
    assert parts(roles, "y") == expected
    assert roles.is_integer(roles.makers["y"]) == (expected not in ("", "roots"))


@pytest.mark.parametrize("operands", ["p, b", "b, p"])
def test_a_bias_stays_fused_if_the_operator_behind_it_stays_in_float(operands):
    joined = "c: float32[4, 3] = Concat(a, a, axis=0)", "y: float32[4, 3] = Softmax(c, axis=1)"
    roles = roles_of(f"a: float32[2, 3] = Add({operands})", *joined)
    assert (parts(roles, "a"), parts(roles, "c")) == ("biases fused", "")


@pytest.mark.parametrize("line", ["y: float32[2, 3] = Add(p, b)", "y: float32[2, 3] = Relu(p)"])
def test_nothing_is_fused_into_a_product_with_other_readers(line):
    assert "fused" not in parts(roles_of(line, gives="y, p"), "y")
    other = "z: float32[2, 3] = Softmax(p, axis=1)"
    assert "fused" not in parts(roles_of(line, other, gives="y, z"), "y")
    assert parts(roles_of(line), "y").endswith("fused")
    assert parts(roles_of(line, in_float={"y"}), "y") == ""


def test_sums_between_two_products_compute_with_integers():
    lines = (
        "q: float32[2, 3] = MatMul(v, w)",
        "s: float32[2, 3] = Add(p, q)",
        "r: float32[2, 3] = Relu(s)",
        "y: float32[2, 3] = MatMul(r, w)",
    )
    roles = roles_of(*lines)
    assert (parts(roles, "s"), parts(roles, "r")) == ("others", "fused")
    assert [node.outputs[0] for node in roles.fused_chain(roles.makers["s"])] == ["s", "r"]
    assert [node.outputs[0] for node in roles.fused_chain(roles.makers["p"])] == ["p"]
    assert roles.narrow == ("x", "p", "v", "q", "r", "y")
    assert roles.activations(roles.makers["s"]) == ("p", "q")
    assert roles.activations(roles.makers["y"]) == ("r",)
    assert roles.activations(roles.makers["r"]) == ()
    seen = roles_of(*lines[:2], "r: float32[2, 3] = Relu(s)", "y: float32[2, 3] = Softmax(r, axis=1)")
    assert (parts(seen, "s"), parts(seen, "r")) == ("", "")


# The fixpoint: equal to whole rounds, and in time that follows the number of nodes

CONV = {"dilations": (1, 1), "group": 1, "pads": (0, 0, 0, 0), "strides": (1, 1)}
POOL = {"ceil_mode": 0, "dilations": (1, 1), "kernel_shape": (1, 1), "pads": (0, 0, 0, 0), "strides": (1, 1)}
IMAGE = TensorType((1, 2, 2, 2), "float32")
STEPS = ("Add", "Clip", "Conv", "Join", "MaxPool", "Mul", "Relu", "Scale", "Sigmoid", "Sqrt")


def whole_rounds(of):
    """Shrink as `_shrink` does, in rounds that look at all nodes."""
    nodes, out = of.graph.nodes, {""}
    while out:
        of.fused = of.biases | of.scales
        of.fused |= {node.outputs[0] for node in nodes if of.is_bound(node)}
        of.roots, of.wanted = {}, set()
        for node in nodes:
            if (root := of.root_of(node)) is not None:
                of.roots[node.outputs[0]] = root
        for node in reversed(nodes):
            of.wanted |= {name for name in node.outputs if of.is_wanted(name)}
        of.wanted |= {name for name in of.graph.inputs if of.is_wanted(name)}
        out = {name for name in of.others - of.fused if not of.is_worth_quantising(of.makers[name])}
        of.others -= out


class Growing:
    """A graph in the making, of images of one type."""

    def __init__(self):
        self.nodes, self.types = [], {"x": IMAGE, "w": TensorType((2, 2, 1, 1), "float32")}
        self.types |= {"v": TensorType((2, 4, 1, 1), "float32"), "c": TensorType((), "float32")}
        self.constants = {name: np.full(self.types[name].shape, 0.5, np.float32) for name in ("w", "v", "c")}

    def add(self, op, inputs, attributes=None, type_=IMAGE):
        """Append a node; return its result."""
        out = f"n{len(self.nodes)}"
        self.nodes.append(Node(op, inputs, (out,), attributes or {}))
        self.types[out] = type_
        return out

    def step(self, op, left, right):
        """Append what a step stands for; return its result."""
        match op:
            case "Clip":
                return self.add(op, (left,), {"min": 0.0, "max": 6.0})
            case "Conv":
                return self.add(op, (left, "w", ""), CONV)
            case "Join":
                wide = self.add("Concat", (left, right), {"axis": 1}, TensorType((1, 4, 2, 2), "float32"))
                return self.add("Conv", (wide, "v", ""), CONV)
            case "MaxPool":
                return self.add(op, (left,), POOL)
            case "Add" | "Mul":
                return self.add(op, (left, right))
            case "Scale":
                return self.add("Mul", (left, "c"))
        return self.add(op, (left,))

    def graph(self, *outputs):
        """Return the graph."""
        graph = Graph("g", {"x": IMAGE}, outputs, tuple(self.nodes), self.constants, self.types)
        verify(graph)
        return graph


def random_graph(seed):
    random, growing = Random(seed), Growing()
    values = ["x"]
    likely = random.sample(STEPS, 6)
    for _ in range(random.randint(3, 30)):
        recent = values[-3:]
        values.append(growing.step(random.choice(likely), random.choice(recent), random.choice(recent)))
    return growing.graph(values[-1], *random.sample(values[1:-1], 1))


def fixpoint(graph):
    roles = Roles(graph)
    return roles.fused, roles.others, roles.roots, roles.wanted & roles.makers.keys(), roles.leaders


@pytest.mark.parametrize("seeds", [range(first, first + 40) for first in range(0, 320, 40)], ids=str)
def test_incremental_rounds_reach_the_same_fixpoint_as_full_rounds(seeds, monkeypatch):
    graphs = [random_graph(seed) for seed in seeds]
    quick = [fixpoint(graph) for graph in graphs]
    monkeypatch.setattr(subject, "_shrink", whole_rounds)
    assert quick == [fixpoint(graph) for graph in graphs]
    assert any(others for _, others, *_ in quick)


def behind_a_product(count):
    """A product, then sums and bounds that peel off from the end, one in each round."""
    growing = Growing()
    before = value = growing.step("Conv", "x", "")
    for _ in range(count):
        before, value = value, growing.step("Add", value, before)
        value = growing.step("Relu", growing.step("Clip", value, ""), "")
    return growing.graph(value)


def looked_at(count, monkeypatch):
    rounds = []

    class Counting(subject._Rounds):
        def __init__(self, of):
            super().__init__(of)
            rounds.append(self)

    monkeypatch.setattr(subject, "_Rounds", Counting)
    roles = Roles(behind_a_product(count))
    assert not roles.others
    return rounds[0].visits


def test_visits_grow_linearly_with_the_number_of_nodes(monkeypatch):
    assert looked_at(400, monkeypatch) <= 2.2 * looked_at(200, monkeypatch)


STATE = f"""\
@state("h", "n", 1.0, 0)
def f(x: float32[1, 4], h: float32[1, 4]):
    w: float32[4, 4] = constant({np.eye(4).tolist()})
    a: float32[1, 4] = MatMul(x, w)
    b: float32[1, 4] = MatMul(h, w)
    n: float32[1, 4] = Add(a, b)
    y: float32[1, 4] = MatMul(n, w)
    return n, y
"""


def test_a_state_and_the_output_that_it_takes_share_a_scale():
    graph = parse_graph(STATE)
    leaders = Roles(graph).leaders
    assert leaders["h"] == leaders["n"]
    apart = Roles(replace(graph, states={})).leaders
    assert apart["h"] != apart["n"]


MASKED = """\
def f(x: float32[1, 2, 3, 4], m: float32[1, 1, 1, 3]):
    t: float32[1, 2, 4, 3] = Transpose(x, perm=(0, 1, 3, 2))
    w: float32[4] = constant([1, 1, 2, 2])
    n: float32[1, 2, 3, 4] = LayerNormalization(x, w, axis=3, epsilon=1e-05)
    s: float32[1, 2, 3, 3] = MatMul(n, t)
    k: float32[1, 1, 1, 3] = Neg(m)
    a: float32[1, 2, 3, 3] = Add(s, k)
    p: float32[1, 2, 3, 3] = Softmax(a, axis=3)
    y: float32[1, 2, 3, 4] = MatMul(p, n)
    return y
"""


def test_rows_compute_with_integers_where_the_accelerator_normalises_them():
    graph = parse_graph(MASKED)
    roles = Roles(graph, normalises=True)
    assert roles.others == {"n", "a", "p"}
    assert roles.scores == {"a": "k"}
    assert roles.shape_of_operand(roles.makers["a"], "k") == (1, 2, 3, 3)
    assert roles.shape_of_operand(roles.makers["a"], "s") == (1, 2, 3, 3)
    assert Roles(graph).others == set()
    assert roles.changed(in_float={"p"}).others == {"n"}
    assert roles.changed(in_float={"p"}).normalises


@pytest.mark.parametrize(
    ("what", "instead"),
    [
        ("n: float32[1, 2, 3, 4] = LayerNormalization(x, w, axis=3", "another axis"),
        ("w: float32[4] = constant([1, 1, 2, 2])", "parameters that are not constant"),
    ],
)
def test_other_normalisations_stay_in_float(what, instead):
    text = {
        "another axis": MASKED.replace("axis=3, epsilon", "axis=2, epsilon").replace(
            "w: float32[4] = constant([1, 1, 2, 2])",
            "w: float32[3, 4] = constant([[1, 1, 2, 2], [1, 1, 2, 2], [1, 1, 2, 2]])",
        ),
        "parameters that are not constant": MASKED.replace(
            "m: float32[1, 1, 1, 3])", "m: float32[1, 1, 1, 3], w: float32[4])"
        ).replace("    w: float32[4] = constant([1, 1, 2, 2])\n", ""),
    }[instead]
    assert what in MASKED
    assert "n" not in Roles(parse_graph(text), normalises=True).others


SUMS = """\
def f(x: float32[2, 2, 4], g: float32[OPERAND]):
    w: float32[4, 4] = constant([[1, 2, 0, 0], [0, 1, 3, 0], [0, 0, 1, 4], [5, 0, 0, 1]])
    m: float32[2, 2, 4] = MatMul(x, w)
    a: float32[2, 2, 4] = Mul(m, g)
    y: float32[2, 2, 4] = MatMul(a, w)
    return y
"""


@pytest.mark.parametrize(
    ("operand", "expands"),
    [
        ("2, 4", True),
        ("1, 2, 4", True),
        ("1, 1, 4", True),
        ("4", True),
        ("2, 1, 4", True),
        ("2, 2, 1", False),
        ("1", False),
    ],
)
def test_given_operands_with_the_columns_of_the_result_are_expanded(operand, expands):
    roles = Roles(parse_graph(SUMS.replace("OPERAND", operand)))
    assert ("a" in roles.others) is expands
    if expands:
        assert roles.shape_of_operand(roles.makers["a"], "g") == (2, 2, 4)


def test_what_a_product_computes_is_not_given():
    text = SUMS.replace("OPERAND", "1, 4").replace("Mul(m, g)", "Mul(m, h)")
    text = text.replace("    m: ", "    h: float32[1, 4] = MatMul(g, w)\n    m: ")
    roles = Roles(parse_graph(text))
    assert not {"h", "m", "a", "y"} & roles.given
    assert {"x", "g", "w"} <= roles.given
    assert "a" not in roles.others


@pytest.mark.parametrize(
    ("numbers", "joins"), [("[[1, 2, 3, 4]]", True), ("[[1, 2, 3, float('inf')]]", False)]
)
def test_constants_are_operands(numbers, joins):
    text = SUMS.replace("g: float32[OPERAND]", "z: float32[1]").replace(
        "    m: ", f"    g: float32[1, 4] = constant({numbers})\n    m: "
    )
    roles = Roles(parse_graph(text))
    assert ("a" in roles.others) is joins
    assert ("g" in roles.narrow) is joins
