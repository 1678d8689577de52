"""Partition: every node once, in an order that works, in as few parts as can be."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from tests.compiler.network.graphs import HANDMADE, Net, random_graph
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.network.partition import Part, parts, place
from vdla.compiler.network.placed import Offloaded, OnHost, View
from vdla.compiler.network.views import viewed
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.runtime.layout import Layout

WIDE = TINY.with_changes(block_in=8)
WIDE_ROWS = WIDE.with_changes(batch=2)  # whose blocks cannot be parted
GRAPHS = {
    **{title: lambda make=make: make(Net()) for title, make in HANDMADE.items()},
    **{f"random {seed}": lambda seed=seed: random_graph(seed) for seed in range(6)},
}


def parted(graph: Graph, config=TINY) -> list[Part]:
    return parts(place(graph, Target(config)))


@pytest.mark.parametrize("config", [TINY, WIDE, WIDE_ROWS], ids=["tiny", "wide in", "wide rows"])
@pytest.mark.parametrize("title", GRAPHS)
def test_every_node_stands_once_behind_what_it_needs_in_parts_of_one_place(title, config):
    graph = GRAPHS[title]()
    parts = parted(graph, config)
    known = {*graph.inputs, *graph.constants, ""}
    for placement in (placement for part in parts for placement in part):
        assert known.issuperset(placement.node.inputs)
        known.update(placement.node.outputs)
    computed = [placement.node.outputs for part in parts for placement in part]
    inner = [
        (name,)
        for part in parts
        for placement in part
        if isinstance(placement, Offloaded)
        for name in placement.inner
    ]
    assert sorted([*computed, *inner]) == sorted(node.outputs for node in graph.nodes)
    kinds = [{isinstance(placement, OnHost) for placement in part} for part in parts]
    assert all(len(kind) == 1 for kind in kinds)
    apart = config is WIDE_ROWS or title == "rows of images"  # read in another way than they were made
    # Neighbours of the same kind would be one part.
    assert apart or all(kind != next_kind for kind, next_kind in pairwise(kinds))


@pytest.mark.parametrize(("config", "block"), [(WIDE, 8), (WIDE_ROWS, 4)], ids=["wide in", "wide rows"])
@pytest.mark.parametrize("title", GRAPHS)
def test_a_launch_reads_in_one_block_size_what_it_makes(title, config, block):
    for part in parted(GRAPHS[title](), config):
        results = {name for placement in part for name in placement.node.outputs}
        for placement in part:
            if isinstance(placement, Offloaded):
                assert all(
                    layout.block == block for name, layout in placement.inputs.values() if name in results
                )
            elif isinstance(placement, View):
                assert placement.node.inputs[0] in results


def chain(net: Net) -> Graph:
    return net.graph(net.requantise(net.add(x := net.requantise(net.input(2, 3)), x)))


def two_chains(net: Net) -> Graph:
    """Interleaved in the graph: what the host does for a chain must not break up the other chain."""
    a, b = net.requantise(net.input(2, 3)), net.transpose(net.input(2, 3))
    a, b = net.requantise(a), net.transpose(b)
    return net.graph(net.requantise(a), net.transpose(b))


def host_and_back(net: Net) -> Graph:
    return net.graph(net.requantise(net.transpose(net.requantise(net.input(2, 3)))))


def late_for_a_launch(net: Net) -> Graph:
    a = net.requantise(net.input(2, 2))
    return net.graph(net.add(a, net.transpose(net.input(2, 2))))


def view_between(net: Net) -> Graph:
    return net.graph(net.matmul(net.reshape(net.conv(net.input(1, 4, 2, 2), 8, (2, 2)), 1, 8), 3))


def reshape_that_moves(net: Net) -> Graph:
    return net.graph(net.matmul(net.reshape(net.requantise(net.input(1, 4, 2, 2)), 1, 16), 3))


def view_of_the_host(net: Net) -> Graph:
    return net.graph(net.matmul(net.reshape(net.transpose(net.input(8, 1)), 1, 1, 8), 3))


# Parts from the first on: H on the host, A on the accelerator, and the number of operators.
EXPECTED: dict[Callable[[Net], Graph], list[str]] = {
    chain: ["A3"],
    two_chains: ["H3", "A3"],
    host_and_back: ["A1", "H1", "A1"],
    late_for_a_launch: ["H1", "A2"],
    view_between: ["A3"],
    reshape_that_moves: ["A1", "H1", "A1"],
    view_of_the_host: ["H2", "A1"],
}


@pytest.mark.parametrize("make", EXPECTED)
def test_there_are_as_few_parts_as_can_be(make):
    assert [
        f"{'H' if isinstance(part[0], OnHost) else 'A'}{len(part)}" for part in parted(make(Net()))
    ] == EXPECTED[make]


def test_what_cannot_be_read_as_it_stands_goes_through_the_host():
    net = Net()
    graph = net.graph(net.matmul(net.matmul(net.input(2, 3), 5), 4))
    assert len(parted(graph)) == len(parted(graph, WIDE)) == 1
    assert len(parted(graph, WIDE_ROWS)) == 2  # made in blocks of 4, read in blocks of 8


# Before, after, and into how many matrices a view divides a matrix or an image; None where bytes move.
RESHAPED = [
    ((1, 8, 1, 1), (1, 8), 0),
    ((1, 8), (8,), 0),
    ((8,), (1, 1, 8), 0),
    ((8,), (1, 8, 1, 1), 0),
    ((1, 8, 1, 1), (1, 1, 1, 8), 1),
    ((1, 1, 1, 1), (1,), 0),
    ((2, 8), (1, 16), None),
    ((2, 8, 1, 1), (2, 8), None),
    ((2, 8), (2, 8, 1, 1), None),
    ((1, 4, 2, 1), (1, 8), None),
    ((2, 8), (2, 8), 0),
    ((3, 4, 8), (12, 8), 0),
    ((12, 8), (1, 3, 4, 8), 1),
    ((3, 4, 8), (4, 3, 8), 0),
    ((3, 4, 8), (6, 16), None),
    ((), (1,), None),
    ((1, 8), (8, 1), None),
    ((1, 8, 1, 1), (1, 4, 2, 1), None),
    ((2, 6, 3, 4), (2, 6, 12, 1), 0),
    ((2, 6, 3, 4), (2, 6, 1, 12), 0),
    ((2, 6, 3, 4), (1, 12, 3, 4), None),
]


@pytest.mark.parametrize(("before", "after", "stack"), RESHAPED)
def test_shapes_that_stand_alike(before, after, stack):
    reshape = Node("Reshape", ("x",), ("y",), {"shape": after})
    view = viewed(Layout(before, 4, 1), reshape, after)
    assert view == (None if stack is None else Layout(after, 4, 1, stack=stack))
    if view is not None and before:
        values = np.arange(view.size * 2)[: int(np.prod(before))].reshape(before)
        packed = Layout(before, 4, 1).pack(values).reshape(-1)
        assert np.array_equal(packed, view.pack(values.reshape(after)).reshape(-1))


@pytest.mark.parametrize("images", [1, 3])
def test_channels_come_first_or_last_where_they_stand(images):
    first, last = (images, 6, 2, 3), (images, 2, 3, 6)
    to_last, to_first = (
        Node("Transpose", ("x",), ("y",), {"perm": perm}) for perm in ((0, 2, 3, 1), (0, 3, 1, 2))
    )
    image, rows = Layout(first, 4, 1), Layout(last, 4, 1, stack=images)
    assert viewed(image, to_last, last) == rows
    assert viewed(rows, to_first, first) == image
    values = np.arange(images * 36).reshape(first)
    assert np.array_equal(image.pack(values).reshape(-1), rows.pack(values.transpose(0, 2, 3, 1)).reshape(-1))
    assert viewed(image, to_first, (images, 3, 6, 2)) is None
    assert viewed(rows, to_last, last) is None
    assert viewed(Layout(first, 4, 2), to_last, last) is None
    other = Node("Transpose", ("x",), ("y",), {"perm": (0, 1, 3, 2)})
    assert viewed(image, other, (images, 6, 3, 2)) is None


def test_several_rows_at_once_make_no_image():
    reshape = Node("Reshape", ("x",), ("y",), {"shape": (1, 3, 4, 8)})
    assert viewed(Layout((12, 8), 4, 2), reshape, (1, 3, 4, 8)) is None
    assert viewed(Layout((6, 2, 8), 4, 1, stack=6), reshape, (1, 3, 4, 8)) == Layout(
        (1, 3, 4, 8), 4, 1, stack=6
    )


def test_an_input_is_packed_for_one_operator_only():
    def packed(title: str) -> list[bool]:
        layouts = [
            placement.inputs["X"][1]
            for placement in place(HANDMADE[title](Net()), Target(TINY))
            if isinstance(placement, Offloaded) and "X" in placement.inputs
        ]
        return [layout.windows is not None for layout in layouts]

    assert packed("strided and read twice") == [False, False]
    assert packed("residual") == [True, False, False, False, False]
    assert packed("gathered") == [True, True, True]


def test_a_requantisation_stands_before_its_reader_or_an_operator_of_the_host():
    net = Net()
    x = net.input(1, 16, 6, 6)
    early, first = net.requantise(x), net.conv(x, 16)
    graph = net.graph(net.add(early, net.conv(first, 16)))

    def order(**arguments):
        return [each.node.op for each in place(graph, Target(TINY), **arguments)]

    assert order() == ["Int8Conv", "Int8Conv", "Int8Requantise", "Int8Add"]
    assert order(on_host={first: "asked for"}) == ["Int8Requantise", "Int8Conv", "Int8Conv", "Int8Add"]
