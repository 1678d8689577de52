"""Products that change all elements alike: which they are, and what they make of each."""

import numpy as np
import pytest

from vdla.compiler.graph.by_element import changed, changes_alike, table_of
from vdla.compiler.graph.interpret import run_node
from vdla.compiler.graph.nodes import Graph, Node, TensorType, type_of

WORDS = np.array([[5], [20000], [5150], [32640]])
CONV = {"border": 0, "dilations": (1, 1), "group": 3, "pads": (0, 0, 0, 0), "strides": (1, 1)}
ROWS, IMAGE = (4, 3), (1, 3, 2, 2)


def graph_of(op: str, shape: tuple[int, ...], weights: np.ndarray, words: np.ndarray, **attributes) -> Graph:
    node = Node(op, ("x", "w", "p"), ("y",), attributes)
    x, constants = TensorType(shape, "int8"), {"w": weights.astype(np.int8), "p": words}
    types = {"x": x, "y": x, **{name: type_of(array) for name, array in constants.items()}}
    return Graph("g", {"x": x}, ("y",), (node,), constants, types)


def other(column: int) -> np.ndarray:
    words = np.tile(WORDS, 3)
    words[0, column] += 1
    return words


ALIKE = {
    "a diagonal of one number": graph_of("Int8MatMul", ROWS, np.eye(3) * 127, np.tile(WORDS, 3)),
    "zeros": graph_of("Int8MatMul", ROWS, np.zeros((3, 3)), WORDS),
    "one number for all channels": graph_of(
        "Int8Conv", IMAGE, np.full((3, 1, 1, 1), -9), np.tile(WORDS, 3), **CONV
    ),
}
DIFFERENT = {
    "another factor": graph_of("Int8MatMul", ROWS, np.diag([1, 1, 2]), WORDS),
    "another factor in the middle": graph_of("Int8MatMul", ROWS, np.diag([1, 2, 1]), WORDS),
    "another bias": graph_of("Int8MatMul", ROWS, np.eye(3), other(1)),
    "a number beside the diagonal": graph_of("Int8MatMul", ROWS, np.eye(3) + np.eye(3, k=1), WORDS),
    "a kernel of two columns": graph_of("Int8Conv", IMAGE, np.ones((3, 1, 1, 2)), WORDS, **CONV),
    "a stride": graph_of("Int8Conv", IMAGE, np.ones((3, 1, 1, 1)), WORDS, **{**CONV, "strides": (1, 2)}),
    "a border": graph_of("Int8Conv", IMAGE, np.ones((3, 1, 1, 1)), WORDS, **{**CONV, "pads": (0, 0, 0, 1)}),
    "all channels": graph_of("Int8Conv", IMAGE, np.ones((3, 3, 1, 1)), WORDS, **{**CONV, "group": 1}),
    "another operator": graph_of("Int8Lookup", IMAGE, np.ones(256), WORDS),
}


@pytest.mark.parametrize("title", ALIKE)
def test_elements_change_alike(title):
    graph = ALIKE[title]
    (node,) = graph.nodes
    assert changes_alike(graph, node)
    x = np.random.default_rng(0).integers(-128, 128, graph.types["x"].shape, np.int8)
    made = run_node(node, {"x": x, **graph.constants}, graph.types)
    assert np.array_equal(changed(graph, node, x), made["y"])


TABLE = np.arange(256, dtype=np.int64)[::-1] - 128


def elementwise(op: str, constant: np.ndarray) -> Graph:
    """Return a graph of an operator that reads int8 elements and a constant."""
    node, x = Node(op, ("x", "c"), ("y",)), TensorType(ROWS, "int8")
    return Graph("g", {"x": x}, ("y",), (node,), {"c": constant}, {"x": x, "y": x, "c": type_of(constant)})


TABLES = {
    **ALIKE,
    "requantised alike": elementwise("Int8Requantise", WORDS),
    "looked up": elementwise("Int8Lookup", TABLE.astype(np.int8)),
}


@pytest.mark.parametrize("title", TABLES)
def test_what_changes_elements_alike_has_a_table(title):
    graph = TABLES[title]
    (node,) = graph.nodes
    shape = graph.types["x"].shape
    for low in range(-128, 128, int(np.prod(shape))):
        x = np.clip(np.arange(low, low + np.prod(shape)), -128, 127).astype(np.int8).reshape(shape)
        made = run_node(node, {"x": x, **graph.constants}, graph.types)["y"]
        np.testing.assert_array_equal(table_of(graph, node)[x.astype(int) + 128], made)


@pytest.mark.parametrize(
    "graph",
    [
        *DIFFERENT.values(),
        elementwise("Int8Requantise", np.tile(WORDS, 3)),
        elementwise("Int8Lookup", TABLE.astype(np.float32)),
        elementwise("Int8Lookup", TABLE.astype(np.uint8)),
        elementwise("Relu", TABLE.astype(np.int8)),
    ],
)
def test_other_operators_have_no_table(graph):
    (node,) = graph.nodes
    if node.op != "Int8Lookup" or len(node.inputs) == 2:
        assert table_of(graph, node) is None


@pytest.mark.parametrize("title", DIFFERENT)
def test_elements_change_by_their_places(title):
    graph = DIFFERENT[title]
    assert not changes_alike(graph, graph.nodes[0])
