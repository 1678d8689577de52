"""Partition: every node once, in an order that works, in as few parts as can be."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.compiler.network.graphs import HANDMADE, Net, random_graph
from vdla.compiler.graph.nodes import Graph, TensorType
from vdla.compiler.network.maker import Offloaded, OnHost, View
from vdla.compiler.network.partition import Part, parts, place
from vdla.compiler.network.views import same_bytes
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target

WIDE = TINY.with_changes(block_in=8)
GRAPHS = {
    **{title: lambda make=make: make(Net()) for title, make in HANDMADE.items()},
    **{f"random {seed}": lambda seed=seed: random_graph(seed) for seed in range(6)},
}


def parted(graph: Graph, config=TINY) -> list[Part]:
    return parts(graph, place(graph, Target(config)), config)


@pytest.mark.parametrize("config", [TINY, WIDE], ids=["tiny", "wide in"])
@pytest.mark.parametrize("title", GRAPHS)
def test_every_node_stands_once_behind_what_it_needs_in_parts_of_one_place(title, config):
    graph = GRAPHS[title]()
    found = parted(graph, config)
    known = {*graph.inputs, *graph.constants, ""}
    for one in (one for part in found for one in part):
        assert known.issuperset(one.node.inputs)
        known.update(one.node.outputs)
    assert sorted(one.node.outputs for part in found for one in part) == sorted(
        node.outputs for node in graph.nodes
    )
    kinds = [{isinstance(one, OnHost) for one in part} for part in found]
    assert all(len(kind) == 1 for kind in kinds)
    assert (
        all(one != other for one, other in pairwise(kinds)) or config is WIDE
    )  # else they would be one part


@pytest.mark.parametrize("title", GRAPHS)
def test_a_launch_reads_in_one_block_size_what_it_makes(title):
    for part in parted(GRAPHS[title](), WIDE):
        made = {name for one in part for name in one.node.outputs}
        for one in part:
            if isinstance(one, Offloaded):
                assert all(
                    layout.block == WIDE.block_out for name, layout in one.inputs.values() if name in made
                )
            elif isinstance(one, View):
                assert one.node.inputs[0] in made


def chain(net: Net) -> Graph:
    return net.graph(net.requantise(net.add(x := net.requantise(net.input(2, 3)), x)))


def two_chains(net: Net) -> Graph:
    """Interleaved in the graph: what the host does for one must not break up the other."""
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
    assert len(parted(graph)) == 1
    assert len(parted(graph, WIDE)) == 2  # made in blocks of 4, read in blocks of 8


INT8 = [
    ((1, 8, 1, 1), (1, 8), True),
    ((1, 8), (8,), True),
    ((8,), (1, 1, 8), True),
    ((1, 8, 1, 1), (1, 1, 1, 8), False),
    ((1, 1, 1, 1), (1,), True),
    ((2, 8), (1, 16), False),
    ((2, 8, 1, 1), (2, 8), False),
    ((1, 4, 2, 1), (1, 8), False),
    ((2, 8), (2, 8), True),
    ((3, 4, 8), (12, 8), True),
    ((3, 4, 8), (4, 3, 8), True),
    ((3, 4, 8), (6, 16), False),
    ((), (1,), False),
    ((1, 8), (8, 1), False),
    ((2, 8, 1, 1), (1, 8, 2, 1), False),
]


@pytest.mark.parametrize(("one", "other", "same"), INT8)
def test_shapes_that_stand_alike(one, other, same):
    assert same_bytes(TensorType(one, "int8"), TensorType(other, "int8")) is same
    assert same_bytes(TensorType(other, "int8"), TensorType(one, "int8")) is same


def test_only_bytes_stand_alike():
    assert not same_bytes(TensorType((1, 8), "float32"), TensorType((8,), "float32"))


def test_pixels_are_gathered_for_one_operator_only():
    def strides(title: str) -> list[tuple[int, int] | None]:
        layouts = [
            one.inputs["X"][1]
            for one in place(HANDMADE[title](Net()), Target(TINY))
            if isinstance(one, Offloaded) and "X" in one.inputs
        ]
        return [layout.space_to_depth and layout.space_to_depth.stride for layout in layouts]

    assert strides("strided and read twice") == [None, None]
    assert strides("residual") == [(2, 2), None, None, None, None]
    assert strides("gathered") == [(2, 3), (3, 4), (2, 2)]
