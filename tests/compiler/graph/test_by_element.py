"""Operators that change all elements alike: which they are, and their tables."""

import numpy as np
import pytest

from vdla.compiler.graph.by_element import table_of
from vdla.compiler.graph.interpret import run_node
from vdla.compiler.graph.nodes import Graph, Node, TensorType, type_of

WORDS = np.array([[5], [20000], [5150], [32640]])
ROWS, IMAGE = (4, 3), (1, 3, 2, 2)
TABLE = np.random.default_rng(1).integers(-128, 128, 256, np.int8)


def graph_of(op: str, shape: tuple[int, ...], *arrays: np.ndarray, **attributes: int) -> Graph:
    constants = {f"c{number}": array for number, array in enumerate(arrays)}
    node = Node(op, ("x", *constants), ("y",), attributes)
    x = TensorType(shape, "int8")
    types = {"x": x, "y": x, **{name: type_of(array) for name, array in constants.items()}}
    return Graph("g", {"x": x}, ("y",), (node,), constants, types)


def factors(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int8)


def with_another_bias() -> np.ndarray:
    words = np.tile(WORDS, 3)
    words[0, 1] += 1
    return words


ALIKE = {
    "one factor for all columns": graph_of("Int8Scale", ROWS, factors(127), WORDS, axis=-1),
    "one factor for all channels": graph_of("Int8Scale", IMAGE, factors(-9), WORDS, axis=1),
    "a requantisation": graph_of("Int8Requantise", IMAGE, WORDS),
    "a table": graph_of("Int8Lookup", ROWS, TABLE),
}
DIFFERENT = {
    "a factor for each channel": graph_of("Int8Scale", IMAGE, factors(1, 1, 2), WORDS, axis=1),
    "a bias for each column": graph_of("Int8Scale", ROWS, factors(1), with_another_bias(), axis=-1),
    "a bias for each channel": graph_of("Int8Requantise", ROWS, with_another_bias()),
    "a table of int16": graph_of("Int8Lookup", ROWS, TABLE.astype(np.int16)),
    "a table of uint8": graph_of("Int8Lookup", ROWS, TABLE.astype(np.uint8)),
    "a tensor without dimensions": graph_of("Int8Requantise", (), WORDS),
    "another factor in the middle": graph_of("Int8Scale", ROWS, factors(1, 2, 1), WORDS, axis=-1),
    "an operator on windows": graph_of("Int8AveragePool", IMAGE, WORDS),
}


@pytest.mark.parametrize("title", ALIKE)
def test_a_table_has_the_result_of_every_value(title):
    graph = ALIKE[title]
    (node,) = graph.nodes
    table = table_of(graph, node)
    assert table is not None
    x = np.random.default_rng(0).integers(-128, 128, graph.types["x"].shape, np.int8)
    result = run_node(node, {"x": x, **graph.constants}, graph.types)
    assert np.array_equal(table[x.astype(np.int16) + 128], result["y"])


@pytest.mark.parametrize("title", DIFFERENT)
def test_other_operators_have_no_table(title):
    graph = DIFFERENT[title]
    assert table_of(graph, graph.nodes[0]) is None
