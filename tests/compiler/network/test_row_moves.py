"""Slices and concatenations of rows: no instruction where operands can be segments, and equal results."""

import pytest

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.rows import random_moves
from tests.compiler.network.test_groups import EpilogueNet
from tests.compiler.network.test_joining import compiled, copied_moves
from tests.compiler.network.test_networks import check
from vdla.compiler.graph.nodes import Graph
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY
from vdla.hw.spec.vocabulary import Extension
from vdla.prove.compare import prove
from vdla.prove.graphs import graphs_for
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.plan import Plan

EVERY = TINY.with_changes(extensions=tuple(Extension))
CONFIGS = {
    "default": DEFAULT,
    "tiny": TINY,
    "small": SMALL,
    "batch4": DEFAULT.with_changes(batch=4),
    "16x8": DEFAULT.with_changes(block_out=8),
    "8x16": DEFAULT.with_changes(block_in=8),
    "tiny with everything": EVERY,
    "two rows": EVERY.with_changes(batch=2),
    "4x8": EVERY.with_changes(block_out=8),
    "8x4": EVERY.with_changes(block_in=8),
}
STEPS, WIDTH = 4, 8  # of a recurrence; the channels are two blocks of `tiny`


def cut(net: EpilogueNet, x: str, axis: int, begin: int, end: int) -> str:
    return net.op("Slice", (x,), axes=(axis,), starts=(begin,), ends=(end,), steps=(1,))


def exact(graph: Graph, config: AcceleratorConfig) -> Plan:
    """Return the plan of a graph, whose results two devices have checked."""
    plan = plan_of(graph, config)
    for device in (FunctionalDevice(config, plan.dram_bytes, 0), CycleDevice(config, plan.dram_bytes)):
        check(graph, plan, device)
    return plan


def difference(graph: Graph, plan: Plan) -> str:
    """Return what a proof finds that differs between a plan and its graph; "" for nothing."""
    return prove(plan, graphs_for(graph, plan.target), seed=7).difference


@pytest.mark.parametrize("seed", range(30))
def test_random_moves_are_exact(seed):
    graph = random_moves(seed)
    plan = exact(graph, list(CONFIGS.values())[seed % len(CONFIGS)])
    assert difference(graph, plan) == ""


def recurrence(*, ends: str) -> Graph:
    """Return an unrolled recurrence with gates.

    Args:
        ends: "last" if the last state alone is an output, "all" if all states are, in one tensor.
    """
    net = EpilogueNet()
    weights = net.constant(net.integers(WIDTH, 2 * WIDTH))
    words = net.words(2 * WIDTH, 5500.0 * WIDTH**0.5)
    whole = net.matmul(net.input(STEPS, 1, 5), 2 * WIDTH)
    state, states = "", []
    for step in range(STEPS):
        total = net.reshape(cut(net, whole, 0, step, step + 1), 1, 2 * WIDTH)
        if state:
            total = net.sum(net.op("Int8MatMul", (state, weights, words)), total)
        state = net.mul(cut(net, total, 1, 0, WIDTH), cut(net, total, 1, WIDTH, 2 * WIDTH))
        states.append(net.reshape(state, 1, 1, WIDTH))
    return net.graph(state if ends == "last" else net.join(*states, axis=0))


@pytest.mark.parametrize("ends", ["last", "all"])
@pytest.mark.parametrize("config", [EVERY, EVERY.with_changes(block_in=8)], ids=["joins", "copies"])
def test_a_recurrence_is_a_single_launch(config, ends):
    graph = recurrence(ends=ends)
    plan = exact(graph, config)
    assert difference(graph, plan) == ""
    assert not plan.host_steps
    assert len(plan.launches) == 1
    assert set(copied_moves(plan).values()) == {config.block_in != config.block_out}


