"""Serialised graphs are read back equal."""

import numpy as np
import pytest

from tests.compiler.network.graphs import HANDMADE, Net, random_graph
from vdla.compiler.graph.nodes import Graph, type_of
from vdla.compiler.graph.serialise import graph_from_bytes, graph_to_bytes

ALIGNMENT = 64


@pytest.mark.parametrize("title", HANDMADE)
def test_a_graph_reads_back_equal(title):
    graph = HANDMADE[title](Net())
    restored = graph_from_bytes(graph_to_bytes(graph))
    assert restored == graph
    assert list(restored.constants) == list(graph.constants)


@pytest.mark.parametrize("seed", range(5))
def test_a_random_graph_reads_back_equal_and_its_constants_cannot_be_written_to(seed):
    graph = random_graph(seed)
    restored = graph_from_bytes(graph_to_bytes(graph))
    assert restored == graph
    assert not any(array.flags.writeable for array in restored.constants.values())


@pytest.mark.parametrize("length", range(1, ALIGNMENT + 1))
def test_arrays_are_aligned_for_any_length_of_the_header(length):
    """Also behind arrays of any number of bytes."""
    first, second = np.arange(length, dtype=np.int8), np.arange(3, dtype=np.float32)
    constants = {"c": first, "d": second}
    types = {name: type_of(array) for name, array in constants.items()}
    graph = Graph("g" * length, {}, (), (), constants, types)
    data = graph_to_bytes(graph)
    assert graph_from_bytes(data) == graph
    assert len(data) % ALIGNMENT == 0
    text = data.index(b"\n") + 1
    places = [-(-text // ALIGNMENT) * ALIGNMENT, len(data) - ALIGNMENT * -(-second.nbytes // ALIGNMENT)]
    for place, array in zip(places, constants.values(), strict=True):
        assert data[place : place + array.nbytes] == array.tobytes()
