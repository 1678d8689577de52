"""Graphs: lossless text, interpretation, and verification."""

import re
from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.graph.interpret import all_values, interpret
from vdla.compiler.graph.nodes import Graph, GraphError, Node, TakenNames, TensorType
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.serialise import graph_from_bytes, graph_to_bytes
from vdla.compiler.graph.text import print_graph
from vdla.compiler.graph.verify import verify
from vdla.runtime.arrays import digest
from vdla.runtime.module.plan import State

RNG = np.random.default_rng(0)

NET = """\
def net(x: float32[1, 4], z: int8[2, 3, 1]):
    w: float32[4, 5] = constant(sha256="{sha}")
    b: float32[5] = constant([0.1, -0.0, 1e-30, float("inf"), 3.0])
    h: float32[1, 5] = Gemm(x, w, b, alpha=1.0, beta=0.5, transA=0, transB=0, name="/fc/Gemm \\"1\\"")
    c: float32[1, 5] = Clip(h, max=6.0, min=float("-inf"), step_of="n.forward.c")
    p: int8[2, 1, 1]
    q: int8[2, 2, 1]
    p, q = Split(z, axis=1, split=(1, 2))
    flags: bool[2] = constant([True, False])
    one: int64 = constant(1)
    g: bool = Gather(flags, one, axis=0)
    m: float32[1, 5] = LayerNormalization(c, b, None, axis=1, epsilon=1e-05)
    return m, q, g
"""


def net_text() -> tuple[str, dict[str, np.ndarray]]:
    """Return a text with everything that a text can have, and its large constant."""
    w = RNG.normal(size=(4, 5)).astype(np.float32)
    with pytest.raises(GraphError) as caught:
        parse_graph(NET.format(sha="0"))
    assert "the text holds only the hash of w; pass its elements in constants" in str(caught.value)
    types = {
        "x": TensorType((1, 5), "float32"),
        "w": TensorType((4, 5), "float32"),
        "y": TensorType((4, 5), "float32"),
    }
    small = Graph("net", {"x": types["x"]}, ("y",), (Node("Add", ("x", "w"), ("y",)),), {"w": w}, types)
    return NET.format(sha=re.search('sha256="(.*)"', print_graph(small))[1]), {"w": w}


@pytest.mark.parametrize(("elements", "printed"), [(16, "constant([1, 1, "), (17, "constant(sha256=")])
def test_large_constants_are_printed_by_their_digest(elements, printed):
    w = np.ones(elements, np.int32)
    kind = TensorType((elements,), "int32")
    graph = Graph("net", {}, ("y",), (Node("Neg", ("w",), ("y",)),), {"w": w}, {"w": kind, "y": kind})
    assert printed in print_graph(graph)


def test_text_reads_back_equal():
    text, constants = net_text()
    graph = parse_graph(text, constants)
    verify(graph)
    assert print_graph(graph) == text
    assert parse_graph(print_graph(graph), graph.constants) == graph


@pytest.mark.parametrize(
    "change",
    [
        lambda graph: replace(graph, name="other"),
        lambda graph: replace(graph, outputs=graph.outputs[::-1]),
        lambda graph: replace(
            graph,
            nodes=(
                replace(graph.nodes[0], attributes={**graph.nodes[0].attributes, "alpha": 2.0}),
                *graph.nodes[1:],
            ),
        ),
        lambda graph: replace(
            graph, constants={**graph.constants, "b": np.nextafter(graph.constants["b"], np.float32(9))}
        ),
        lambda graph: replace(graph, types={**graph.types, "q": TensorType((4,), "int8")}),
    ],
)
def test_graphs_that_differ_are_not_equal(change):
    graph = parse_graph(*net_text())
    assert change(graph) != graph


def test_graphs_are_immutable():
    graph = parse_graph(*net_text())
    with pytest.raises(TypeError):
        graph.types["x"] = TensorType((), "int8")
    with pytest.raises(TypeError):
        graph.nodes[0].attributes["alpha"] = 2.0


