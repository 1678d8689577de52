"""Products of two activations: to the last bit what the graph means, whatever the places of their parts."""

import numpy as np
import pytest

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net
from tests.compiler.network.test_networks import check
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.lower.activation_products import MatrixParts
from vdla.compiler.network.compile import integer_graph
from vdla.compiler.network.offload import offload
from vdla.compiler.rules import Unfit
from vdla.hw.spec.presets import SMALL, TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.layout import Layout
from vdla.runtime.module.plan import HostStep

ALL = TINY.with_changes(name="all", extensions=tuple(Extension))
CONFIGS = {"all": ALL, "tiny": TINY, "blocks of 8": SMALL}
D = 8  # columns of a head


class Heads(Net):
    """A graph in the making, with products of activations."""

    def products(
        self,
        a: str,
        b: str,
        size: tuple[int, int, int],
        *,
        a_places: tuple[int, ...],
        b_places: tuple[int, ...],
        places: tuple[int, ...],
        shape: tuple[int, ...],
        transposed: int = 0,
        zeros: tuple[int, int] = (0, 0),
        tables: tuple[str, ...] = (),
    ) -> str:
        words = self.words(1, 5500.0 * size[2] ** 0.5)
        return self.op(
            "Int8Products",
            (a, b, words, *tables),
            size=size,
            a_places=a_places,
            b_places=b_places,
            places=places,
            shape=shape,
            transposed=transposed,
            zeros=zeros,
        )

    def scores(self, x: str, heads: int, rows: int, **more) -> str:
        """Multiply queries with keys, the first and second of three times `heads` heads."""
        return self.products(
            x,
            x,
            (rows, rows, D),
            a_places=beside(range(heads)),
            b_places=beside(range(heads, 2 * heads)),
            places=below(heads, rows),
            shape=(1, heads, rows, rows),
            transposed=1,
            **more,
        )

    def mixed(self, scores: str, x: str, heads: int, rows: int, **more) -> str:
        """Multiply scores with values, the last of three times `heads` heads."""
        return self.products(
            scores,
            x,
            (rows, D, rows),
            a_places=below(heads, rows),
            b_places=beside(range(2 * heads, 3 * heads)),
            places=beside(range(heads)),
            shape=(rows, heads * D),
            **more,
        )


def beside(heads: range) -> tuple[int, ...]:
    return tuple(place for head in heads for place in (0, D * head))


def below(heads: int, rows: int) -> tuple[int, ...]:
    return tuple(place for head in range(heads) for place in (head * rows, 0))


def attention(net: Heads, heads: int = 2, rows: int = 11, **more) -> Graph:
    """Attention without the host operators between its products."""
    x = net.matmul(net.input(rows, 6), 3 * heads * D)
    return net.graph(net.matmul(net.mixed(net.scores(x, heads, rows, **more), x, heads, rows, **more), 5))


def looked_up(net: Heads) -> Graph:
    x = net.matmul(net.input(9, 6), 3 * 2 * D)
    tables = tuple(net.constant(net.integers(256)) for _ in range(2))
    scores = net.scores(x, 2, 9, tables=tables)
    return net.graph(net.mixed(scores, x, 2, 9, tables=("", tables[1])))


def images_of_other_lengths(net: Heads) -> Graph:
    """Two images of 5 rows ask about 7 rows each, in one head of all columns but the last."""
    queries, keys = net.input(2, 5, D), net.input(2, 7, D)
    scores = net.products(
        queries,
        keys,
        (5, 7, D),
        a_places=(0, 0, 5, 0),
        b_places=(7, 0, 0, 0),
        places=(5, 0, 0, 0),
        shape=(2, 5, 7),
        transposed=1,
    )
    return net.graph(net.requantise(scores))


def many_rows(net: Heads) -> Graph:
    return attention(net, 1, 150)


GRAPHS = {
    "two heads": attention,
    "values looked up less a zero point": lambda net: attention(net, zeros=(-5, 0)),
    "looked up less zero points": lambda net: attention(net, zeros=(-128, 3)),
    "one head of whole blocks": lambda net: attention(net, 1, 8),
    "operands that are looked up": looked_up,
    "images of other lengths": images_of_other_lengths,
    "more rows than fit at once": many_rows,
}


@pytest.mark.parametrize("title", GRAPHS)
@pytest.mark.parametrize("name", CONFIGS)
def test_products_of_activations_are_exact(title, name):
    graph, config = GRAPHS[title](Heads()), CONFIGS[name]
    if not config.has(Extension.TABLE) and "looked up" in title:
        assert isinstance(offload(graph, graph.nodes[1], Target(config)), Unfit)
        return
    plan = plan_of(graph, config)
    assert not any(step.op == "Int8Products" for step in plan.steps if isinstance(step, HostStep))
    for seed in (None, 0, 1):
        check(graph, plan, FunctionalDevice(config, plan.dram_bytes, seed))
    check(graph, plan, CycleDevice(config, plan.dram_bytes))


def test_scores_that_stand_as_the_next_product_reads_them_stay_in_one_launch():
    plan = plan_of(attention(Heads()), ALL)
    assert [[layer.op for layer in step.layers] for step in plan.launches] == [
        ["Int8MatMul", "Int8Products", "Int8Products", "Int8MatMul"]
    ]


