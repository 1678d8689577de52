"""Borders of zeros go into windows."""

import pytest

from tests.compiler.graph.passes.golden import assert_same_meaning
from tests.compiler.graph.passes.qdq import QdqBuilder
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.pipeline import INTEGERS
from vdla.compiler.graph.rewrites.canonical import FOLD_PADS

CONV = {"dilations": (1, 1), "group": 1, "pads": (1, 0, 0, 1), "strides": (2, 2)}
POOL = {"ceil_mode": 0, "dilations": (1, 1), "kernel_shape": (3, 3), "pads": (0, 0, 0, 0), "strides": (2, 2)}
BORDER = {"mode": "constant", "pads": (0, 0, 1, 0, 0, 0, 1, 2), "value": 0.0}
SHAPE = (2, 3, 6, 7)


def conv(of: QdqBuilder, x: str, **changed) -> str:
    return of.add("Conv", x, of.weights(4, 3, 3, 3, axis=0), **{**CONV, **changed})


def straight(op: str, border: dict | None = None, before: str = "", **changed) -> Graph:
    """Return a window behind a Pad, with the attributes that differ."""
    of = QdqBuilder(0)
    x = of.input(*SHAPE)
    x = of.add("Pad", of.add(before, x) if before else x, **{**BORDER, **(border or {})})
    if op == "Conv":
        return of.finish(conv(of, x, **changed))
    counts = {"count_include_pad": 0} if op == "AveragePool" else {}
    return of.finish(of.add(op, x, **{**POOL, **counts, **changed}))


def between_conversions(again: float = 0.1, zero: int = 3, op: str = "Conv") -> Graph:
    of = QdqBuilder(1)
    x = of.pair(of.input(*SHAPE), 0.1, zero=zero)
    x = of.pair(of.add("Pad", x, **BORDER), again, zero=zero)
    return of.finish(of.pair(conv(of, x) if op == "Conv" else of.add(op, x, **POOL)))


def read_twice() -> Graph:
    of = QdqBuilder(2)
    x = of.add("Pad", of.input(*SHAPE), **BORDER)
    return of.finish(conv(of, x), of.add("Neg", x))


ROWS = {"mode": "constant", "pads": (0, 0, 1, 0, 0, 2), "value": 0.0}


def rows() -> Graph:
    of = QdqBuilder(3)
    weights = of.weights(4, 3, 3, axis=0)
    x = of.add("Pad", of.input(1, 3, 8), **ROWS)
    return of.finish(of.add("Conv", x, weights, dilations=(1,), group=1, pads=(1, 1), strides=(1,)))


def pooled(before: str, least: float | None = None, zero: int = -128) -> Graph:
    """Return a MaxPool behind a Pad of a value that is bounded and quantised with a zero point."""
    of = QdqBuilder(5)
    x = of.input(*SHAPE)
    x = of.add(before, x) if least is None else of.add(before, x, min=least, max=9.0)
    x = of.pair(x, 0.1, zero=zero)
    x = of.add("Pad", of.add("MaxPool", x, **{**POOL, "strides": (1, 1)}), **BORDER)
    return of.finish(of.add("MaxPool", x, **POOL))


FOLDED = {
    "a convolution": (straight("Conv"), "Conv", (2, 0, 1, 3)),
    "a convolution of rows": (rows(), "Conv", (2, 3)),
    "an average": (straight("AveragePool"), "AveragePool", (1, 0, 1, 2)),
    "an average that counts its border": (
        straight("AveragePool", pads=(1, 1, 0, 0), count_include_pad=1),
        "AveragePool",
        (2, 1, 1, 2),
    ),
    "a maximum behind Relu": (straight("MaxPool", before="Relu"), "MaxPool", (1, 0, 1, 2)),
    "a convolution behind conversions": (between_conversions(), "Conv", (2, 0, 1, 3)),
    "a maximum of integers from 0 on": (
        between_conversions(zero=-128, op="MaxPool"),
        "MaxPool",
        (1, 0, 1, 2),
    ),
    "a border that is read twice": (read_twice(), "Conv", (2, 0, 1, 3)),
}
LAST = {
    "a maximum of a bounded value, at any zero point": pooled("Clip", 0.0, zero=5),
    "a maximum of a bounded value above 0": pooled("Clip", 0.5, zero=5),
    "a maximum behind one of integers from 0 on": pooled("Neg"),
}


@pytest.mark.parametrize("title", LAST)
def test_a_maximum_of_no_negative_numbers_has_the_border(title):
    changed = FOLD_PADS.run(LAST[title])
    assert "Pad" not in [node.op for node in changed.nodes]
    assert changed.nodes[-1].extents("pads") == (1, 0, 1, 2)
    assert_same_meaning(LAST[title], changed)


@pytest.mark.parametrize("title", FOLDED)
def test_the_window_has_the_border(title):
    graph, op, pads = FOLDED[title]
    changed = FOLD_PADS.run(graph)
    (window,) = (node for node in changed.nodes if node.op == op)
    assert window.extents("pads") == pads
    assert ("Pad" in [node.op for node in changed.nodes]) == (title == "a border that is read twice")
    assert FOLD_PADS.run(changed) == changed
    assert_same_meaning(graph, changed)


LEFT_ALONE = {
    "another number": straight("Conv", {"value": 1.0}),
    "reflections": straight("Conv", {"mode": "reflect"}),
    "a border that is taken away": straight("Conv", {"pads": (0, 0, -1, 0, 0, 0, 0, 0)}),
    "an average that does not count its border": straight("AveragePool", pads=(1, 1, 1, 1)),
    "a maximum of any numbers": straight("MaxPool"),
    "a maximum behind Neg": straight("MaxPool", before="Neg"),
    "a border as wide as the window": straight("AveragePool", {"pads": (0, 0, 3, 0, 0, 0, 0, 0)}),
    "windows that stick out": straight("AveragePool", ceil_mode=1),
    "another scale behind it": between_conversions(0.2),
    "a maximum of a value bounded by less than 0": pooled("Clip", -0.5, zero=5),
    "a maximum of integers from less than 0 on": pooled("Neg", zero=-127),
    "a border as wide as the smaller extent of the window": straight(
        "AveragePool", {"pads": (0, 0, 2, 0, 0, 0, 0, 0)}, kernel_shape=(2, 3)
    ),
    "a border that is counted beside one that is not": straight("AveragePool", pads=(0, 0, 0, 1)),
    "a border of images": straight("AveragePool", {"pads": (1, 0, 1, 0, 0, 0, 0, 0)}),
    "a border behind images": straight("AveragePool", {"pads": (0, 0, 1, 0, 2, 0, 0, 0)}),
    "a border behind channels": straight("AveragePool", {"pads": (0, 0, 1, 0, 0, 2, 0, 0)}),
    "a maximum of signed integers": between_conversions(op="MaxPool"),
}


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_left_alone(title):
    graph = LEFT_ALONE[title]
    assert FOLD_PADS.run(graph) == graph


def test_a_border_of_channels_stays():
    of = QdqBuilder(4)
    x = of.add("Pad", of.input(1, 2, 6, 7), mode="constant", pads=(0, 1, 0, 0, 0, 0, 0, 0), value=0.0)
    graph = of.finish(conv(of, x))
    assert FOLD_PADS.run(graph) == graph


def test_quantised_networks_have_no_pad():
    changed = INTEGERS.run(FOLD_PADS.run(between_conversions()))
    assert [node.op for node in changed.nodes if node.op in ("Pad", "Int8Conv")] == ["Int8Conv"]
