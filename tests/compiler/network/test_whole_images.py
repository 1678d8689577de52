"""Transposed convolutions that read an image itself instead of its parts."""

import numpy as np
import pytest

from tests.compiler.graph.passes.qdq import QdqBuilder
from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net, random_inputs
from tests.compiler.network.test_networks import check, transposed
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.pipeline import INTEGERS
from vdla.compiler.network.phases import phases_as_channels
from vdla.compiler.network.whole_images import of_whole_images
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.target import Target
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice

TARGET = Target(DEFAULT)
TWO: dict[str, tuple[int, int]] = {"strides": (2, 2)}


def quantised(channels: int) -> Graph:
    of = QdqBuilder(3, "uint8")
    return INTEGERS.run(of.finish(of.pair(transposed(of, channels))))


def same(graph: Graph, made: Graph) -> None:
    for seed in range(3):
        feeds = random_inputs(graph, seed)
        found, wanted = interpret(made, feeds), interpret(graph, feeds)
        for name, values in wanted.items():
            np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("channels", [5, 32])
def test_it_reads_one_image_and_makes_the_same(channels):
    graph = quantised(channels)
    plain, names = of_whole_images(graph)
    (before,), (after,) = (
        [node for node in each.nodes if node.op == "Int8ConvTranspose"] for each in (graph, plain)
    )
    assert set(after.outputs) == names == set(before.outputs)
    assert graph.types[before.inputs[0]].shape[1] > channels == plain.types[after.inputs[0]].shape[1]
    assert len(plain.nodes) < len(graph.nodes)  # nothing makes the parts
    made = phases_as_channels(graph, TARGET)
    assert not {"Int8ConvTranspose", "Concat", "Int8Requantise"} & {node.op for node in made.nodes}
    same(graph, made)
    plan = plan_of(graph, DEFAULT)
    check(graph, plan, FunctionalDevice(DEFAULT, plan.dram_bytes, 0))
    check(graph, plan, CycleDevice(DEFAULT, plan.dram_bytes))


def test_named_ones_stay():
    graph = quantised(5)
    _, names = of_whole_images(graph)
    assert of_whole_images(graph, names) == (graph, frozenset())


def ones(net: Net, channels: int, factor: int = 1) -> str:
    """Return twice the same image, which together are none less a number."""
    x = net.input(1, channels, 3, 4)
    weights = net.constant(factor * np.tile(np.eye(channels, dtype=np.int8), (2, 1))[..., None, None])
    how = {"border": 0, "dilations": (1, 1), "group": 1, "pads": (0, 0, 0, 0), "strides": (1, 1)}
    return net.op("Int8Conv", (x, weights, net.words(2 * channels, 100.0)), **how)


def test_images_that_sum_up_to_others_stay():
    net = Net()
    graph = net.graph(net.spread(ones(net, 4), 3, (2, 2), **TWO))
    assert of_whole_images(graph) == (graph, frozenset())
    net = Net()
    graph = net.graph(net.spread(ones(net, 4, 2), 3, (2, 2), **TWO))
    assert of_whole_images(graph) == (graph, frozenset())


def test_other_weights_of_the_parts_stay():
    graph = quantised(5)
    (node,) = (node for node in graph.nodes if node.op == "Int8ConvTranspose")
    graph.constants[node.inputs[1]][0, 0, 0, 0] ^= 1
    assert of_whole_images(graph) == (graph, frozenset())


def test_what_needs_pixels_keeps_the_parts():
    of = QdqBuilder(3, "uint8")
    x = of.pair(transposed(of, 5))
    more = {"dilations": (1, 1), "group": 1, "pads": (1, 1, 1, 1), "strides": (1, 1)}
    graph = INTEGERS.run(of.finish(of.pair(of.add("Conv", x, of.weights(4, 6, 3, 3, axis=0), **more))))
    assert of_whole_images(graph)[1]
    assert phases_as_channels(graph, TARGET) is graph


def test_one_of_two_keeps_its_parts():
    of = QdqBuilder(3, "uint8")
    first = of.pair(transposed(of, 5))
    more = {"dilations": (1, 1), "group": 1, "pads": (1, 1, 1, 1), "strides": (1, 1)}
    y = of.pair(of.add("Conv", first, of.weights(5, 6, 3, 3, axis=0), **more), zero=0)
    how = {"dilations": (1, 1), "group": 1, "output_padding": (0, 0), "pads": (0, 0, 0, 0)}
    last = of.add("ConvTranspose", y, of.weights(5, 2, 2, 2, axis=1), strides=(2, 2), **how)
    graph = INTEGERS.run(of.finish(of.pair(last)))
    assert len(of_whole_images(graph)[1]) == 2
    made = phases_as_channels(graph, TARGET)
    assert [node.op for node in made.nodes].count("Int8ConvTranspose") == 1
    assert [node.op for node in made.nodes].count("DepthToSpace") == 1
    same(graph, made)