BAD_TEXTS = [
    (
        "def f(x: float32[2]):\n    y: float32[2] = Relu(z)\n    return y",
        "line 2: a value that was defined before is needed here",
        25,
    ),
    ("def f(x: float32[2]):\n    x: float32[2] = Relu(x)\n    return x", "line 2: x is defined twice", 4),
    (
        "def f(x: float99[2]):\n    return x",
        "line 1: x needs a type such as float32[1, 3]; element types are float32, int8",
        6,
    ),
    (
        "def f(x: float32[2]):\n    c: int8[2] = constant([1, 2, 3])\n    return x",
        "line 2: the elements are of shape [3], not [2]",
        26,
    ),
    (
        "def f(x: float32[2]):\n    c: int8[1] = constant([300])\n    return x",
        "line 2: these are not elements of int8[1]",
        26,
    ),
    (
        "def f(x: float32[2]):\n    c: int8[1] = constant(3, 4)\n    return x",
        "line 2: a constant is written constant(elements)",
        4,
    ),
    (
        "def f(x: float32[2]):\n    for i in x: pass\n    return x",
        "line 2: this is not a statement of a graph",
        4,
    ),
    (
        "def f(x: float32[2]):\n    y: float32[2] = Clip(x, max=x, min=0)\n    return y",
        "line 2: a number, a string, or a tuple",
        32,
    ),
    ("def f(x: float32[2]\n    return x", "line 1: '(' was never closed", 5),
    ("x = 1", "line 1: a graph is one function that ends with return", None),
]


@pytest.mark.parametrize(("text", "message", "column"), BAD_TEXTS)
def test_an_invalid_text_is_refused_with_its_position(text, message, column):
    with pytest.raises(GraphError, match="^" + re.escape(message)) as caught:
        parse_graph(text)
    if column is not None:
        assert str(caught.value).splitlines()[-1] == " " * column + "^"


def test_a_constant_with_another_hash_is_refused():
    text, constants = net_text()
    with pytest.raises(
        GraphError, match=r"the array given for w, float32\[4, 5\], is not the array whose hash is printed"
    ):
        parse_graph(text, {"w": constants["w"] + 1})


def test_the_interpreter_returns_outputs_and_every_value():
    text, constants = net_text()
    graph = parse_graph(text.replace('float("inf")', "2.0"), constants)
    x, z = RNG.normal(size=(1, 4)).astype(np.float32), RNG.integers(-9, 9, (2, 3, 1), np.int8)
    outputs = interpret(graph, {"x": x, "z": z})
    values = all_values(graph, {"x": x, "z": z})
    assert list(outputs) == ["m", "q", "g"]
    assert set(values) == set(graph.types) - set(graph.constants)
    np.testing.assert_allclose(values["h"], x @ constants["w"] + 0.5 * graph.constants["b"], rtol=1e-5)
    np.testing.assert_array_equal(values["c"], np.minimum(values["h"], 6))
    np.testing.assert_array_equal(outputs["q"], z[:, 1:])
    assert not outputs["g"]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "graph f needs inputs x; it was given none"),
        ({"x": np.ones(3, np.float32)}, "graph f: input x is float32[3], not float32[2]"),
        ({"x": np.ones(2)}, "graph f: input x is float64[2], not float32[2]"),
        ({"x": np.ones(2, np.float32)}, "Relu 'y' made y = float32[2], not int8[2]"),
    ],
)
def test_the_interpreter_refuses_other_inputs_and_results_than_declared(inputs, message):
    graph = parse_graph("def f(x: float32[2]):\n    y: int8[2] = Relu(x)\n    return y")
    with pytest.raises(GraphError, match=f"^{re.escape(message)}$"):
        interpret(graph, inputs)


FLOATS = TensorType((2,), "float32")


def chain(**changes) -> Graph:
    """Return x → Relu → h → Neg → y, changed."""
    nodes = (Node("Relu", ("x",), ("h",), name="first"), Node("Neg", ("h",), ("y",)))
    return replace(Graph("f", {"x": FLOATS}, ("y",), nodes, {}, dict.fromkeys("xhy", FLOATS)), **changes)


RELU, NEG = chain().nodes

