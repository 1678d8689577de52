"""Groups of operators: tables and sums in epilogues, poolings of the sums of a convolution, and chains of
convolutions. Results equal the graph bit for bit."""

import numpy as np
import pytest

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net
from tests.compiler.network.test_networks import check
from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.network import groups
from vdla.compiler.network.groups import grouped
from vdla.compiler.network.partition import place
from vdla.compiler.network.placed import Placements
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.plan import HostStep, Plan
from vdla.runtime.requantise import parameter_words

ALL = TINY.with_changes(name="all", extensions=tuple(Extension))
CONFIGS = {
    "all": ALL,
    "two rows": ALL.with_changes(batch=2),
    "few residuals": ALL.with_changes(res_buffer_bytes=64),
    "one table at a time": ALL.with_changes(table_buffer_bytes=512),
    "wide in": ALL.with_changes(block_in=8),
    "wide out": ALL.with_changes(block_out=8),
}


class EpilogueNet(Net):
    """A graph in the making, with tables and with sums by shifts."""

    def lookup(self, x: str) -> str:
        return self.op("Int8Lookup", (x, self.constant(self.integers(256))))

    def sum(
        self,
        a: str,
        b: str,
        *,
        multiplier: int = 1 << 15,
        factors: tuple[int, int] = (20000, -9000),
        addend: int = -70000,
        shift: int = 30,
    ) -> str:
        words = parameter_words(*(np.array([value]) for value in (addend, multiplier, shift, 3, -120, 110)))
        return self.op("Int8Add", (a, b, self.constant(words)), factors=factors)

    def image(self, channels: int = 6) -> str:
        return self.conv(self.input(2, 3, 9, 7), channels, (3, 3), pads=(1, 1, 1, 1))


def table_behind_a_convolution(net: EpilogueNet) -> tuple[Graph, set[str]]:
    return net.graph(net.lookup(net.image())), {"Int8Conv"}


def tables_one_behind_another(net: EpilogueNet) -> tuple[Graph, set[str]]:
    x = net.lookup(net.image(5))
    for _ in range(9):
        x = net.lookup(net.conv(x, 5))
    return net.graph(x), {"Int8Conv"}


def tables_behind_other_operators(net: EpilogueNet) -> tuple[Graph, set[str]]:
    x = net.lookup(net.matmul(net.input(3, 7), 9))
    y = net.lookup(net.requantise(net.input(3, 9)))
    return net.graph(net.lookup(net.mul(x, net.lookup(net.add(x, y))))), {
        "Int8MatMul",
        "Int8Lookup",
        "Int8Mul",
        "Int8Add",
    }


def sum_with_what_came_before(net: EpilogueNet) -> tuple[Graph, set[str]]:
    x = net.image()
    y = net.sum(net.conv(net.conv(x, 6, (3, 3), pads=(1, 1, 1, 1)), 6), x)
    return net.graph(net.conv(net.sum(y, net.conv(y, 6)), 4)), {"Int8Conv"}


def sum_of_two_branches(net: EpilogueNet) -> tuple[Graph, set[str]]:
    x = net.image()
    left, right = net.conv(x, 9, (3, 3), pads=(1, 1, 1, 1)), net.lookup(net.conv(x, 9))
    return net.graph(net.conv(net.sum(right, left), 2)), {"Int8Conv"}


def sum_with_an_input_of_the_network(net: EpilogueNet) -> tuple[Graph, set[str]]:
    x = net.image(5)
    return net.graph(net.sum(x, net.input(2, 5, 9, 7))), {"Int8Conv"}


def sum_behind_a_table_behind_a_transposed_convolution(net: EpilogueNet) -> tuple[Graph, set[str]]:
    x = net.image(4)
    y = net.lookup(net.spread(net.pool(x), 4, (2, 2), strides=(2, 2)))
    return net.graph(net.sum(y, net.input(2, 4, *net.shape(y)[2:]))), {
        "Int8Conv",
        "Int8MaxPool",
        "Int8ConvTranspose",
    }


