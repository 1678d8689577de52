"""Where channels come from, and which moves of them are of whole blocks."""

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.network.graphs import Net, random_inputs, resized
from tests.compiler.network.shuffles import PIXELS, at_random, depthwise, halves, part, shuffled, table
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.rewrite import rebuilt
from vdla.compiler.network.channels import Channels, is_depthwise, is_product, keeps_places


def image(net: Net, channels: int) -> str:
    return net.conv(net.input(1, 3, *PIXELS), channels)


def test_numbers_follow_channels():
    net = Net()
    a, b = image(net, 4), image(net, 2)  # behind six channels of two inputs
    joined = net.join(a, b)
    mixed = shuffled(net, joined, 3)
    numbering = Channels(net.graph(part(net, mixed, 4, 0, -2), *halves(net, mixed, 1, 5)), 4)
    assert numbering.numbers[joined].tolist() == [6, 7, 8, 9, 10, 11]
    assert numbering.numbers[mixed].tolist() == [6, 8, 10, 7, 9, 11]
    assert [numbering.numbers[name].tolist() for name in numbering.graph.outputs] == [
        [9, 10],
        [6],
        [8, 10, 7, 9, 11],
    ]
    assert [source.name for source in map(numbering.source_of, (0, 3, 6, 9, 11))] == ["x0", "x1", a, a, b]
    assert numbering.moved == set(numbering.numbers) - {"x0", "x1", a, b}


@pytest.mark.parametrize("seed", range(20))
def test_a_value_holds_the_channels_of_its_numbers(seed):
    graph = at_random(seed)
    numbering = Channels(graph, 4)
    every = Graph(
        graph.name, graph.inputs, tuple(numbering.numbers), graph.nodes, graph.constants, graph.types
    )
    values = interpret(every, random_inputs(graph, seed))
    channels = np.concatenate([values[source.name][0] for source in numbering.sources])
    for name, numbers in numbering.numbers.items():
        np.testing.assert_array_equal(values[name][0], channels[numbers])


MOVES = {
    "joined blocks": (lambda net, x: net.join(x, x), False),
    "joined, the last in part": (lambda net, x: net.join(x, image(net, 3)), False),
    "joined behind a part": (lambda net, x: net.join(image(net, 3), x), True),
    "halves of whole blocks": (lambda net, x: halves(net, x, 4, 8)[1], False),
    "other halves": (lambda net, x: halves(net, x, 6, 6)[1], True),
    "a cut between blocks": (lambda net, x: part(net, x, 4, 99), False),
    "a cut from the end": (lambda net, x: part(net, x, -8, -4), False),
    "a cut within a block": (lambda net, x: part(net, x, 4, 10), True),
    "every second channel": (lambda net, x: part(net, x, 0, 12, 2), True),
    "a shuffle": (lambda net, x: shuffled(net, x, 2), True),
    "what is made of a shuffle": (lambda net, x: part(net, shuffled(net, x, 2), 4, 8), True),
    "what is computed of a shuffle": (lambda net, x: net.requantise(shuffled(net, x, 2)), False),
}


@pytest.mark.parametrize("title", MOVES)
def test_moves_of_whole_blocks(title):
    make, scattered = MOVES[title]
    net = Net()
    name = make(net, image(net, 12))
    assert (name in Channels(net.graph(name), 4).scattered) is scattered