FAULTS = {
    "graph f: Neg 'y' reads 'h', which nothing before it defines": {"nodes": (NEG, RELU)},
    "graph f: Relu 'first' reads 'y', which nothing before it defines": {
        "nodes": (replace(RELU, inputs=("y",)), NEG)
    },
    "graph f: Relu 'h' defines 'h', which is defined already": {"nodes": (RELU, replace(RELU, name=""), NEG)},
    "graph f: Conf 'y': operator 'Conf' is unknown": {"nodes": (RELU, replace(NEG, op="Conf"))},
    "graph f: Neg 'y' has attributes alpha; Neg takes none": {
        "nodes": (RELU, replace(NEG, attributes={"alpha": 1}))
    },
    "graph f: Relu '' has no output": {"nodes": (RELU, Node("Relu", ("x",), ()))},
    "graph f: output 'z' is not a value of the graph": {"outputs": ("z",)},
    "graph f: value 'y' has no type": {"types": dict.fromkeys("xh", FLOATS)},
    "graph f: types has z, which nothing defines": {"types": dict.fromkeys("xhyz", FLOATS)},
    "graph f: value 'y' is bfloat16; element types are float32, int8, uint8, int16, uint16, int32, int64, "
    "bool, float16, float64, uint32, uint64": {
        "types": {**dict.fromkeys("xh", FLOATS), "y": TensorType((), "bfloat16")}
    },
    "graph f: value 'y' is float32[-2]; extents are at least 0, or -1 if only known in a run": {
        "types": {**dict.fromkeys("xh", FLOATS), "y": TensorType((-2,), "float32")}
    },
    "graph f: input 'x' is int8, but types says float32[2]": {"inputs": {"x": TensorType((), "int8")}},
    "graph f: x is both an input and a constant": {"constants": {"x": np.ones(2, np.float32)}},
    "graph f: state 'h' takes 'y'; a state is an input that takes an output": {"states": {"h": State("y")}},
    "graph f: state 'x' takes 'h'; a state is an input that takes an output": {"states": {"x": State("h")}},
    "graph f: state 'x' is float32[2], and takes 'y', which is float32[3]": {
        "types": {**dict.fromkeys("xh", FLOATS), "y": TensorType((3,), "float32")},
        "states": {"x": State("y")},
    },
    "graph : the name '' is empty, or has characters that cannot be printed": {"name": ""},
}


@pytest.mark.parametrize("message", FAULTS)
def test_the_verifier_finds_each_fault(message):
    verify(chain())
    with pytest.raises(GraphError, match=f"^{re.escape(message)}$"):
        verify(chain(**FAULTS[message]))


def test_a_name_that_is_taken_gets_the_least_number_that_is_free():
    taken = TakenNames(["b", "c", "c_1", "c_3"])
    assert [taken.take("a") for _ in range(3)] == ["a", "a_1", "a_2"]
    assert [taken.take("c") for _ in range(3)] == ["c_2", "c_4", "c_5"]
    assert taken.free("d") == "d" == taken.free("d")
    assert not taken.is_taken("d")


def test_free_names_are_generated_in_linear_time():
    class Counting(TakenNames):
        asked = 0

        def is_taken(self, name: str) -> bool:
            self.asked += 1
            return super().is_taken(name)

    taken, count = Counting(), 1000
    assert [taken.take("one") for _ in range(count)][-1] == f"one_{count - 1}"
    assert taken.asked <= 4 * count


WIDE = np.arange(24, dtype=np.int16).reshape(3, 8)
GIVEN_BY_HASH = (
    f'def net(x: int8[2]):\n    w: int16[3, 8] = constant(sha256="{digest(WIDE)}")\n    return x\n'
)


def test_a_constant_may_be_given_by_its_hash_in_another_shape_and_type():
    graph = parse_graph(GIVEN_BY_HASH, {digest(WIDE): WIDE.reshape(-1).view(np.int8)})
    assert np.array_equal(graph.constants["w"], WIDE)
    assert graph.constants["w"].dtype == np.int16


@pytest.mark.parametrize("given", [WIDE + 1, WIDE[:1]])
def test_an_array_under_the_wrong_hash_is_refused(given):
    with pytest.raises(
        GraphError, match=r"line 2: the array given for w, int16\[\d, 8\], is not the array whose"
    ):
        parse_graph(GIVEN_BY_HASH, {digest(WIDE): given})


STATEFUL = """\
@state("x.1", "y", 0.1, -3)
@state("z", "w", 1.0, 0)
def net(xꞏ2eꞏ1: int8[2], z: float32[1]):
    y: int8[2] = Identity(xꞏ2eꞏ1)
    w: float32[1] = Neg(z)
    return y, w
"""


def test_states_are_printed_and_parsed_and_serialised():
    graph = parse_graph(STATEFUL)
    assert graph.states == {"x.1": State("y", 0.1, -3), "z": State("w")}
    assert print_graph(graph) == STATEFUL
    assert graph_from_bytes(graph_to_bytes(graph)) == graph
    assert replace(graph, states={}) != graph


@pytest.mark.parametrize(
    ("decorator", "problem"),
    [
        ("state", 'a state is written @state("input", "output", scale, zero)'),
        ('state("x")', 'a state is written @state("input", "output", scale, zero)'),
        ('state("x", "y", 1.0, 200)', "this is no state: Expected `int` <= 127 - at `$.zero`"),
    ],
)
def test_a_decorator_that_is_no_state_is_refused(decorator, problem):
    with pytest.raises(GraphError, match=rf"^line 1: {re.escape(problem)}\n@{re.escape(decorator)}\n \^$"):
        parse_graph(f"@{decorator}\ndef net(x: int8[2]):\n    return x\n")
