"""A layer normalisation joins the convolution before it: results are those of the graph, and proved."""

from collections.abc import Callable

import pytest

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.test_networks import assert_equal
from tests.compiler.network.test_normalisation import OTHERS, NormalNet, check_rows
from tests.compiler.network.test_row_moves import EVERY, difference, exact
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.network import groups
from vdla.compiler.tasks.normalised_convolution import NormalisedTask
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.module.plan import Plan
from vdla.runtime.session.session import Session

EIGHT = EVERY.with_changes(name="eight", block_in=8, block_out=8)
CONFIGS = {
    "four": EVERY,
    "eight": EIGHT,
    "packed": EIGHT.with_changes(packed=18, block_in=16, block_out=16),
    "windows of a row": EIGHT.with_changes(
        extensions=[each for each in Extension if each is not Extension.DEPTHWISE_ROWS]
    ),
    "no overwriting": EIGHT.with_changes(
        extensions=[each for each in Extension if each is not Extension.OVERWRITE]
    ),
    "small inputs": EIGHT.with_changes(inp_buffer_bytes=512),
    **OTHERS,
}


@pytest.fixture
def joins(monkeypatch) -> None:
    """Let a layer normalisation join whatever convolution it may."""
    simulated = groups._simulated

    def cycles(task, target):
        return 0 if isinstance(task, NormalisedTask) else simulated(task, target)

    monkeypatch.setattr(groups, "_simulated", cycles)


def of_channels(net: NormalNet, image: str) -> str:
    """Return the normalised channels of an image."""
    rows = net.normalise(net.op("Transpose", (image,), perm=(0, 2, 3, 1)))
    return net.op("Transpose", (rows,), perm=(0, 3, 1, 2))


def depthwise(net: NormalNet, image: str, side: int, **attributes) -> str:
    """Return a depthwise convolution with a border."""
    channels, before = net.shape(image)[1], side // 2
    kernel, pads = (side, side), (before,) * 4
    return net.conv(image, channels, kernel, pads=pads, group=channels, **attributes)


def block_of_convnext(net: NormalNet) -> Graph:
    x = net.input(1, 20, 9, 9)
    return net.graph(net.conv(of_channels(net, depthwise(net, x, 7)), 8))


def one_block(net: NormalNet) -> Graph:
    return net.graph(of_channels(net, depthwise(net, net.input(1, 4, 8, 6), 3)))


def whole_blocks(net: NormalNet) -> Graph:
    return net.graph(of_channels(net, depthwise(net, net.input(1, 24, 6, 7), 5)))


def many_blocks(net: NormalNet) -> Graph:
    return net.graph(of_channels(net, depthwise(net, net.input(1, 37, 5, 5), 3)))


def strides(net: NormalNet) -> Graph:
    x = depthwise(net, net.input(1, 12, 11, 13), 5, strides=(2, 2))
    return net.graph(of_channels(net, depthwise(net, of_channels(net, x), 3, strides=(1, 2))))


def more_pixels_than_rows(net: NormalNet) -> Graph:
    return net.graph(of_channels(net, depthwise(net, net.input(1, 9, 23, 17), 3, border=-128)))


def several_images(net: NormalNet) -> Graph:
    return net.graph(of_channels(net, depthwise(net, net.input(3, 10, 6, 5), 3)))


def dense_convolution(net: NormalNet) -> Graph:
    x = net.conv(net.input(1, 6, 9, 8), 20, (3, 3), pads=(1, 1, 1, 1), strides=(2, 1))
    return net.graph(of_channels(net, x))


def stem(net: NormalNet) -> Graph:
    return net.graph(of_channels(net, net.conv(net.input(1, 3, 24, 24), 10, (4, 4), strides=(4, 4))))


def product_of_rows(net: NormalNet) -> Graph:
    return net.graph(net.normalise(net.matmul(net.input(11, 9), 13)))


FUSED = (
    block_of_convnext,
    one_block,
    whole_blocks,
    many_blocks,
    strides,
    more_pixels_than_rows,
    several_images,
    dense_convolution,
    stem,
    product_of_rows,
)


