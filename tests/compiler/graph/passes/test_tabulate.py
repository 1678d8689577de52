"""Functions of int8 elements as tables: what becomes a table, what does not, and the same bits."""

import re

import numpy as np
import pytest

from tests.compiler.graph.passes.golden import assert_same_meaning
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.passes.tabulate import Tabulate
from vdla.compiler.graph.text import print_graph
from vdla.runtime.host import elementwise
from vdla.runtime.host.evaluate import OperatorError, evaluate

HEAD = """\
def f(x: int8[2, 300], w: int8[2, 300]):
    s: float32 = constant(0.05)
    p: int8 = constant(-3)
    t: float32 = constant(0.01)
    k: float32[1, 1] = constant([[1.5]])
    v: float32[300] = constant({several})
    a: float32[2, 300] = DequantizeLinear(x, s, p, axis=1)
    c: float32[2, 300] = DequantizeLinear(w, s, p, axis=1)
""".replace("{several}", str([1.0] * 300))


def program(*lines: str, gives: str) -> Graph:
    return parse_graph(HEAD + "".join(f"    {line}\n" for line in lines) + f"    return {gives}\n")


def operators(graph: Graph) -> list[str]:
    """Return each node as `result = Operator(inputs)`, without types and reasons."""
    text = re.sub(r', reason=".*"\)$', ")", print_graph(graph), flags=re.M)
    matches = re.findall(r"^    (\w+): \S+(?: \S+)* = (\w+)\((.*)\)$", text, re.M)
    return [f"{out} = {op}({rest})" for out, op, rest in matches if op != "constant"]


TABLES = {
    "one operator between conversions": (
        ("g: float32[2, 300] = Tanh(a)", "y: int8[2, 300] = QuantizeLinear(g, t, p, axis=1)"),
        "y",
        ["y = Int8Lookup(x, y_table)"],
    ),
    "a formula that reads the elements several times": (
        (
            "e: float32[2, 300] = Erf(a)",
            "f: float32[2, 300] = Add(e, k)",
            "g: float32[2, 300] = Mul(a, f, name='gelu')".replace("'", '"'),
            'y: int8[2, 300] = QuantizeLinear(g, t, p, axis=1, name="q")',
        ),
        "y",
        ['y = Int8Lookup(x, y_table, name="gelu")'],
    ),
    "real numbers that go on": (
        ("g: float32[2, 300] = Mul(a, k)", "y: float32[2, 300] = Softmax(g, axis=1)"),
        "y",
        ["g = Int8Lookup(x, g_table)", "y = Softmax(g, axis=1)"],
    ),
    "integers in between": (
        (
            "g: float32[2, 300] = Tanh(a)",
            "q: int8[2, 300] = QuantizeLinear(g, t, p, axis=1)",
            "y: float32[2, 300] = DequantizeLinear(q, t, p, axis=1)",
        ),
        "y, q",
        ["q = Int8Lookup(x, q_table)", "y = Int8Lookup(x, y_table)"],
    ),
    "a conversion that others read": (
        ("g: float32[2, 300] = Tanh(a)", "h: float32[2, 300] = Add(a, c)"),
        "g, h",
        [
            "a = DequantizeLinear(x, s, p, axis=1)",
            "c = DequantizeLinear(w, s, p, axis=1)",
            "g = Int8Lookup(x, g_table)",
            "h = Add(a, c)",
        ],
    ),
}


@pytest.mark.parametrize("title", TABLES)
def test_functions_of_one_tensors_elements_become_tables(title):
    lines, gives, expected = TABLES[title]
    graph = program(*lines, gives=gives)
    changed = Tabulate().run(graph)
    assert operators(changed) == expected
    assert Tabulate().run(changed) == changed
    assert_same_meaning(graph, changed)