def requantised_behind_a_convolution(net: EpilogueNet) -> tuple[Graph, set[str]]:
    return net.graph(net.requantise(net.conv(net.requantise(net.image()), 5))), {"Int8Conv"}


def scaled_behind_a_product(net: EpilogueNet) -> tuple[Graph, set[str]]:
    x = net.matmul(net.input(3, 7), 9)
    factor = net.constant(np.array([3], np.int8))
    return net.graph(net.op("Int8Scale", (x, factor, net.words(1, 200)), axis=-1)), {"Int8MatMul"}


def behind_changes_of_shape(net: EpilogueNet) -> tuple[Graph, set[str]]:
    x = net.reshape(net.matmul(net.input(6, 7), 9), 1, 6, 9)
    y = net.reshape(net.reshape(net.matmul(net.reshape(net.lookup(x), 6, 9), 5), 1, 6, 5), 2, 3, 5)
    return net.graph(net.sum(y, net.input(2, 3, 5))), {"Int8MatMul", "Reshape"}


FUSED = (
    requantised_behind_a_convolution,
    scaled_behind_a_product,
    behind_changes_of_shape,
    table_behind_a_convolution,
    tables_one_behind_another,
    tables_behind_other_operators,
    sum_with_what_came_before,
    sum_of_two_branches,
    sum_with_an_input_of_the_network,
    sum_behind_a_table_behind_a_transposed_convolution,
)


def table_of_a_value_that_others_read(net: EpilogueNet) -> Graph:
    x = net.image()
    return net.graph(net.lookup(x), net.conv(x, 3))


def table_of_an_output(net: EpilogueNet) -> Graph:
    x = net.image()
    return net.graph(x, net.lookup(x))


def table_of_real_numbers(net: EpilogueNet) -> Graph:
    return net.graph(net.op("Int8Lookup", (net.image(), net.constant(np.arange(256, dtype=np.float32)))))


def table_behind_pooling(net: EpilogueNet) -> Graph:
    return net.graph(net.lookup(net.pool(net.input(2, 6, 9, 7))))


def sum_whose_multiplier_is_no_power_of_two(net: EpilogueNet) -> Graph:
    return net.graph(net.sum(net.image(), net.image(), multiplier=(1 << 15) + 1))


def sum_of_a_tensor_with_itself(net: EpilogueNet) -> Graph:
    x = net.image()
    return net.graph(net.sum(x, x))


APART = (
    table_of_a_value_that_others_read,
    table_of_an_output,
    table_of_real_numbers,
    table_behind_pooling,
    sum_whose_multiplier_is_no_power_of_two,
    sum_of_a_tensor_with_itself,
)


def operators(plan: Plan) -> set[str]:
    """Return the kinds of operators that are not fused."""
    kinds = set()
    for step in plan.steps:
        kinds |= {step.op} if isinstance(step, HostStep) else {layer.op for layer in step.layers}
    return kinds


def pooling_behind_a_convolution(net: EpilogueNet) -> Graph:
    return net.graph(net.pool(net.image(), (3, 3), strides=(2, 2), pads=(1, 1, 1, 1)))


def pooling_behind_a_rising_table(net: EpilogueNet) -> Graph:
    rising = np.sort(np.random.default_rng(2).integers(-128, 128, 256)).astype(np.int8)
    x = net.op("Int8Lookup", (net.image(), net.constant(rising)))
    return net.graph(net.pool(x, strides=(2, 2)))


def pooling_between_a_convolution_and_a_table(net: EpilogueNet) -> Graph:
    return net.graph(net.lookup(net.pool(net.image(), strides=(2, 2))))


POOLED = (
    pooling_behind_a_convolution,
    pooling_behind_a_rising_table,
    pooling_between_a_convolution_and_a_table,
)


@pytest.mark.parametrize("make", POOLED)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_pooling_of_sums_is_part_of_the_convolution(make, name):
    graph, config = make(EpilogueNet()), CONFIGS[name]
    plan = plan_of(graph, config)
    assert operators(plan) == {"Int8Conv"}
    for seed in (None, 0, 1):
        check(graph, plan, FunctionalDevice(config, plan.dram_bytes, seed))
    check(graph, plan, CycleDevice(config, plan.dram_bytes))


