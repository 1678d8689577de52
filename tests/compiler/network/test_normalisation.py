"""Softmax and layer normalisation on the accelerator: results are those of the graph, and proved."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.graph.onnx.networks import model, node
from tests.compiler.network.test_groups import EpilogueNet
from tests.compiler.network.test_row_moves import difference, exact
from vdla.compiler.graph.integer_forms.normalisation import normal_parameters, softmax_parameters
from vdla.compiler.graph.integers import Quantisation
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.pipeline import SIMPLIFY
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.network.compile import integers_of
from vdla.compiler.network.offload import offload
from vdla.compiler.rules import Unfit
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.host.normalisation import softmax_powers
from vdla.runtime.module.plan import HostStep, Plan

EVERY = TINY.with_changes(name="every", extensions=tuple(Extension))
OTHERS = {
    "default": DEFAULT.with_changes(extensions=tuple(Extension)),
    "one port": EVERY.with_changes(acc_ports=1, requantise_lanes=2),
    "few tables": EVERY.with_changes(table_buffer_bytes=512),
    "wide out": EVERY.with_changes(block_out=8),
    "small accumulators": EVERY.with_changes(acc_buffer_bytes=2048),
}
SHARES = Quantisation(1 / 256, -128)


class NormalNet(EpilogueNet):
    """A graph in the making, with softmax and layer normalisation of the last dimension."""

    def softmax(self, x: str, scale: float = 0.05) -> str:
        powers = softmax_powers(np.float32(scale))
        parameters = softmax_parameters(powers, self.shape(x)[-1], SHARES)
        assert not isinstance(parameters, Unfit), parameters.reason
        return self.op("Int8Softmax", (x, *map(self.constant, parameters)), axis=-1)

    def normalise(self, x: str, *, centred: bool = True) -> str:
        columns = self.shape(x)[-1]
        weights, bias = self.rng.uniform(-1.5, 1.5, columns), self.rng.uniform(-0.5, 0.5, columns)
        parameters = normal_parameters(weights, bias, 3 * (0.04 / columns) ** 2, 0.04, Quantisation(0.03, 3))
        assert not isinstance(parameters, Unfit), parameters.reason
        factors, addends, epsilon = parameters
        inputs = x, self.constant(factors), self.constant(addends)
        return self.op("Int8LayerNormalization", inputs, epsilon=epsilon, centred=int(centred))

    def scores(self, a: str, b: str) -> str:
        """Add the products of matrices with transposed matrices, of equal stacks."""
        (*stack, rows, depth), columns = self.shape(a), self.shape(b)[-2]
        words = self.words(1, 5500.0 * depth**0.5)
        places = tuple(place for number in range(int(np.prod(stack))) for place in (number, 0))
        return self.op(
            "Int8Products",
            (a, b, words),
            a_places=tuple(place * rows for place in places),
            b_places=tuple(place * columns for place in places),
            places=tuple(place * rows for place in places),
            shape=(*stack, rows, columns),
            size=(rows, columns, depth),
            transposed=1,
            zeros=(0, 0),
        )


def softmax_between_products(net: NormalNet) -> Graph:
    return net.graph(net.matmul(net.softmax(net.matmul(net.input(5, 7), 9)), 6))


def normalisation_between_products(net: NormalNet) -> Graph:
    return net.graph(net.matmul(net.normalise(net.matmul(net.input(5, 7), 9)), 6))


def root_mean_square(net: NormalNet) -> Graph:
    return net.graph(net.normalise(net.matmul(net.input(3, 7), 12), centred=False))


def residual_stream(net: NormalNet) -> Graph:
    x = net.matmul(net.input(9, 8), 8)
    for _ in range(2):
        x = net.sum(net.matmul(net.lookup(net.matmul(net.normalise(x), 12)), 8), x)
    return net.graph(net.normalise(x))


def attention(net: NormalNet) -> Graph:
    queries, keys = net.matmul(net.input(6, 8), 8), net.matmul(net.input(10, 8), 8)
    return net.graph(net.softmax(net.scores(queries, keys)))


def attention_of_heads(net: NormalNet) -> Graph:
    shares = net.softmax(net.scores(net.input(1, 3, 5, 8), net.input(1, 3, 7, 8)))
    return net.graph(net.matmul(net.reshape(shares, 15, 7), 4))


def scores_that_are_read_twice(net: NormalNet) -> Graph:
    scores = net.scores(net.input(6, 8), net.input(10, 8))
    return net.graph(net.softmax(scores), net.lookup(scores))


def one_row(net: NormalNet) -> Graph:
    return net.graph(net.softmax(net.normalise(net.matmul(net.input(1, 5), 3))))


def rows_of_an_image(net: NormalNet) -> Graph:
    x = net.conv(net.input(1, 3, 5, 4), 8)
    return net.graph(net.normalise(net.op("Transpose", (x,), perm=(0, 2, 3, 1))))


def many_rows(net: NormalNet) -> Graph:
    return net.graph(net.softmax(net.normalise(net.matmul(net.input(300, 4), 4))))


NETWORKS = (
    softmax_between_products,
    normalisation_between_products,
    root_mean_square,
    residual_stream,
    attention,
    attention_of_heads,
    scores_that_are_read_twice,
    one_row,
    rows_of_an_image,
    many_rows,
)


def on_host(plan: Plan) -> set[str]:
    """Return the operators that a plan leaves to the host."""
    return {step.op for step in plan.steps if isinstance(step, HostStep)}


def check_rows(network: Callable[[NormalNet], Graph], config: AcceleratorConfig) -> None:
    """Check that a network is exact and proved, and normalises rows on the accelerator."""
    graph = network(NormalNet())
    plan = exact(graph, config)
    assert not on_host(plan) & {"Int8Softmax", "Int8LayerNormalization"}
    assert difference(graph, plan) == ""


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_rows_are_normalised_on_the_accelerator(network):
    check_rows(network, EVERY)


@pytest.mark.parametrize("config", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("network", [residual_stream, attention_of_heads], ids=["residual stream", "heads"])
def test_configurations_normalise_rows(network, config):
    check_rows(network, config)


def test_a_softmax_joins_the_product_that_makes_its_rows():
    plan = exact(attention(NormalNet()), EVERY)
    assert [layer.op for step in plan.launches for layer in step.layers].count("Int8Softmax") == 0


def test_scores_with_another_reader_are_stored():
    plan = exact(scores_that_are_read_twice(NormalNet()), EVERY)
    assert "Int8Softmax" in [layer.op for step in plan.launches for layer in step.layers]


def llama(columns: int, opset: int) -> Graph:
    """Return the simplified graph of a float file: sums that are divided by their root mean square, between
    products.

    Args:
        opset: from 23 on, the normalisation is one operator, else it is in pieces.
    """
    pieces = [
        node("Pow", "a two", "s"),
        node("ReduceMean", "s", "v", axes=[-1]),
        node("Add", "v e", "d"),
        node("Sqrt", "d", "r"),
        node("Div", "one r", "i"),
        node("Mul", "a i", "h"),
        node("Mul", "g h", "n"),
    ]
    whole = [node("RMSNormalization", "a g", "n", epsilon=1e-5)]
    nodes = [
        node("MatMul", "x w", "m"),
        node("Add", "m x", "a"),
        *(whole if opset >= 23 else pieces),
        node("MatMul", "n u", "p"),
        node("Add", "a p", "y"),
    ]
    for number, each in enumerate(nodes):
        each.name = f"node_{number}"
    rng = np.random.default_rng(0)
    constants = {name: rng.normal(size=(columns,) * 2).astype(np.float32) for name in "wu"}
    constants |= {"g": rng.uniform(0.5, 2, columns).astype(np.float32), "e": np.float32(1e-5)}
    constants |= {"one": np.float32(1), "two": np.float32(2)}
    return SIMPLIFY.run(load(model(nodes, {"x": (5, columns)}, ["y"], constants, opset)))


@pytest.mark.parametrize("opset", [13, 23], ids=["pieces", "operator"])
@pytest.mark.parametrize("columns", [8, 14])
def test_a_root_mean_square_of_a_float_file_is_a_part_of_one_launch(columns, opset):
    rng = np.random.default_rng(1)
    samples = [{"x": rng.normal(size=(5, columns)).astype(np.float32)} for _ in range(4)]
    simple = llama(columns, opset)
    assert [each.op for each in simple.nodes].count("RMSNormalization") == 1
    lowered = integers_of(simple, samples, Options(normalises=True))
    plan = exact(lowered.graph, EVERY)
    assert len(plan.launches) == 1
    assert on_host(plan) <= {"QuantizeLinear", "DequantizeLinear", "Add"}
    assert "Int8LayerNormalization" in [layer.op for step in plan.launches for layer in step.layers]
    assert difference(lowered.graph, plan) == ""


def reason(graph: Graph, config: AcceleratorConfig) -> str:
    unfit = offload(graph, graph.nodes[-1], Target(config))
    assert isinstance(unfit, Unfit)
    return unfit.reason


def test_what_does_not_fit_says_why():
    graph = root_mean_square(NormalNet())
    without = EVERY.with_changes(extensions=[each for each in Extension if each is not Extension.NORMALISE])
    assert "(--set extensions=+table,+normalise)" in reason(graph, without)
    assert "block_in = 8 and block_out = 4" in reason(graph, EVERY.with_changes(block_in=8))
    assert "batch = 2" in reason(graph, EVERY.with_changes(batch=2))
    wide = NormalNet()
    assert "rows of 1000 columns" in reason(wide.graph(wide.normalise(wide.input(2, 1000))), EVERY)
    first = NormalNet()
    first.softmax(first.input(3, 4))
    constants = first.nodes[-1].inputs[1:]
    columns = first.op("Int8Softmax", ("x0", *constants), axis=0)
    assert "axis = 0 of 2 dimensions" in reason(first.graph(columns), EVERY)
