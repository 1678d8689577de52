"""The terms of an element, evaluated on numbers, give the value of the interpreter."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from tests.compiler.lower.test_activation_products import Heads, attention, looked_up
from tests.compiler.network.compiled import handmade
from tests.compiler.network.graphs import HANDMADE, random_graph, random_inputs
from vdla.compiler.graph.interpret import run_node
from vdla.compiler.graph.nodes import Graph
from vdla.prove.graph_terms import FORMS, GraphElement, GraphTerm, element_of
from vdla.runtime.requantise import requantise

EACH = 4
GRAPHS = {
    **{title: lambda title=title: handmade(title)[0] for title in HANDMADE},
    **{f"random {seed}": lambda seed=seed: random_graph(seed) for seed in range(10)},
}


def values_of(graph: Graph) -> dict[str, np.ndarray]:
    """Return every value of a graph for random inputs."""
    values = {**graph.constants, **random_inputs(graph, 1)}
    for node in graph.nodes:
        values |= run_node(node, values, graph.types)
    return values


def term_of(term: GraphTerm, values: dict[str, np.ndarray]) -> int:
    """Return the value of a term."""
    read = [(int(values[each.value][each.index]), each.function) for each in term.reads]
    return term.factor * prod(
        value if function is None else int(function[value + 128]) for value, function in read
    )


def number_of(element: GraphElement, values: dict[str, np.ndarray]) -> int:
    """Return the value of an element of its terms."""
    if element.members is not None:
        numbers = [number_of(replace(member, table=None), values) for member in element.members]
        total = max(numbers, default=-128)
    else:
        assert element.terms is not None
        total = sum(term_of(term, values) for term in element.terms)
        if element.parameters is not None:
            total = int(requantise(np.array([total]), element.parameters[:, None])[0])
    return total if element.table is None else int(element.table[total + 128])


@pytest.mark.parametrize("title", GRAPHS)
def test_terms_give_the_values_of_the_interpreter(title):
    graph = GRAPHS[title]()
    values, rng = values_of(graph), np.random.default_rng(2)
    checked = 0
    for node in graph.nodes:
        if node.op not in (*FORMS, "Int8MaxPool") or graph.types[node.result].dtype != "int8":
            continue
        expected = values[node.result]
        for place in rng.integers(0, expected.size, EACH).tolist():
            index = tuple(int(each) for each in np.unravel_index(place, expected.shape))
            element = element_of(graph, node.result, index, set(values) - {node.result})
            assert number_of(element, values) == int(expected[index]), (node, index)
            checked += 1
    assert checked or title in ("only the host", "nothing")


def test_moves_are_followed_to_the_value_that_is_in_dram():
    graph = handmade("views")[0]
    inputs = set(graph.inputs)
    moves = [node for node in graph.nodes if node.op in ("Reshape", "Transpose", "Slice", "Concat")]
    assert moves
    values = values_of(graph)
    for node in moves:
        index = tuple(extent - 1 for extent in graph.types[node.result].shape)
        element = element_of(graph, node.result, index, set(values) - {node.result} | inputs)
        ((read,),) = (term.reads for term in element.terms)
        assert values[read.value][read.index] == values[node.result][index]


@pytest.mark.parametrize(
    "more", [{}, {"zeros": (-128, 3)}, {"tables": True}], ids=["plain", "zeros", "tables"]
)
def test_products_of_activations_have_terms(more):
    graph = looked_up(Heads()) if "tables" in more else attention(Heads(), **more)
    values = values_of(graph)
    for node in (node for node in graph.nodes if node.op == "Int8Products"):
        shape = graph.types[node.result].shape
        for place in range(0, int(np.prod(shape)), 17):
            index = tuple(int(each) for each in np.unravel_index(place, shape))
            element = element_of(graph, node.result, index, set(values) - {node.result})
            assert all(len(term.reads) == 2 for term in element.terms)
            assert number_of(element, values) == int(values[node.result][index])
