"""Transposes, Slices and Concats of whole pixels and rows on the accelerator: copies between its operators."""

import numpy as np
import pytest

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net
from tests.compiler.network.shuffles import table
from tests.compiler.network.test_groups import EpilogueNet
from tests.compiler.network.test_row_moves import CONFIGS, EVERY, cut, difference, exact
from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.nodes import Graph

SIDE, WINDOW, CHANNELS = 4, 2, 8
ALONE = ("default", "tiny", "small", "tiny with everything")
"""Configurations with a batch of 1 and equal blocks."""


def turn(net: Net, x: str, *perm: int) -> str:
    return net.op("Transpose", (x,), perm=perm)


def windows(net: Net, x: str) -> str:
    """Return the windows of an image [1, h, w, c] as [windows, pixels, c]."""
    count = SIDE // WINDOW
    x = turn(net, net.reshape(x, 1, count, WINDOW, count, WINDOW, CHANNELS), 0, 1, 3, 2, 4, 5)
    return net.reshape(x, count**2, WINDOW**2, CHANNELS)


def image_of_windows(net: Net, x: str) -> str:
    """Return the inverse of `windows`."""
    count = SIDE // WINDOW
    x = turn(net, net.reshape(x, 1, count, count, WINDOW, WINDOW, CHANNELS), 0, 1, 3, 2, 4, 5)
    return net.reshape(x, 1, SIDE, SIDE, CHANNELS)


def rolled(net: Net, x: str, by: int) -> str:
    """Return an image [1, h, w, c] whose rows and columns are rolled."""
    for axis in (1, 2):
        x = net.join(cut(net, x, axis, by, SIDE), cut(net, x, axis, 0, by), axis=axis)
    return x


def image(net: Net) -> str:
    return net.conv(net.input(1, 3, SIDE, SIDE), CHANNELS)


def rows_of_image(net: Net) -> str:
    return turn(net, image(net), 0, 2, 3, 1)


def in_windows(net: EpilogueNet, by: int) -> Graph:
    """Return a network that multiplies each window, as a Swin transformer does, and adds the image."""
    x = rows_of_image(net)
    y = windows(net, rolled(net, x, by) if by else x)
    y = image_of_windows(net, net.matmul(net.matmul(y, CHANNELS), CHANNELS))
    y = net.add(rolled(net, y, SIDE - by) if by else y, x)
    return net.graph(net.conv(turn(net, y, 0, 3, 1, 2), 5))


def along_both_axes(net: EpilogueNet) -> Graph:
    """Return a network that multiplies the rows of an image in both orders, as a dual-path network does."""
    x = rows_of_image(net)
    y = net.matmul(
        net.reshape(turn(net, net.reshape(x, SIDE, SIDE, CHANNELS), 1, 0, 2), SIDE**2, CHANNELS), CHANNELS
    )
    y = turn(net, net.reshape(y, SIDE, SIDE, CHANNELS), 1, 0, 2)
    return net.graph(net.matmul(net.reshape(y, SIDE**2, CHANNELS), 5))


TURNED = {
    "windows of an image": lambda net: in_windows(net, 0),
    "windows of a rolled image": lambda net: in_windows(net, 1),
    "rows in both orders": along_both_axes,
    "pixels of an image": lambda net: net.graph(net.conv(turn(net, image(net), 0, 1, 3, 2), 5)),
    "columns cut and joined": lambda net: net.graph(
        net.conv(net.join(cut(net, x := image(net), 3, 2, SIDE), cut(net, x, 3, 0, 2), axis=3), 5, (2, 2))
    ),
    "pixels backwards": lambda net: net.graph(
        net.conv(net.op("Slice", (image(net),), axes=(2, 3), starts=(3, 3), ends=(-9, -9), steps=(-1, -2)), 5)
    ),
    "channels last, element by element": lambda net: net.graph(
        net.conv(turn(net, net.mul(net.requantise(x := rows_of_image(net)), x), 0, 3, 1, 2), 5)
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("title", TURNED)
def test_results_are_exact_and_proved(title, name):
    graph = TURNED[title](EpilogueNet())
    plan = exact(graph, CONFIGS[name])
    assert difference(graph, plan) == ""
    if name in ALONE:
        assert not plan.host_steps
        assert len(plan.launches) == 1


JOINED = {
    "halves of a block": lambda net, x: net.join(net.matmul(x, 2), net.matmul(x, 2), axis=-1),
    "three operands": lambda net, x: net.join(*(net.matmul(x, width) for width in (3, 9, 2)), axis=-1),
    "views of operands": lambda net, x: net.reshape(
        net.join(*(net.reshape(net.matmul(x, 3), 1, 6, 3) for _ in range(2)), axis=-1), 6, 6
    ),
    "rows of a block": lambda net, x: net.reshape(x, 2, 24),
    "rows of parts of blocks": lambda net, x: net.reshape(net.matmul(x, 3), 1, 2, 9),
    "rows of joined parts": lambda net, x: net.reshape(
        net.join(net.matmul(x, 3), net.matmul(x, 2), axis=1), 1, 30
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("title", JOINED)
def test_columns_and_rows_are_joined_on_the_accelerator(title, name):
    net = EpilogueNet()
    graph = net.graph(net.matmul(JOINED[title](net, net.matmul(net.input(6, 5), 8)), 5))
    plan = exact(graph, CONFIGS[name])
    assert difference(graph, plan) == ""
    on_host = {step.op for step in plan.host_steps}
    assert on_host <= ({"Reshape"} if CONFIGS[name].batch > 1 else set())
    assert len(plan.launches) == 1 + len(on_host)
    done = sum(layer.macs for launch in plan.launches for layer in launch.layers)
    assert done == sum(macs(graph, node) for node in graph.nodes)


def test_columns_that_the_host_computes_or_reads_are_joined_there():
    net = Net()
    parts = [net.matmul(net.input(6, 5), 3) for _ in range(2)]
    leaving = plan_of(net.graph(net.join(*parts, axis=-1)), EVERY)
    net = Net()
    entering = plan_of(net.graph(net.matmul(net.join(net.input(6, 3), net.input(6, 3), axis=-1), 5)), EVERY)
    assert [step.op for plan in (leaving, entering) for step in plan.host_steps] == ["Concat", "Concat"]


def test_a_table_reads_rows_of_an_image_where_they_lie():
    net = EpilogueNet()
    graph = net.graph(net.conv(turn(net, table(net, windows_and_back(net)), 0, 3, 1, 2), 5))
    plan = exact(graph, EVERY)
    assert not plan.host_steps


def windows_and_back(net: EpilogueNet) -> str:
    return image_of_windows(net, net.matmul(windows(net, rows_of_image(net)), CHANNELS))


@pytest.mark.parametrize("perm", [(1, 0), (0, 2, 1), (0, 2, 1, 3)])
def test_channels_that_become_rows_stay_on_the_host(perm):
    net = Net()
    shape = (2, 3, 4, 5)[-len(perm) :]
    x = net.requantise(net.input(*shape))
    plan = plan_of(net.graph(net.requantise(turn(net, x, *perm))), EVERY)
    assert [step.op for step in plan.host_steps] == ["Transpose"]
    assert "channels of images or rows that stay channels" in plan.host_steps[0].reason


def test_a_copy_loads_rows_at_equal_distances_by_one_instruction():
    """Columns of an image, which become rows, are strided: a LOAD has a row for each."""
    net = EpilogueNet()
    (stream,) = plan_of(TURNED["pixels of an image"](net), EVERY).streams.values()
    assert len(stream.words) < 4 * SIDE**2
    assert np.unique(stream.words, axis=0).size