def normalisations(plan: Plan) -> int:
    """Return how many layers of a plan are layer normalisations alone."""
    return [layer.op for step in plan.launches for layer in step.layers].count("Int8LayerNormalization")


@pytest.mark.parametrize("network", FUSED, ids=lambda network: network.__name__)
def test_a_normalisation_joins_the_convolution_before_it(joins, network):
    graph = network(NormalNet())
    plan = exact(graph, EIGHT)
    assert normalisations(plan) == 0
    assert difference(graph, plan) == ""


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("network", [block_of_convnext, dense_convolution, product_of_rows])
def test_configurations_normalise_convolutions(joins, network, config):
    check_rows(network, config)


def read_twice(net: NormalNet) -> Graph:
    x = depthwise(net, net.input(1, 12, 6, 6), 3)
    return net.graph(of_channels(net, x), net.lookup(x))


def behind_a_table(net: NormalNet) -> Graph:
    return net.graph(of_channels(net, net.lookup(depthwise(net, net.input(1, 12, 6, 6), 3))))


def behind_a_sum(net: NormalNet) -> Graph:
    x = net.input(1, 12, 6, 6)
    return net.graph(of_channels(net, net.sum(depthwise(net, x, 3), x)))


def too_many_channels(net: NormalNet) -> Graph:
    return net.graph(of_channels(net, depthwise(net, net.input(1, 8 * 31 + 1, 3, 3), 3)))


def other_columns(net: NormalNet) -> Graph:
    return net.graph(net.normalise(net.reshape(net.conv(net.input(1, 8, 4, 4), 8), 1, 8, 16)))


@pytest.mark.parametrize(
    "network", [read_twice, behind_a_table, behind_a_sum, too_many_channels], ids=lambda each: each.__name__
)
def test_what_a_normalisation_does_not_join(joins, network):
    graph = network(NormalNet())
    plan = exact(graph, EIGHT)
    assert normalisations(plan) == 1
    assert difference(graph, plan) == ""


def test_a_row_that_is_not_the_channels_of_a_pixel_stays_alone(joins):
    graph = other_columns(NormalNet())
    assert difference(graph, exact(graph, EIGHT)) == ""


def cycles_of(network: Callable[[NormalNet], Graph], config: AcceleratorConfig) -> tuple[int, int]:
    """Return the layers that are normalisations alone, and the launches, of a compiled network."""
    plan = exact(network(NormalNet()), config)
    return normalisations(plan), len(plan.launches)


def test_a_normalisation_joins_where_that_takes_fewer_cycles():
    config = DEFAULT.with_changes(extensions=tuple(Extension))

    def network(net: NormalNet) -> Graph:
        return net.graph(of_channels(net, depthwise(net, net.input(1, 40, 14, 14), 7)))

    assert cycles_of(network, config) == (0, 1)


def test_a_normalisation_stays_alone_where_joining_takes_more_cycles(monkeypatch):
    monkeypatch.setattr(groups, "_simulated", lambda task, target: 1 << 30)
    monkeypatch.setattr(groups, "least_cycles", lambda task, target: 1)
    assert cycles_of(block_of_convnext, EIGHT) == (1, 1)


@pytest.mark.parametrize("network", [block_of_convnext, stem], ids=lambda network: network.__name__)
def test_the_rtl_takes_as_many_cycles(joins, network):
    from vdla.runtime.devices.rtl.build import Optimise
    from vdla.runtime.devices.rtl.device import RtlDevice

    graph = network(NormalNet())
    plan = plan_of(graph, EIGHT)
    feeds = {name: NormalNet().integers(*type_.shape) for name, type_ in graph.inputs.items()}
    devices = CycleDevice(EIGHT, plan.dram_bytes), RtlDevice(EIGHT, plan.dram_bytes, optimise=Optimise.BUILD)
    simulated, rtl = (Session(device, plan).run(feeds) for device in devices)
    assert_equal(rtl.outputs, interpret(graph, feeds))
    assert rtl.cycles == simulated.cycles
