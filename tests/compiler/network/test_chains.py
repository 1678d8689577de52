"""Convolutions around a depthwise convolution as a single task, a chain, with the results of the graph."""

import pytest

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.test_groups import EpilogueNet
from tests.compiler.network.test_networks import check
from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.network import groups
from vdla.compiler.network.partition import place
from vdla.compiler.network.placed import Offloaded
from vdla.compiler.tasks.chain import ChainTask
from vdla.compiler.tasks.convolution import GatheredTask
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.plan import LaunchStep

FED = TINY.with_changes(
    name="fed",
    block_in=8,
    block_out=8,
    inp_buffer_bytes=8 << 10,
    wgt_buffer_bytes=8 << 10,
    acc_buffer_bytes=16 << 10,
    extensions=tuple(Extension),
)


def expanded(net: EpilogueNet, x: str, channels: int, table: bool = False) -> str:
    wide = net.conv(x, channels)
    return net.lookup(wide) if table else wide


def windowed(net: EpilogueNet, x: str, table: bool = False, **how) -> str:
    channels = net.shape(x)[1]
    deep = net.conv(x, channels, (3, 3), pads=(1, 1, 1, 1), group=channels, **how)
    return net.lookup(deep) if table else deep


def inverted_residual(net: EpilogueNet) -> Graph:
    x = net.input(1, 8, 12, 12)
    return net.graph(net.sum(net.conv(windowed(net, expanded(net, x, 24)), 8), x))


def inverted_residual_with_tables(net: EpilogueNet) -> Graph:
    x = net.input(1, 8, 12, 12)
    deep = windowed(net, expanded(net, x, 32, table=True), table=True, border=5)
    return net.graph(net.lookup(net.conv(deep, 8)))


def chain_with_strides(net: EpilogueNet) -> Graph:
    deep = windowed(net, expanded(net, net.input(1, 8, 13, 12), 20, table=True), strides=(2, 2))
    return net.graph(net.conv(deep, 9))


def window_behind_an_expansion(net: EpilogueNet) -> Graph:
    return net.graph(windowed(net, expanded(net, net.input(1, 8, 12, 12), 24, table=True), table=True))


def projection_behind_a_window(net: EpilogueNet) -> Graph:
    return net.graph(net.conv(windowed(net, net.input(1, 24, 12, 12), table=True), 8))


