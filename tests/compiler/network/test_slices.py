"""Slices of channels and repeated pixels: a single launch with exact results, and the reasons for the host."""

from dataclasses import replace
from typing import Any

import pytest

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import TWICE, Net, resized
from tests.compiler.network.test_networks import check
from vdla.compiler.graph.nodes import Graph, TensorType
from vdla.compiler.graph.rewrite import rebuilt
from vdla.compiler.lower.moves import IN_RUNS
from vdla.compiler.network.offload import offload
from vdla.compiler.network.placed import Offloaded, Piece, Run
from vdla.compiler.network.target_passes import slices_of_splits
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.rearranging import RepeatTask
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.layout import Layout


def split(config, sizes: tuple[int, ...]) -> Graph:
    net = Net()
    x = net.conv(net.input(1, 3, 5, 6), sum(sizes))
    first = net.op("Split", (x,), len(sizes), axis=1, split=sizes)
    last = f"{first}_{len(sizes) - 1}"
    return net.graph(net.conv(first, 3, (3, 3), pads=(1, 1, 1, 1)), net.conv(net.join(first, last), 4))


@pytest.mark.parametrize(("config", "sizes"), [(TINY, (8, 4)), (TINY, (4, 8, 7)), (DEFAULT, (16, 16))])
def test_parts_of_whole_blocks_are_copied(config, sizes):
    graph = split(config, sizes)
    plan = plan_of(graph, config)
    assert not plan.host_steps
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes, 0))
    check(graph, plan, CycleDevice(config, plan.dram_bytes))


@pytest.mark.parametrize("sizes", [(8, 4, 4), (6, 6)])
def test_parts_that_nothing_reads_have_no_name(sizes):
    net = Net()
    first = net.op("Split", (net.conv(net.input(1, 3, 5, 6), sum(sizes)),), len(sizes), axis=1, split=sizes)
    graph = net.graph(net.conv(first, 3))
    nodes = tuple(
        replace(node, outputs=node.outputs[:1]) if node.op == "Split" else node for node in graph.nodes
    )
    graph = rebuilt(graph, nodes)
    plan = plan_of(graph, TINY)
    check(graph, plan, FunctionalDevice(TINY, plan.dram_bytes, 0))


def test_other_parts_stay_on_the_host():
    config = TINY.with_changes(batch=2)
    graph = split(config, (6, 6))
    assert slices_of_splits(Target(config)).run(graph) == graph
    assert [step.op for step in plan_of(graph, config).host_steps] == ["Split", "Concat"]


@pytest.mark.parametrize("factors", [(2, 2), (1, 3), (3, 1)])
@pytest.mark.parametrize("size", [(5, 6), (8, 40)])
def test_repeated_pixels_are_exact(factors, size):
    net = Net()
    graph = net.graph(net.conv(resized(net, net.conv(net.input(1, 3, *size), 9), factors), 4))
    plan = plan_of(graph, TINY)
    assert not plan.host_steps
    check(graph, plan, CycleDevice(TINY, plan.dram_bytes))


@pytest.mark.parametrize(
    "how", [{"coordinate_transformation_mode": "align_corners"}, {"nearest_mode": "ceil"}]
)
def test_pixels_that_are_not_repeated_evenly_stay_on_the_host(how):
    net = Net()
    graph = net.graph(net.conv(resized(net, net.conv(net.input(1, 3, 5, 6), 8), (2, 2), **how), 4))
    (step,) = [step for step in plan_of(graph, TINY).host_steps if step.op == "Resize"]
    assert step.reason == (
        "Resize with coordinates that do not repeat pixels evenly; "
        "the accelerator takes pixels repeated by whole factors"
    )


WIDE_IN, WIDE_OUT = TINY.with_changes(block_in=8), TINY.with_changes(block_out=8)
PAIRS = TINY.with_changes(batch=2)


def last(net: Net, y: str, config) -> Offloaded | Unfit:
    graph = net.graph(y)
    return offload(graph, graph.nodes[-1], Target(config))