@pytest.mark.parametrize("config", [EVERY, EVERY.with_changes(block_in=8)], ids=["joins", "copies"])
def test_equal_weights_of_all_steps_are_stored_and_loaded_once(config):
    graph = recurrence(ends="all")
    plan = exact(graph, config)
    assert difference(graph, plan) == ""
    arrays = [(array.dtype, array.tobytes()) for array in plan.weights.values()]
    assert len(set(arrays)) == len(arrays)
    _, *later = [layer.label for layer in plan.launches[0].layers if layer.op == "Int8MatMul"]
    (stream,) = plan.streams.values()
    loading = {
        name: [label for label in later if {*places} & {*stream.labels[label]}]
        for name, places in stream.tensors.items()
        if name in plan.weights and plan.weights[name].size == 2 * WIDTH**2
    }
    assert len(later) == STEPS - 1
    assert later[:1] in loading.values()


def test_weights_of_all_steps_count_once_in_the_roofline():
    plan = exact(recurrence(ends="all"), EVERY)
    _, first, *later = [layer for layer in plan.launches[0].layers if layer.op == "Int8MatMul"]
    assert first.bytes_once - later[0].bytes_once >= 2 * WIDTH**2
    assert len({layer.bytes_once for layer in later}) == 1


def test_constants_of_other_bytes_are_stored_apart():
    net = EpilogueNet()
    x = net.input(1, 4)
    graph = net.graph(net.matmul(x, 4), net.matmul(x, 4))
    assert len(plan_of(graph, TINY).weights) == 4


def rows_of(net: EpilogueNet) -> str:
    return net.matmul(net.input(6, 5), 8)


MOVES = {
    "a part that leaves": lambda net, x: [net.requantise(x), cut(net, x, 1, 4, 8)],
    "a view of a part that leaves": lambda net, x: [net.reshape(cut(net, x, 1, 0, 4), 1, 6, 4)],
    "rows in another order": lambda net, x: [net.matmul(net.join(cut(net, x, 0, 3, 6), cut(net, x, 0, 0, 3), axis=0), 3)],
    "a row of each of two": lambda net, x: [
        net.add(cut(net, x, 0, 1, 2), cut(net, net.requantise(x), 0, 4, 5))
    ],
    "a residual of rows": lambda net, x: [net.sum(net.matmul(net.requantise(x := cut(net, x, 0, 2, 5)), 8), x)],
    "rows written in place": lambda net, x: [net.join(net.requantise(x), net.matmul(x, 8), axis=0)],
    "views written in place": lambda net, x: [
        net.join(net.reshape(net.requantise(x), 1, 6, 8), net.reshape(net.matmul(x, 8), 1, 6, 8), axis=1)
    ],
    "a looked up result in place": lambda net, x: [
        net.join(
            net.lookup(net.matmul(x, 8)),
            net.requantise(x),
            axis=0,
        )
    ],
}  # fmt: skip


@pytest.mark.parametrize("move", MOVES)
def test_moves_of_rows_that_take_no_instruction(move):
    net = EpilogueNet()
    plan = compiled(net.graph(*MOVES[move](net, rows_of(net))))
    assert copied_moves(plan)
    assert not any(copied_moves(plan).values()), copied_moves(plan)


COPIED = {
    "rows of two blocks that leave": lambda net, x: [cut(net, x, 0, 1, 3)],
    "a source with a residual between rows of others": lambda net, x: [
        net.join(net.sum(net.matmul(x, 8), x), net.requantise(x), axis=0)
    ],
    "a source that leaves, too": lambda net, x: [y := net.requantise(x), net.join(net.matmul(x, 8), y, axis=0)],
    "a source with a view that leaves": lambda net, x: [
        net.reshape(y := net.requantise(x), 1, 6, 8), net.join(net.matmul(x, 8), y, axis=0),
    ],
    "two views of a source": lambda net, x: [
        net.join(net.reshape(y := net.requantise(x), 1, 6, 8), net.reshape(y, 1, 6, 8), axis=1)
    ],
}  # fmt: skip


@pytest.mark.parametrize("move", COPIED)
def test_moves_of_rows_that_are_copied(move):
    net = EpilogueNet()
    plan = compiled(net.graph(*COPIED[move](net, rows_of(net))))
    assert copied_moves(plan)
    assert all(copied_moves(plan).values()), copied_moves(plan)


def test_a_part_of_an_input_that_leaves_is_copied():
    net = EpilogueNet()
    plan = compiled(net.graph(cut(net, net.input(6, 4), 0, 2, 4)))
    assert list(copied_moves(plan).values()) == [True]