def chain_of_an_image(net: EpilogueNet) -> Graph:
    """The first convolution reads windows of lines, which the host packs."""
    wide = net.conv(net.input(1, 2, 17, 20), 16, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    return net.graph(net.conv(windowed(net, net.lookup(wide), border=5), 8))


CHAINED = (
    chain_of_an_image,
    inverted_residual,
    inverted_residual_with_tables,
    chain_with_strides,
    window_behind_an_expansion,
    projection_behind_a_window,
)


@pytest.mark.usefixtures("chains_pay")
@pytest.mark.parametrize("make", CHAINED)
@pytest.mark.parametrize("config", [FED, FED.with_changes(table_buffer_bytes=1 << 10)], ids=["fed", "tables"])
def test_convolutions_around_a_window_are_one(make, config):
    graph = make(EpilogueNet())
    plan = plan_of(graph, config)
    (layer,) = (layer for step in plan.steps if isinstance(step, LaunchStep) for layer in step.layers)
    assert (layer.op, layer.label) == ("Int8Conv", graph.nodes[-1].result)
    for device in (FunctionalDevice(config, plan.dram_bytes, 1), CycleDevice(config, plan.dram_bytes)):
        check(graph, plan, device)


@pytest.mark.usefixtures("chains_pay")
def test_a_chain_reads_the_windows_of_its_first_convolution():
    (operator,) = place(chain_of_an_image(EpilogueNet()), Target(FED))
    task = operator.pieces[0].task
    assert isinstance(task, ChainTask)
    assert isinstance(task.chain.expansion, GatheredTask)
    assert operator.inputs["X"].layout.windows is not None
    assert task.address_maps(FED) == task.chain.expansion.address_maps(FED)


def two_windows(net: EpilogueNet, table: bool = False) -> Graph:
    narrow = net.conv(windowed(net, net.conv(net.input(1, 8, 12, 12), 16)), 8)
    return net.graph(windowed(net, net.lookup(narrow) if table else narrow))


def cycles_by_length(cycles: dict[int, int]):
    """Return a function from a task to its cycles: by its number of convolutions."""
    return lambda task, target: cycles[len(task.chain.stages) if isinstance(task, ChainTask) else 1]


def lengths(operators: list[Offloaded]) -> list[int]:
    """Return how many convolutions each chain has."""
    return [len(each.pieces[0].task.chain.stages) for each in operators]


def test_a_convolution_joins_the_end_of_a_chain_that_is_split(monkeypatch):
    monkeypatch.setattr(groups, "least_cycles", cycles_by_length({1: 10, 2: 4, 3: 9}))
    graph = two_windows(EpilogueNet())
    operators = place(graph, Target(FED))
    assert lengths(operators) == [2, 2]
    assert [each.inner for each in operators] == [("v0",), ("v2",)]
    assert [each.node.result for part in operators for each in part.parts] == ["v0", "v1", "v2", "v3"]
    plan = plan_of(graph, FED)
    check(graph, plan, FunctionalDevice(FED, plan.dram_bytes, 1))


def test_a_chain_with_an_epilogue_of_its_own_is_not_split(monkeypatch):
    """The table belongs to the last convolution of the chain, which would leave without it."""
    monkeypatch.setattr(groups, "least_cycles", cycles_by_length({1: 10, 2: 4, 3: 9}))
    first, last = place(two_windows(EpilogueNet(), table=True), Target(FED))
    assert lengths([first]) == [3]
    assert first.epilogue.table
    assert first.parts == ()
    assert len(last.pieces) == 1


def test_the_chain_that_saves_most_is_chosen(monkeypatch):
    monkeypatch.setattr(groups, "least_cycles", cycles_by_length({1: 10, 2: 4, 3: 15}))
    assert lengths(place(inverted_residual(EpilogueNet()), Target(FED))[:1]) == [2]


@pytest.mark.usefixtures("chains_pay")
def test_a_chain_has_no_more_tables_than_the_memory_of_tables_holds():
    graph, config = inverted_residual_with_tables(EpilogueNet()), FED.with_changes(table_buffer_bytes=512)
    operators = place(graph, Target(config))
    tables = [len(each.epilogue.inner) + bool(each.epilogue.table) for each in operators]
    assert len(tables) > 1
    assert max(tables) == 2
    plan = plan_of(graph, config)
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes, 1))


@pytest.mark.usefixtures("chains_pay")
def test_a_chain_names_the_values_that_stay_on_chip():
    graph = inverted_residual(EpilogueNet())
    (operator,) = place(graph, Target(FED))
    assert operator.inner == tuple(node.result for node in graph.nodes[:-1])
    assert operator.macs == sum(macs(graph, node) for node in graph.nodes[:-1])


def chain_whose_expansion_others_read(net: EpilogueNet) -> Graph:
    wide = expanded(net, net.input(1, 8, 12, 12), 24)
    return net.graph(windowed(net, wide), wide)


def chain_of_a_residual_sum(net: EpilogueNet) -> Graph:
    x = net.sum(expanded(net, net.input(1, 8, 12, 12), 24), net.input(1, 24, 12, 12))
    return net.graph(windowed(net, x))


def chain_with_a_dense_kernel(net: EpilogueNet) -> Graph:
    return net.graph(net.conv(expanded(net, net.input(1, 8, 12, 12), 24), 8, (3, 3), pads=(1, 1, 1, 1)))


@pytest.mark.usefixtures("chains_pay")
@pytest.mark.parametrize(
    "make", [chain_whose_expansion_others_read, chain_of_a_residual_sum, chain_with_a_dense_kernel]
)
def test_convolutions_that_are_no_chain_stay_apart(make):
    graph = make(EpilogueNet())
    plan = plan_of(graph, FED)
    assert sum(len(step.layers) for step in plan.steps if isinstance(step, LaunchStep)) == 2
    check(graph, plan, FunctionalDevice(FED, plan.dram_bytes))


def test_a_chain_must_take_fewer_cycles(monkeypatch):
    graph = window_behind_an_expansion(EpilogueNet())
    monkeypatch.setattr(groups, "least_estimate", lambda task, target: 0.0)
    groups.least_cycles.cache_clear()
    assert len(place(graph, Target(FED))) == 2
    groups.least_cycles.cache_clear()


@pytest.mark.usefixtures("chains_pay")
def test_without_a_path_to_the_inputs_there_is_no_chain():
    config = FED.with_changes(extensions=tuple(set(Extension) - {Extension.FEEDBACK}))
    assert len(place(inverted_residual(EpilogueNet()), Target(config))) == 3
