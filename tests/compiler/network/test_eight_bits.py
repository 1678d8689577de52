"""Products of more than eight bits as products of int8: how they are expanded, and to the last bit."""

import numpy as np
import pytest

from tests.compiler.graph.passes.qdq import QdqBuilder
from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net, random_inputs
from tests.compiler.network.test_networks import check
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.pipeline import INTEGERS
from vdla.compiler.network.eight_bits import images_less, in_eight_bits
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.host.int8 import BYTES
from vdla.runtime.requantise import requantise

TARGET = Target(DEFAULT)
TWO: dict[str, tuple[int, int]] = {"strides": (2, 2)}


def expanded(graph: Graph, target: Target = TARGET) -> list[str]:
    """Return the operators of an expanded graph, which has the same results."""
    result = in_eight_bits(graph, target)
    feeds = random_inputs(graph, 0)
    after, before = interpret(result, feeds), interpret(graph, feeds)
    for name, values in before.items():
        np.testing.assert_array_equal(after[name], values)
    products = [node for node in result.nodes if node.op in ("Int8Conv", "Int8ConvTranspose", "Int8MatMul")]
    assert all(result.constants[node.inputs[1]].dtype == np.int8 for node in products)
    assert not any(node.attributes.get("zero") for node in products)
    return [node.op for node in result.nodes]


@pytest.mark.parametrize("zero", range(-128, 128, 5))
def test_an_int8_less_its_zero_point_is_the_sum_of_few_bytes(zero):
    parts = images_less(zero)
    assert len(parts) <= 3
    assert (
        sum(requantise(BYTES, part).astype(int) for part in parts).tolist()
        == (BYTES.astype(int) - zero).tolist()
    )


@pytest.mark.parametrize(
    ("shape", "kernel", "how", "rows"),
    [
        ((1, 4, 7, 6), (3, 2), {}, True),
        ((1, 4, 7, 6), (3, 2), {"dilations": (1, 2)}, True),
        ((1, 4, 7, 6), (3, 2), {"strides": (2, 1), "dilations": (1, 2)}, True),
        ((1, 4, 7, 6), (3, 2), {"dilations": (2, 1)}, False),
        ((1, 4, 7, 6), (1, 2), {"dilations": (2, 2)}, True),
        ((2, 4, 7, 6), (3, 2), {}, False),
    ],
)
def test_wide_depthwise_kernels_of_one_image_read_repeated_rows(shape, kernel, how, rows):
    net = Net()
    pads = {"pads": (1, 0, 2, 1), "border": 5}
    y = net.conv(net.input(*shape), 4, kernel, group=4, weights=net.wide(4, 1, *kernel), **pads, **how)
    assert expanded(net.graph(y)) == ["Resize" if rows else "Int8Conv", "Int8Conv"]