def cut(net: Net, shape: tuple[int, ...], begin: int, end: int, **how: Any) -> str:
    usual = {"axes": (1,), "starts": (begin,), "ends": (end,), "steps": (1,)}
    return net.op("Slice", (net.input(*shape),), **usual | how)


@pytest.mark.parametrize(
    ("channels", "begin", "end", "config", "elements", "first"),
    [
        (12, 4, 8, TINY, 15, 15),
        (12, 0, 12, TINY, 45, 0),
        (12, -8, -4, TINY, 15, 15),
        (12, -99, 4, TINY, 15, 0),
        (12, 8, 99, TINY, 15, 30),
        (10, 4, 10, TINY, 30, 15),
        (10, 8, 99, TINY, 15, 30),
        (24, 16, 24, WIDE_IN, 30, 60),
        (24, 8, 24, WIDE_OUT, 30, 15),
    ],
)
def test_whole_blocks_are_copied_from_where_they_begin(channels, begin, end, config, elements, first):
    net = Net()
    y = cut(net, (1, channels, 3, 5), begin, end)
    offloaded = last(net, y, config)
    assert isinstance(offloaded, Offloaded)
    assert offloaded.pieces == (Piece(ElementsTask(Elements.COPY, elements)),)
    assert offloaded.copied == (Run("A0", first, elements),)
    block = max(config.block_in, config.block_out)
    assert offloaded.inputs == {"A0": ("x0", Layout((1, channels, 3, 5), block, 1))}
    assert offloaded.output == (y, Layout(net.shape(y), block, 1))


BLOCKS = "the accelerator takes whole blocks of channels"


@pytest.mark.parametrize(
    ("shape", "cuts", "config", "runs"),
    [
        ((6, 4), {0: (2, 5, 1)}, TINY, [(2, 3)]),
        ((6, 12), {0: (2, 5, 1)}, TINY, [(2, 3), (8, 3), (14, 3)]),
        ((6, 12), {0: (-1, 99, 1)}, TINY, [(5, 1), (11, 1), (17, 1)]),
        ((6, 4), {0: (4, -99, -2)}, TINY, [(4, 1), (2, 1), (0, 1)]),
        ((6, 12), {0: (2, 5, 1), 1: (4, 8, 1)}, TINY, [(8, 3)]),
        ((1, 12), {1: (4, 12, 1)}, TINY, [(1, 2)]),
        ((5, 10), {1: (4, 10, 1)}, TINY, [(5, 10)]),
        ((4, 2, 4), {0: (1, 3, 1)}, TINY, [(2, 4)]),
        ((4, 2, 4), {1: (1, 2, 1)}, TINY, [(1, 1), (3, 1), (5, 1), (7, 1)]),
        ((8,), {0: (4, 8, 1)}, TINY, [(1, 1)]),
        ((3, 16), {0: (1, 2, 1)}, WIDE_IN, [(2, 2), (8, 2)]),
        ((3, 16), {0: (1, 2, 1)}, WIDE_OUT, [(1, 1), (4, 1)]),
        ((6, 4), {0: (2, 4, 1)}, PAIRS, [(1, 1)]),
        ((6, 4), {0: (2, 5, 1)}, PAIRS, [(1, 2)]),
        ((5, 8), {0: (4, 5, 1)}, PAIRS, [(2, 1), (5, 1)]),
        ((5, 8), {1: (4, 8, 1)}, PAIRS, [(3, 3)]),
        ((3, 4, 2, 4), {0: (1, 3, 1)}, TINY, [(8, 16)]),
        ((2, 8, 2, 2), {1: (4, 8, 1)}, TINY, [(4, 4), (12, 4)]),
        ((5, 8, 2, 2), {0: (4, 5, 1), 1: (0, 4, 1)}, PAIRS, [(16, 4)]),
    ],
    ids=str,
)
def test_rows_and_images_are_copied_by_runs(shape, cuts, config, runs):
    """A run has its first element and its number of elements."""
    net = Net()
    starts, ends, steps = zip(*cuts.values(), strict=True)
    offloaded = last(net, cut(net, shape, 0, 0, axes=(*cuts,), starts=starts, ends=ends, steps=steps), config)
    assert isinstance(offloaded, Offloaded)
    assert offloaded.copied == tuple(Run("A0", *run) for run in runs)
    assert offloaded.pieces == (Piece(ElementsTask(Elements.COPY, sum(count for _, count in runs))),)