def pooling_of_a_value_that_others_read(net: EpilogueNet) -> Graph:
    x = net.image()
    return net.graph(net.pool(x, strides=(2, 2)), net.conv(x, 3))


def pooling_behind_a_table_that_falls(net: EpilogueNet) -> Graph:
    return net.graph(net.pool(net.lookup(net.image()), strides=(2, 2)))


def pooling_of_a_residual_sum(net: EpilogueNet) -> Graph:
    x = net.image(5)
    return net.graph(net.pool(net.sum(x, net.input(2, 5, 9, 7)), strides=(2, 2)))


def pooling_of_sums_that_may_wrap(net: EpilogueNet) -> Graph:
    weights = net.constant(net.integers(6, 3, 1, 1))
    words = parameter_words(np.array([1 << 30]), np.array([5]), np.array([20]))
    x = net.op(
        "Int8Conv", (net.input(2, 3, 9, 7), weights, net.constant(np.repeat(words, 6, 1))), **POINTWISE
    )
    return net.graph(net.pool(x, strides=(2, 2)))


def pooling_of_windows_that_overlap_by_half(net: EpilogueNet) -> Graph:
    return net.graph(net.pool(net.image(), (4, 4), strides=(2, 2)))


def pooling_of_depthwise_sums(net: EpilogueNet) -> Graph:
    x = net.conv(net.input(2, 12, 9, 7), 12, (3, 3), pads=(1, 1, 1, 1), group=12)
    return net.graph(net.pool(x, strides=(2, 2)))


POINTWISE = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1, "border": 0}


@pytest.mark.parametrize(
    "make",
    [
        pooling_of_a_value_that_others_read,
        pooling_behind_a_table_that_falls,
        pooling_of_a_residual_sum,
        pooling_of_sums_that_may_wrap,
        pooling_of_windows_that_overlap_by_half,
        pooling_of_depthwise_sums,
    ],
)
def test_a_pooling_that_is_not_of_sums_stays_apart(make):
    graph = make(EpilogueNet())
    plan = plan_of(graph, ALL)
    assert "Int8MaxPool" in operators(plan)
    check(graph, plan, FunctionalDevice(ALL, plan.dram_bytes))


def test_a_pooling_of_sums_must_take_fewer_cycles(monkeypatch):
    graph = pooling_behind_a_convolution(EpilogueNet())
    monkeypatch.setattr(groups, "least_cycles", lambda task, target: 0.0)
    assert "Int8MaxPool" in operators(plan_of(graph, ALL))


@pytest.mark.parametrize("make", FUSED)
@pytest.mark.parametrize("name", CONFIGS)
def test_an_operator_and_what_follows_it_are_one(make, name):
    (graph, left), config = make(EpilogueNet()), CONFIGS[name]
    plan = plan_of(graph, config)
    assert operators(plan) == left
    for seed in (None, 0, 1):
        check(graph, plan, FunctionalDevice(config, plan.dram_bytes, seed))
    check(graph, plan, CycleDevice(config, plan.dram_bytes))


@pytest.mark.parametrize("make", APART)
def test_what_the_store_unit_cannot_do_stays_apart(make):
    graph = make(EpilogueNet())
    plan = plan_of(graph, ALL)
    assert operators(plan) & {"Int8Lookup", "Int8Add"}
    check(graph, plan, FunctionalDevice(ALL, plan.dram_bytes))


