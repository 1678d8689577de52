"""Graphs as bytes read back equal."""

import pytest

from tests.compiler.network.graphs import HANDMADE, Net, random_graph
from vdla.compiler.graph.keep import graph_from_bytes, graph_to_bytes


@pytest.mark.parametrize("title", HANDMADE)
def test_a_graph_reads_back_equal(title):
    graph = HANDMADE[title](Net())
    found = graph_from_bytes(graph_to_bytes(graph))
    assert found == graph
    assert list(found.constants) == list(graph.constants)


@pytest.mark.parametrize("seed", range(5))
def test_a_random_graph_reads_back_equal_and_its_constants_cannot_be_written_to(seed):
    graph = random_graph(seed)
    found = graph_from_bytes(graph_to_bytes(graph))
    assert found == graph
    assert not any(array.flags.writeable for array in found.constants.values())