BLOCKS = "the accelerator takes whole blocks of channels"
ROWS = f"the accelerator takes {IN_RUNS}"


@pytest.mark.parametrize(
    ("shape", "begin", "end", "how", "config", "reason"),
    [
        ((1, 12, 3, 5), 2, 8, {}, TINY, f"Slice with channels 2 to 8 in blocks of 4; {BLOCKS}"),
        ((1, 12, 3, 5), 4, -2, {}, TINY, f"Slice with channels 4 to 10 in blocks of 4; {BLOCKS}"),
        ((1, 12, 3, 5), -9, 99, {}, TINY, f"Slice with channels 3 to 12 in blocks of 4; {BLOCKS}"),
        ((1, 16, 3, 5), 4, 8, {}, WIDE_IN, f"Slice with channels 4 to 8 in blocks of 8; {BLOCKS}"),
        ((3, 12), 2, 8, {}, TINY, f"Slice with channels 2 to 8 in blocks of 4; {BLOCKS}"),
        ((1, 12, 3, 5), 0, 8, {"steps": (2,)}, TINY, f"Slice with channels in steps of 2; {BLOCKS}"),
        ((3, 12), 8, 0, {"steps": (-1,)}, TINY, f"Slice with channels in steps of -1; {BLOCKS}"),
        ((6, 4), 1, 3, {"axes": (0,)}, PAIRS, f"Slice with rows 1 to 3 along axis 0 and batch = 2; {ROWS}"),
        ((6, 4), 1, 6, {"axes": (0,)}, PAIRS, f"Slice with rows 1 to 6 along axis 0 and batch = 2; {ROWS}"),
        ((3, 2, 4), 1, 2, {"axes": (1,)}, PAIRS, f"Slice with rows 1 to 2 along axis 1 and batch = 2; {ROWS}"),
        ((4, 4, 2, 3), 1, 3, {"axes": (0,)}, PAIRS, f"Slice with rows 1 to 3 along axis 0 and batch = 2; {ROWS}"),
        ((9000, 4), 0, 9000, {"axes": (0,), "steps": (2,)}, TINY, f"Slice with 4500 runs of elements; {ROWS}"),
        ((1, 12, 3, 5), 0, 8, {}, PAIRS, ""),
        ((1, 12, 3, 5), 0, 8, {"axes": (-3,)}, TINY, ""),
        ((1, 12, 8, 5), 0, 8, {"axes": (-2,)}, TINY, ""),
        ((1, 12, 8, 5), 5, 0, {"axes": (3,), "steps": (-2,)}, TINY, ""),
    ],
)  # fmt: skip
def test_why_a_part_stays_on_the_host(shape, begin, end, how, config, reason):
    net = Net()
    placement = last(net, cut(net, shape, begin, end, **how), config)
    assert isinstance(placement, Offloaded) if not reason else placement.reason == reason


@pytest.mark.parametrize(
    ("config", "blocks", "parts", "weights"), [(TINY, 3, 1, 1), (WIDE_IN, 2, 2, 0), (WIDE_OUT, 2, 1, 0)]
)
def test_an_image_is_repeated_by_its_own_factors(config, blocks, parts, weights):
    net = Net()
    y = resized(net, net.input(1, 10, 3, 5), (2, 3))
    offloaded = last(net, y, config)
    assert isinstance(offloaded, Offloaded)
    assert [piece.task for piece in offloaded.pieces] == [RepeatTask(blocks, 3, 5, (2, 3), parts)]
    assert offloaded.output == (
        y,
        Layout((1, 10, 6, 15), blocks and max(config.block_in, config.block_out), 1),
    )
    assert len(offloaded.constants) == weights