@pytest.mark.parametrize(("groups", "repeating"), [(1, "Concat"), (2, "Int8Conv")])
def test_wide_kernels_read_repeated_channels(groups, repeating):
    net = Net()
    y = net.conv(net.input(1, 8, 5, 5), 4, (3, 3), group=groups, weights=net.wide(4, 8 // groups, 3, 3))
    assert expanded(net.graph(y)) == [repeating, "Int8Conv"]


@pytest.mark.parametrize(("config", "joining"), [(DEFAULT, "Int8Conv"), (TINY, "Concat")])
def test_the_block_of_the_configuration_decides_how_channels_are_repeated(config, joining):
    net = Net()
    y = net.conv(net.conv(net.input(1, 3, 5, 5), 8), 4, weights=net.wide(4, 8, 1, 1))
    assert expanded(net.graph(y), Target(config)) == ["Int8Conv", joining, "Int8Conv"]


REPEATED = {
    "an image that comes in": (
        lambda net: net.conv(net.input(1, 3, 4, 4), 4, weights=net.wide(4, 3, 1, 1)),
        "Concat",
    ),
    "a matrix that comes in": (lambda net: net.matmul(net.input(3, 5), 4, net.wide(5, 4)), "Concat"),
    "a matrix that the host moves": (
        lambda net: net.matmul(net.transpose(net.input(5, 3)), 4, net.wide(5, 4)),
        "Concat",
    ),
    "whole blocks of columns": (
        lambda net: net.matmul(net.requantise(net.input(3, 32)), 4, net.wide(32, 4)),
        "Concat",
    ),
    "other columns": (
        lambda net: net.matmul(net.requantise(net.input(3, 5)), 4, net.wide(5, 4)),
        "Int8MatMul",
    ),
    "other channels": (
        lambda net: net.conv(net.requantise(net.input(1, 5, 4, 4)), 4, weights=net.wide(4, 5, 1, 1)),
        "Int8Conv",
    ),
    "groups of whole blocks": (
        lambda net: net.conv(net.input(1, 32, 4, 4), 4, group=2, weights=net.wide(4, 16, 1, 1)),
        "Int8Conv",
    ),
}


@pytest.mark.parametrize("title", REPEATED)
def test_channels_are_repeated_by_what_costs_least(title):
    make, op = REPEATED[title]
    net = Net()
    graph = in_eight_bits(net.graph(make(net)), TARGET)
    node = graph.nodes[-2]
    assert node.op == op
    if op != "Concat":
        weights = graph.constants[node.inputs[1]]
        matrix = weights[:, :, 0, 0] if op == "Int8Conv" else weights.T
        depth = matrix.shape[1]
        assert (matrix.reshape(-1, depth, depth) == np.eye(depth)).all()
        rest = {name: value for name, value in node.attributes.items() if name != "group"}
        plain = {"border": 0, "dilations": (1, 1), "pads": (0, 0, 0, 0), "strides": (1, 1)}
        assert rest == (plain if op == "Int8Conv" else {})


def test_wide_matrices_multiply_repeated_columns():
    net = Net()
    y = net.matmul(net.matmul(net.input(3, 5), 7, net.wide(5, 7)), 4, net.wide(7, 4))
    assert expanded(net.graph(y)) == ["Concat", "Int8MatMul", "Int8MatMul", "Int8MatMul"]


@pytest.mark.parametrize(("zero", "images"), [(0, 0), (-128, 3), (127, 2), (-60, 2), (1, 2)])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("channels", [5, 16])
def test_an_image_less_its_zero_point_is_a_sum_of_images(zero, images, wide, channels):
    net = Net()
    weights = net.wide(channels, 3, 2, 2) if wide else None
    x = net.conv(net.input(1, 3, 4, 3), channels)
    graph = net.graph(net.spread(x, 3, (2, 2), **TWO, zero=zero, weights=weights))
    ops = expanded(graph)
    whole = channels % DEFAULT.block_in == 0
    parts = ["Int8Requantise"] * images + ["Concat"] if whole else ["Int8Conv"]
    assert ops[1 : 1 + len(parts)] == parts or not images
    assert ops[-1] == "Int8ConvTranspose"
    assert len(ops) == 2 + len(parts) * bool(images) + wide


@pytest.mark.parametrize(("value", "copies"), [(127, 1), (128, 2), (255, 3), (-129, 2), (-256, 2), (-257, 3)])
def test_channels_are_repeated_once_for_each_part_of_the_weights(value, copies):
    net = Net()
    weights = net.wide(5, 7) // 2
    weights[3, 2] = value
    graph = in_eight_bits(net.graph(net.matmul(net.input(3, 5), 7, weights)), TARGET)
    assert graph.types[graph.nodes[-1].inputs[0]].shape == (3, 5 * copies)


def test_two_products_share_repeated_channels():
    of = QdqBuilder(0)
    x, once = of.quantised(1, 3, 5, 5), {"dilations": (1, 1), "group": 1, "pads": (1, 1, 1, 1)}
    weights = [of.weights(4, 3, 3, 3, axis=0, zero=9) for _ in range(2)]
    products = [of.pair(of.add("Conv", x, w, strides=(1, 1), **once)) for w in weights]
    graph = INTEGERS.run(of.finish(*products))
    assert expanded(graph).count("Concat") == 1


def test_weights_of_int16_that_fit_eight_bits_repeat_nothing():
    net = Net()
    graph = net.graph(net.matmul(net.input(3, 5), 7, net.wide(5, 7) // 2))
    assert expanded(graph) == ["Int8MatMul"]


def test_a_graph_of_int8_stays():
    net = Net()
    graph = net.graph(net.spread(net.conv(net.input(1, 3, 4, 4), 4), 3, (2, 2), **TWO))
    assert in_eight_bits(graph, TARGET) is graph


def test_a_product_that_the_accelerator_cannot_expand_runs_on_the_host_as_it_is():
    net, config = Net(), TINY.with_changes(batch=2, block_in=8)
    graph = net.graph(net.matmul(net.input(1, 2, 3, 5), 7, net.wide(5, 7)))
    (node,) = in_eight_bits(graph, Target(config)).nodes
    (step,) = plan_of(graph, config).host_steps
    assert node.inputs == graph.nodes[0].inputs == step.inputs
    assert (
        step.reason
        == node.reason
        == (
            "Int8MatMul with an operand of 4 dimensions and batch = 2; "
            "the accelerator takes rows of any number of dimensions but 4, or a batch of 1"
        )
    )


@pytest.mark.parametrize("zero", [0, 5])
def test_multiply_accumulates_are_those_of_the_network(zero):
    net = Net()
    x = net.conv(net.input(1, 5, 4, 4), 5, (3, 3), group=5, weights=net.wide(5, 1, 3, 3))
    y = net.conv(net.requantise(x), 5, weights=net.wide(5, 5, 1, 1))
    spread = net.spread(y, 3, (2, 2), **TWO, zero=zero, weights=net.wide(5, 3, 2, 2))
    graph = net.graph(
        net.conv(spread, 2, (3, 3)), net.matmul(net.requantise(net.input(3, 5)), 4, net.wide(5, 4))
    )
    expected = sum(macs(graph, node) for node in graph.nodes)
    layers = [layer for step in plan_of(graph, DEFAULT).launches for layer in step.layers]
    assert sum(layer.macs for layer in layers) == expected


@pytest.mark.parametrize("weights", ["int8", "uint8"])
@pytest.mark.parametrize("channels", [5, 32])
def test_a_quantised_network_runs_in_one_launch_and_exactly(weights, channels):
    of = QdqBuilder(3, "uint8")
    once = {"dilations": (1, 1), "group": 1, "pads": (1, 1, 1, 1), "strides": (1, 1)}
    w = of.weights(channels, 3, 3, 3, axis=-1, zero=130, dtype="uint8")
    x = of.pair(of.add("Conv", of.quantised(1, 3, 6, 5), w, **once), zero=77)
    spread = {"dilations": (1, 1), "group": 1, "output_padding": (0, 0), "pads": (1, 1, 1, 1)}
    kernels = of.weights(channels, 4, 4, 4, axis=1, zero=3, dtype=weights)
    y = of.pair(of.add("ConvTranspose", x, kernels, strides=(2, 2), **spread))
    graph = INTEGERS.run(of.finish(y))
    assert [node.op for node in graph.nodes if node.op.startswith("Int8")] == [
        "Int8Conv",
        "Int8ConvTranspose",
    ]
    plan = plan_of(graph, DEFAULT)
    assert len(plan.launches) == 1
    check(graph, plan, CycleDevice(DEFAULT, plan.dram_bytes))