@pytest.mark.parametrize(
    "make",
    [
        lambda net: net.op("Transpose", (net.input(1, 4, 3, 3),), perm=(0, 2, 1, 3)),
        lambda net: net.reshape(net.input(1, 4, 3, 2), 1, 4, 2, 3),
        lambda net: net.join(x := net.input(1, 4, 3, 3), x, axis=0),
        lambda net: net.join(x := net.input(1, 4, 3, 3), x, axis=2),
        lambda net: net.join(x := net.input(1, 4, 3, 3), x, axis=-1),
        lambda net: net.op("Split", (net.input(1, 4, 3, 3),), 2, axis=3, split=(1, 2)),
        lambda net: net.op("Slice", (net.input(1, 4, 3, 3),), axes=(0,), starts=(0,), ends=(1,), steps=(1,)),
        lambda net: net.op(
            "Slice", (net.input(1, 4, 3, 3),), axes=(1, 2), starts=(0, 0), ends=(2, 2), steps=(1, 1)
        ),
        lambda net: net.op("Transpose", (net.input(1, 4, 3, 3),), perm=(1, 0, 2, 3)),
        lambda net: net.op("Transpose", (net.input(1, 4, 3, 3),), perm=(0, 1, 3, 2)),
        lambda net: net.reshape(net.input(1, 4, 3, 2), 2, 2, 3, 2),
        lambda net: net.reshape(net.input(1, 4, 1, 2), 4, 1, 2),
        lambda net: net.pool(net.input(1, 4, 3, 3)),
        lambda net: net.join(x := net.input(1, 4, 3, 3, dtype="int32"), x),
        lambda net: net.op("Slice", (net.input(1, 4, 3, 3),), axes=(3,), starts=(0,), ends=(2,), steps=(1,)),
        lambda net: net.join(x := net.input(2, 4, 3, 3), x),
        lambda net: net.join(x := net.input(1, 4), x),
    ],
)
def test_other_moves_are_none_of_channels(make):
    net = Net()
    assert not Channels(net.graph(make(net)), 4).moved


def test_values_in_several_dimensions_of_channels_are_not_whole():
    net = Net()
    x = net.input(1, 6, *PIXELS)
    parts = net.reshape(x, 1, 2, 3, *PIXELS)
    turned = net.op("Transpose", (parts,), perm=(0, 2, 1, 3, 4))
    row = net.op("Slice", (turned,), axes=(-4,), starts=(1,), ends=(3,), steps=(1,))
    doubled = net.join(row, row, axis=2)
    numbering = Channels(net.graph(doubled), 4)
    assert numbering.numbers[turned].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert numbering.numbers[row].tolist() == [[1, 4], [2, 5]]
    assert numbering.numbers[doubled].tolist() == [[1, 4, 1, 4], [2, 5, 2, 5]]
    assert [numbering.is_whole(name) for name in (x, parts, turned, "other")] == [True, False, False, False]
    assert numbering.scattered == {parts, turned, row, doubled}


def test_a_part_that_is_not_read_counts_as_one_of_a_split():
    net = Net()
    x = image(net, 12)
    first, second, _ = halves(net, x, 4, 3, 5)
    graph = net.graph(first, second)
    split = graph.nodes[-1]
    trimmed = rebuilt(graph, (*graph.nodes[:-1], replace(split, outputs=split.outputs[:2])))
    assert Channels(trimmed, 4).scattered == {first, second}


def test_kinds_of_operators():
    net = Net()
    x = net.input(1, 4, *PIXELS)
    results = {
        "product": net.conv(x, 4),
        "groups": net.conv(x, 8, group=4),
        "depthwise": depthwise(net, x),
        "pool": net.pool(x),
        "average": net.average(x, (2, 2)),
        "factors": net.scale(x, 1),
        "factors of columns": net.scale(x, -1),
        "table": table(net, x),
        "requantised": net.requantise(x),
        "repeated": resized(net, x, (2, 2)),
        "sum": net.add(x, x),
    }
    graph = net.graph(*results.values())
    nodes = {node.outputs[0]: node for node in graph.nodes}
    kinds = {title: nodes[name] for title, name in results.items()}
    assert [title for title, node in kinds.items() if is_product(graph, node)] == ["product", "groups"]
    assert [title for title, node in kinds.items() if is_depthwise(graph, node)] == ["depthwise"]
    kept = [title for title, node in kinds.items() if keeps_places(graph, node)]
    assert kept == ["depthwise", "pool", "average", "factors", "table", "requantised", "repeated"]