IMAGE = "the accelerator takes one image, and a batch of 1"
FACTORS = "the accelerator takes pixels repeated by whole factors"


@pytest.mark.parametrize(
    ("shape", "sizes", "config", "reason"),
    [
        ((2, 4, 2, 3), (2, 4, 4, 3), TINY, f"Resize with an operand of the shape (2, 4, 2, 3); {IMAGE}"),
        ((1, 4, 3), (1, 4, 6), TINY, f"Resize with an operand of the shape (1, 4, 3); {IMAGE}"),
        ((1, 4, 2, 3), (1, 4, 4, 3), PAIRS, f"Resize with batch = 2; {IMAGE}"),
        ((1, 4, 2, 3), (1, 8, 2, 3), TINY, f"Resize with sizes (1, 8, 2, 3) of an image (1, 4, 2, 3); {FACTORS}"),
        ((1, 4, 2, 3), (1, 4, 3, 3), TINY, f"Resize with sizes (1, 4, 3, 3) of an image (1, 4, 2, 3); {FACTORS}"),
        ((1, 4, 2, 3), (1, 4, 2, 4), TINY, f"Resize with sizes (1, 4, 2, 4) of an image (1, 4, 2, 3); {FACTORS}"),
        ((1, 4, 2, 3), (1, 4, 2, 6), TINY, ""),
    ],
)  # fmt: skip
def test_why_an_image_is_not_repeated(shape, sizes, config, reason):
    net = Net()
    scales = tuple(size / extent for size, extent in zip(sizes, shape, strict=True))
    y = net.op("Resize", (net.input(*shape),), scales=scales, sizes=sizes, **TWICE)
    placement = last(net, y, config)
    assert isinstance(placement, Offloaded) if not reason else placement.reason == reason


def divided(shape: tuple[int, ...], sizes: tuple[int, ...], axis: int = 1) -> Graph:
    net = Net()
    first = net.op("Split", (net.input(*shape),), len(sizes), axis=axis, split=sizes)
    return net.graph(first, f"{first}_1")


@pytest.mark.parametrize("axis", [1, -3])
def test_a_split_becomes_a_slice_for_each_part(axis):
    graph = slices_of_splits(Target(TINY)).run(divided((1, 13, 3, 5), (4, 8, 1), axis))
    cuts = [(node.attributes["starts"], node.attributes["ends"]) for node in graph.nodes]
    assert cuts == [((0,), (4,)), ((4,), (12,)), ((12,), (13,))]
    names = ["v0", "v0_1", "v0_2"]
    assert [(node.op, node.inputs, node.outputs, node.name) for node in graph.nodes] == [
        ("Slice", ("x0",), (name,), name) for name in names
    ]
    assert all((node.attributes["axes"], node.attributes["steps"]) == ((1,), (1,)) for node in graph.nodes)


@pytest.mark.parametrize(
    ("graph", "config"),
    [
        (divided((6, 4), (3, 3), 0), PAIRS),
        (divided((1, 12, 3, 5), (8, 4)), TINY.with_changes(block_out=16)),
        (divided((1, 12, 3, 5), (4, 6, 2)), TINY),
        (divided((2, 3), (2, 1)), TINY),
    ],
)
def test_other_splits_stay(graph, config):
    assert slices_of_splits(Target(config)).run(graph) == graph


def test_a_split_of_other_numbers_stays():
    graph = divided((1, 12, 3, 5), (8, 4))
    types = {name: TensorType(type_.shape, "int32") for name, type_ in graph.types.items()}
    graph = replace(graph, inputs={"x0": types["x0"]}, types=types)
    assert slices_of_splits(Target(TINY)).run(graph) == graph