def test_scores_that_others_read_as_one_matrix_go_through_the_host():
    net = Heads()
    scores = net.scores(net.matmul(net.input(9, 6), 6 * D), 2, 9)
    graph = net.graph(net.matmul(net.op("Reshape", (scores,), shape=(18, 9)), 4))
    plan = plan_of(graph, ALL)
    assert len(plan.launches) == 2
    check(graph, plan, FunctionalDevice(ALL, plan.dram_bytes))


REFUSED = {
    "Int8Products with zero points 3 and 0; enable extension `table` (--set extensions=+table)": (
        TINY,
        lambda net: attention(net, zeros=(3, 0)),
    ),
    "Int8Products with operands that are looked up; enable extension `table` (--set extensions=+table)": (
        TINY,
        looked_up,
    ),
    "Int8Products with columns 0 to 8 and block_out = 16; the accelerator takes heads of whole blocks of "
    "channels": (ALL.with_changes(block_in=16, block_out=16), attention),
    "configuration two with batch = 2, block_in = 4 and block_out = 4; Int8Products needs a batch of 1 and "
    "block_in = block_out, as STOREs of block_out numbers make its weights, which have rows of block_in": (
        ALL.with_changes(name="two", batch=2),
        attention,
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_why_products_of_activations_stay_on_the_host(reason):
    config, make = REFUSED[reason]
    graph = make(Heads())
    (node,) = [node for node in graph.nodes if node.op == "Int8Products"][:1]
    unfit = offload(graph, node, Target(config))
    assert isinstance(unfit, Unfit)
    assert unfit.reason == reason
    plan = plan_of(graph, config)
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes))


FAULTS = {
    "4 rows from row 2 on of 8": MatrixParts((8, 16), ((2, 0),), 4, 8),
    "3 rows from row 0 on of 8": MatrixParts((8, 16), ((0, 0),), 3, 8),
    "columns 6 to 14 and block_out = 8": MatrixParts((8, 16), ((0, 6),), 8, 8),
    "columns 0 to 7 and block_out = 8": MatrixParts((8, 16), ((0, 0),), 8, 7),
    "": MatrixParts((8, 15), ((0, 8), (0, 0)), 8, 7),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_parts_are_whole_rows_and_blocks(fault):
    message = FAULTS[fault].fault(8)
    assert message == fault or (not fault and message == "columns 0 to 7 and block_out = 8")


def test_a_part_begins_where_its_layout_has_it():
    part = MatrixParts((2, 3, 20), ((3, 8), (0, 16)), 3, 4)
    layout = part.layout(8)
    assert layout == Layout((2, 3, 20), 8, 1, stack=2)
    values = np.arange(120).reshape(2, 3, 20)
    elements = layout.pack(values).reshape(-1, 8)
    assert [elements[begin, 0] for begin in part.begins(8)] == [values[1, 0, 8], values[0, 0, 16]]
    assert MatrixParts((3, 20), ((0, 0),), 3, 20).layout(8) == Layout((3, 20), 8, 1)
    assert MatrixParts((1, 1, 3, 20), ((0, 0),), 3, 20).layout(8).stack == 1


ATTENTION = """\
def f(x: float32[8, 16]):
    w: float32[16, 48] = constant(sha256="0")
    m: float32[8, 48] = MatMul(x, w)
    r: float32[8, 3, 2, 8] = Reshape(m, shape=(8, 3, 2, 8))
    t: float32[3, 2, 8, 8] = Transpose(r, perm=(1, 2, 0, 3))
    q: float32[1, 2, 8, 8]
    k: float32[1, 2, 8, 8]
    v: float32[1, 2, 8, 8]
    q, k, v = Split(t, axis=0, split=(1, 1, 1))
    d: float32 = constant(2.8284)
    g: float32[1, 2, 8, 8] = Div(q, d)
    i: float32[1, 2, 8, 8] = Transpose(k, perm=(0, 1, 3, 2))
    s: float32[1, 2, 8, 8] = MatMul(g, i)
    p: float32[1, 2, 8, 8] = Softmax(s, axis=-1)
    a: float32[1, 2, 8, 8] = MatMul(p, v)
    b: float32[1, 8, 2, 8] = Transpose(a, perm=(0, 2, 1, 3))
    c: float32[8, 16] = Reshape(b, shape=(8, 16))
    y: float32[8, 48] = MatMul(c, w)
    return y
"""


def test_attention_that_is_quantised_here_runs_in_one_launch():
    random = np.random.default_rng(0)
    weights = random.standard_normal((16, 48), np.float32)
    text = ATTENTION.replace('sha256="0"', str(weights.tolist()))
    samples = [{"x": random.standard_normal((8, 16), np.float32)} for _ in range(4)]
    graph = integer_graph(parse_graph(text), samples)
    plan = plan_of(graph, ALL)
    assert len(plan.launches) == 1
    ops = [step.op for step in plan.steps if isinstance(step, HostStep)]
    assert ops == ["QuantizeLinear", "DequantizeLinear"]
    check(graph, plan, FunctionalDevice(ALL, plan.dram_bytes))
