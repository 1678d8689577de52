"""Row operators with windows become image operators: which, what stands around them, and the same meaning."""

import numpy as np
import pytest

from tests.compiler.graph.passes.golden import assert_same_meaning
from tests.compiler.graph.passes.qdq import QdqBuilder
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.passes.merge_moves import MergeMoves
from vdla.compiler.graph.passes.rows_to_images import RowsToImages
from vdla.compiler.graph.pipeline import FLOATS, INTEGERS

ONCE = {"dilations": (1,), "group": 1, "pads": (0, 0), "strides": (1,)}
WINDOW = {"ceil_mode": 0, "dilations": (1,), "kernel_shape": (4,), "pads": (1, 2), "strides": (3,)}


def conv(of: QdqBuilder, x: str, outputs: int, kernel: int, **attributes) -> str:
    inputs = of.values[x].shape[1]
    return of.add("Conv", x, of.weights(outputs, inputs, kernel, axis=0), **{**ONCE, **attributes})


def classifier() -> Graph:
    of = QdqBuilder(0)
    x = of.pair(of.add("Relu", conv(of, of.quantised(1, 3, 40), 8, 5, pads=(2, 1), strides=(2,))))
    x = of.pair(of.add("MaxPool", x, **WINDOW))
    x = of.pair(of.add("Add", x, of.pair(of.add("Relu", conv(of, x, 8, 3, pads=(1, 1))))))
    x = of.pair(of.add("GlobalAveragePool", x))
    return of.finish(of.pair(of.add("Flatten", x, axis=1)))


def rows_that_go_out() -> Graph:
    of = QdqBuilder(1)
    first = conv(of, of.quantised(2, 3, 9), 4, 3, dilations=(2,))
    return of.finish(first, of.add("Transpose", of.add("Sigmoid", first), perm=(0, 2, 1)))


def joined_and_split() -> Graph:
    of = QdqBuilder(2)
    x = of.input(1, 4, 12)
    pooled = of.add("AveragePool", x, **WINDOW, count_include_pad=1)
    both = of.add("Concat", pooled, of.add("GlobalAveragePool", x), axis=2)
    left, right = of.add_many("Split", 2, both, axis=1, split=(1, 3))
    scaled = of.add("Mul", right, of.constant(np.float32([[[2.0], [3.0], [4.0]]])))
    return of.finish(left, of.add("Reshape", scaled, shape=(3, -1)))


def spread() -> Graph:
    of = QdqBuilder(3)
    attributes = {**ONCE, "output_padding": (1,), "strides": (2,)}
    weights = of.constant(of.rng.normal(size=(3, 5, 4)).astype(np.float32))
    return of.finish(of.add("Relu", of.add("ConvTranspose", of.input(1, 3, 7), weights, **attributes)))


def images_of_one_row() -> Graph:
    """Rows, as exporters write them around two-dimensional convolutions."""
    of = QdqBuilder(4)
    attributes = {"dilations": (1, 1), "group": 1, "pads": (0, 1, 0, 1), "strides": (1, 1)}
    first = of.add("Conv", of.input(1, 3, 1, 9), of.weights(4, 3, 1, 3, axis=0), **attributes)
    rows = of.add("Reshape", first, shape=(1, 4, 9))
    parameters = of.constant(np.arange(1, 5).astype(np.float32))
    normal = of.add("BatchNormalization", rows, parameters, parameters, parameters, parameters, epsilon=1e-5)
    image = of.add("Unsqueeze", of.add("Mul", normal, of.add("Sigmoid", normal)), axes=(2,))
    return of.finish(of.add("Conv", image, of.weights(4, 4, 1, 3, axis=0), **attributes))


GRAPHS = (classifier, rows_that_go_out, joined_and_split, spread, images_of_one_row)
WINDOWED = {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool"}


@pytest.mark.parametrize("make", GRAPHS)
def test_windows_are_those_of_images_and_the_meaning_stays(make):
    graph = make()
    changed = RowsToImages().run(graph)
    windowed = [node for node in changed.nodes if node.op in WINDOWED]
    assert len(windowed) == sum(node.op in WINDOWED for node in graph.nodes)
    for node in windowed:
        assert len(changed.types[node.inputs[0]].shape) == len(changed.types[node.outputs[0]].shape) == 4
    assert RowsToImages().run(changed) == changed
    assert_same_meaning(graph, changed)


def test_nothing_stands_between_operators_that_became_those_of_images():
    changed = RowsToImages().run(classifier())
    assert [
        node.op for node in changed.nodes if node.op in ("Squeeze", "Unsqueeze", "Reshape", "Flatten")
    ] == [
        "Unsqueeze",
        "Reshape",
    ]


def test_operators_between_images_of_one_row_are_those_of_images():
    graph = images_of_one_row()
    changed = MergeMoves().run(RowsToImages().run(graph))
    floats = [node.op for node in changed.nodes if node.op != "DequantizeLinear"]
    assert floats == ["Conv", "BatchNormalization", "Sigmoid", "Mul", "Conv"]
    assert_same_meaning(graph, changed)


def test_values_keep_their_names():
    graph = classifier()
    changed = RowsToImages().run(graph)
    quantised = {node.outputs[0] for node in graph.nodes if node.op == "QuantizeLinear"}
    assert quantised <= changed.types.keys()


def test_a_quantised_network_of_rows_has_integer_operators():
    lowered = [node.op for node in INTEGERS.run(FLOATS.run(classifier())).nodes]
    assert lowered.count("Int8Conv") == 2
    assert {"Int8AveragePool", "Int8MaxPool", "Int8Add"} <= set(lowered)
    assert not WINDOWED & set(lowered)


def test_rows_without_windows_are_left_alone():
    of = QdqBuilder(4)
    x = of.quantised(1, 7, 6)
    graph = of.finish(of.add("Softmax", of.add("Add", x, x), axis=2))
    assert RowsToImages().run(graph) is graph