INTEGER_HEAD = """\
def f(x: int8[2, 300], w: int8[2, 300]):
    p: int64[4, 1] = constant([[5], [20000], [5150], [32640]])
    n: int64[4, 1] = constant([[0], [1], [0], [32640]])
    t: int8[256] = constant({table})
""".replace("{table}", str([(7 * number) % 200 - 100 for number in range(256)]))
INTEGER_TABLES = {
    "a product of a tensor with its table": (
        ("s: int8[2, 300] = Int8Lookup(x, t)", "y: int8[2, 300] = Int8Mul(x, s, p, zeros=(1, -2))"),
        ["y = Int8Lookup(x, y_table)"],
    ),
    "what is requantised behind a table": (
        ("s: int8[2, 300] = Int8Lookup(x, t)", "y: int8[2, 300] = Int8Requantise(s, p)"),
        ["y = Int8Lookup(x, y_table)"],
    ),
    "a sum of two functions": (
        (
            "s: int8[2, 300] = Int8Lookup(x, t)",
            "r: int8[2, 300] = Int8Requantise(s, p)",
            "y: int8[2, 300] = Int8Add(r, s, p, factors=(3, 4))",
        ),
        ["y = Int8Lookup(x, y_table)"],
    ),
    "a table of what is requantised": (
        ("r: int8[2, 300] = Int8Requantise(x, p)", "y: int8[2, 300] = Int8Lookup(r, t)"),
        ["y = Int8Lookup(x, y_table)"],
    ),
    "a product of a tensor with a table of what is requantised": (
        (
            "r: int8[2, 300] = Int8Requantise(x, p)",
            "s: int8[2, 300] = Int8Lookup(r, t)",
            "y: int8[2, 300] = Int8Mul(x, s, p, zeros=(0, 3))",
        ),
        ["y = Int8Lookup(x, y_table)"],
    ),
    "requantised twice": (
        ("r: int8[2, 300] = Int8Requantise(x, p)", "y: int8[2, 300] = Int8Requantise(r, p)"),
        ["r = Int8Requantise(x, p)", "y = Int8Requantise(r, p)"],
    ),
    "what changes nothing": (
        ("r: int8[2, 300] = Int8Requantise(x, n)", "y: int8[2, 300] = Int8Requantise(r, p)"),
        ["r = Identity(x)", "y = Int8Requantise(r, p)"],
    ),
    "one operator on elements": (
        ("y: int8[2, 300] = Int8Requantise(x, p)",),
        ["y = Int8Requantise(x, p)"],
    ),
    "a square": (
        ("y: int8[2, 300] = Int8Mul(x, x, p, zeros=(0, 0))",),
        ["y = Int8Mul(x, x, p, zeros=(0, 0))"],
    ),
    "two tensors": (
        ("s: int8[2, 300] = Int8Lookup(w, t)", "y: int8[2, 300] = Int8Mul(x, s, p, zeros=(1, -2))"),
        ["s = Int8Lookup(w, t)", "y = Int8Mul(x, s, p, zeros=(1, -2))"],
    ),
}


@pytest.mark.parametrize("title", INTEGER_TABLES)
def test_operators_on_int8_elements_of_one_tensor_become_a_table(title):
    lines, expected = INTEGER_TABLES[title]
    graph = parse_graph(
        INTEGER_HEAD + "".join(f"    {line}\n" for line in lines) + f"    return {lines[-1][0]}\n"
    )
    changed = Tabulate().run(graph)
    assert operators(changed) == expected
    assert_same_meaning(graph, changed)


CHAINS = {
    "requantised twice": ["y = Int8Lookup(x, y_table)"],
    "what changes nothing": ["r = Identity(x)", "y = Int8Requantise(r, p)"],
    "one operator on elements": ["y = Int8Requantise(x, p)"],
    "a square": ["y = Int8Mul(x, x, p, zeros=(0, 0))"],
}


@pytest.mark.parametrize("title", CHAINS)
def test_chains_of_operators_that_the_accelerator_has_become_a_table_if_asked(title):
    lines, _ = INTEGER_TABLES[title]
    graph = parse_graph(
        INTEGER_HEAD + "".join(f"    {line}\n" for line in lines) + f"    return {lines[-1][0]}\n"
    )
    changed = Tabulate(chains=True).run(graph)
    assert operators(changed) == CHAINS[title]
    assert_same_meaning(graph, changed)