@pytest.mark.parametrize(
    ("numbers", "follows"),
    [
        ({"addend": (1 << 30) - 1}, True),
        ({"addend": 1 << 30}, False),
        ({"addend": 1 - (1 << 30)}, True),
        ({"addend": -1 << 30}, False),
        ({"shift": 15}, True),
        ({"shift": 14}, False),
        ({"multiplier": 1, "shift": 14}, True),
        ({"multiplier": 0}, False),
    ],
)
def test_a_sum_follows_whose_parameters_the_store_unit_can_hold(numbers, follows):
    net = EpilogueNet()
    graph = net.graph(net.sum(net.image(), net.image(), **numbers))
    plan = plan_of(graph, ALL)
    assert ("Int8Add" not in operators(plan)) == follows
    check(graph, plan, FunctionalDevice(ALL, plan.dram_bytes))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_table_of_what_the_accelerator_makes_is_a_copy_through_it(name):
    graph, config = table_of_an_output(EpilogueNet()), CONFIGS[name]
    plan = plan_of(graph, config)
    assert [[layer.op for layer in step.layers] for step in plan.launches] == [["Int8Conv", "Int8Lookup"]]
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes))
    check(graph, plan, CycleDevice(config, plan.dram_bytes))


@pytest.mark.parametrize("make", FUSED)
def test_without_the_extensions_nothing_follows(make):
    graph, _ = make(EpilogueNet())
    placed = Placements(DefUse(graph))
    assert not any(grouped(placed, node, Target(TINY)) for node in graph.nodes)
    plan = plan_of(graph, TINY)
    assert operators(plan) == {node.op for node in graph.nodes}
    check(graph, plan, FunctionalDevice(TINY, plan.dram_bytes))


@pytest.mark.parametrize("make", [requantised_behind_a_convolution, scaled_behind_a_product])
def test_elements_that_all_change_alike_cost_no_program(make):
    graph, _ = make(EpilogueNet())
    product_ops = [node.op for node in graph.nodes if node.op == "Int8Conv"] or ["Int8MatMul"]
    assert [[layer.op for layer in step.layers] for step in plan_of(graph, ALL).launches] == [product_ops]


@pytest.mark.parametrize("config", [ALL, ALL.with_changes(batch=2)])
def test_what_follows_rows_of_an_image_follows_across_the_order_of_its_channels(config):
    """A block of a ConvNeXt: rows between convolutions of an image, and the image added after them."""
    net = EpilogueNet()
    image = net.conv(net.input(1, 3, 9, 7), 6, (3, 3), pads=(1, 1, 1, 1))
    rows = net.reshape(net.transpose(net.conv(image, 6), 0, 2, 3, 1), 63, 6)
    x = net.reshape(net.lookup(net.reshape(net.matmul(rows, 9), 1, 9, 7, 9)), 63, 9)
    scaled = net.matmul(net.reshape(net.matmul(x, 6), 1, 9, 7, 6), 6)
    graph = net.graph(net.conv(net.sum(net.transpose(scaled, 0, 3, 1, 2), image), 4))
    plan = plan_of(graph, config)
    if config.batch == 1:
        (launch,) = plan.launches
        products = [layer.op for layer in launch.layers if layer.op.startswith("Int8")]
        assert products == ["Int8Conv", "Int8Conv", "Int8MatMul", "Int8MatMul", "Int8MatMul", "Int8Conv"]
    for seed in (None, 0):
        check(graph, plan, FunctionalDevice(config, plan.dram_bytes, seed))


def test_rows_of_an_image_that_are_read_as_one_go_through_the_host():
    net = EpilogueNet()
    image = net.reshape(net.matmul(net.input(12, 6), 5), 1, 3, 4, 5)
    graph = net.graph(net.add(net.conv(image, 5), net.conv(image, 5)), net.requantise(image))
    plan = plan_of(graph, ALL)
    assert len(plan.launches) == 2
    check(graph, plan, FunctionalDevice(ALL, plan.dram_bytes))


def test_a_group_names_the_values_that_are_stored_nowhere():
    net = EpilogueNet()
    x = net.conv(net.input(1, 4, 3, 3), 4)
    rows = net.reshape(net.lookup(x), 1, 36)
    graph = net.graph(rows)
    convolution, view = place(graph, Target(ALL))
    assert convolution.inner == (x,)
    assert convolution.node.inputs == (*graph.nodes[0].inputs, *graph.nodes[1].inputs[1:])
    assert (convolution.output[0], view.node.result) == tuple(node.result for node in graph.nodes[1:])