ALIKE_HEAD = """\
def f(x: int8[1, 2, 3, 3], z: int8[5, 2]):
    p: int64[4, 1] = constant([[5], [20000], [5150], [32640]])
    t: int8[256] = constant({table})
    k: int8[1] = constant([-3])
""".replace("{table}", str([(7 * number) % 200 - 100 for number in range(256)]))
ALIKE = {
    "rows": ("a: int8[5, 2] = Int8Scale(z, k, p, axis=-1)", "y: int8[5, 2] = Int8Lookup(a, t)"),
    "images": (
        "a: int8[1, 2, 3, 3] = Int8Scale(x, k, p, axis=1)",
        "y: int8[1, 2, 3, 3] = Int8Lookup(a, t)",
    ),
}


@pytest.mark.parametrize("title", ALIKE)
def test_products_with_one_number_become_part_of_a_table(title):
    graph = parse_graph(ALIKE_HEAD + "".join(f"    {line}\n" for line in ALIKE[title]) + "    return y\n")
    changed = Tabulate().run(graph)
    assert operators(changed) == [f"y = Int8Lookup({'z' if title == 'rows' else 'x'}, y_table)"]
    assert_same_meaning(graph, changed)


LEFT_ALONE = {
    "a lone conversion": ((), "a"),
    "two tensors": (("y: float32[2, 300] = Mul(a, c)",), "y"),
    "a constant of several numbers": (("y: float32[2, 300] = Mul(a, v)",), "y"),
    "sums over elements": (("y: float32[2, 300] = Softmax(a, axis=1)",), "y"),
    "elements that move": (("y: float32[300, 2] = Transpose(a, perm=(1, 0))",), "y"),
    "scales along an axis": (("y: float32[2, 300] = DequantizeLinear(x, v, z, axis=1)",), "y"),
}


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_left_alone(title):
    lines, gives = LEFT_ALONE[title]
    zeros = (f"z: int8[300] = constant({[0] * 300})",) if "along" in title else ()
    graph = program(*zeros, *lines, gives=gives)
    assert "Int8Lookup" not in print_graph(Tabulate().run(graph))


ATTRIBUTES = {
    "Cast": {"to": "int32"},
    "Clip": {"min": -0.5, "max": 0.75},
    "Elu": {"alpha": 0.5},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "LeakyRelu": {"alpha": 0.1},
    "Mod": {"fmod": 1},
}
OF_TWO = ("Add", "Div", "Max", "Mean", "Min", "Mod", "Mul", "PRelu", "Pow", "Sub", "Sum")


@pytest.mark.parametrize("op", [*elementwise.OPERATORS, "Gelu tanh"])
def test_a_table_gives_the_bits_of_every_operator_on_elements(op):
    op, _, how = op.partition(" ")
    attributes = {"approximate": how or "none"} if op == "Gelu" else ATTRIBUTES.get(op, {})
    written = "".join(f", {name}={value!r}".replace("'", '"') for name, value in attributes.items())
    kind = "int32" if op == "Cast" else "float32"
    graph = program(f"y: {kind}[2, 300] = {op}(a{', k' if op in OF_TWO else ''}{written})", gives="y")
    changed = Tabulate().run(graph)
    assert [node.op for node in changed.nodes] == ["Int8Lookup"]
    inputs = {name: np.random.default_rng(0).integers(-128, 128, (2, 300), np.int8) for name in "xw"}
    expected, result = interpret(graph, inputs)["y"], interpret(changed, inputs)["y"]
    assert expected.dtype == result.dtype
    assert expected.tobytes() == result.tobytes()


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
def test_tables_are_read_by_value(dtype):
    x = np.array([[-128, -1, 1], [0, 127, 2]], np.int8)
    (y,) = evaluate("Int8Lookup", [x.T, np.arange(256).astype(dtype)], {})
    assert y.dtype == dtype
    assert y.tolist() == [[0, 128], [127, 255], [129, 130]]


def test_a_tensor_without_elements_has_none_either():
    (y,) = evaluate("Int8Lookup", [np.zeros((0, 2), np.int8), np.zeros(256, np.int8)], {})
    assert y.shape == (0, 2)


@pytest.mark.parametrize(("dtype", "size"), [("uint8", 256), ("int8", 255)])
def test_a_table_is_for_bytes_and_whole(dtype, size):
    with pytest.raises(OperatorError, match="a table has the 256 values of int8"):
        evaluate("Int8Lookup", [np.zeros(3, dtype), np.zeros(size, np.int8)], {})
