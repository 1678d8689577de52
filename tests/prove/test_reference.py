"""Graphs over elements: with constants they compute what the interpreter computes."""

import numpy as np
import pytest

from tests.compiler.network.graphs import HANDMADE, Net, random_graph, random_inputs
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph, GraphError, Node, TensorType
from vdla.hw.spec.errors import VdlaError
from vdla.prove.domain import Domain
from vdla.prove.reference import constant_elements, evaluate, inputs_of, results_of

GRAPHS = {
    **{name: lambda make=make: make(Net()) for name, make in HANDMADE.items()},
    **{f"random {seed}": lambda seed=seed: random_graph(seed) for seed in range(20)},
}


@pytest.mark.parametrize("name", GRAPHS)
def test_constants_give_the_values_of_the_interpreter(name):
    graph, domain = GRAPHS[name](), Domain(1)
    for seed in range(2):
        feeds = random_inputs(graph, seed)
        inputs = {name: constant_elements(domain, array) for name, array in feeds.items()}
        results = evaluate(domain, graph, inputs)
        for output, values in interpret(graph, feeds).items():
            assert (results[output] == constant_elements(domain, values)).all()


def of_one_node(node, shapes, result, **constants):
    arrays = {name: np.asarray(array) for name, array in constants.items()}
    types = {name: TensorType(shape, "float32") for name, shape in shapes.items()}
    types |= {name: TensorType(array.shape, str(array.dtype)) for name, array in arrays.items()}
    types |= dict.fromkeys(node.outputs, result)
    return Graph("net", {name: types[name] for name in shapes}, node.outputs, (node,), arrays, types)


SOFTMAX = Node("Softmax", ("x",), ("y",), {"axis": 0})


def test_other_operators_are_functions_of_all_their_inputs():
    domain, result = Domain(1), TensorType((4,), "float32")
    graph = of_one_node(SOFTMAX, {"x": (4,)}, result)
    x = inputs_of(domain, graph)
    first, again = (evaluate(domain, graph, x)["y"] for _ in range(2))
    assert (first == again).all()
    assert len(np.unique(first)) == 4
    swapped = evaluate(domain, graph, {"x": x["x"][[1, 0, 2, 3]]})["y"]
    assert not (first == swapped).any()
    other = of_one_node(Node("Softmax", ("x",), ("y",), {"axis": -1}), {"x": (4,)}, result)
    assert not (first == evaluate(domain, other, x)["y"]).any()


def test_the_border_of_an_image_of_real_numbers_is_quantised():
    domain, scale, zero = Domain(1), np.float32(0.5), np.int8(3)
    node = Node("Pad", ("x",), ("y",), {"mode": "constant", "pads": (0, 2), "value": 2.0})
    padded = of_one_node(node, {"x": (3,)}, TensorType((5,), "float32"))
    inner = Node("QuantizeLinear", ("y", "scale", "zero"), ("z",), {"axis": 0})
    quantised = of_one_node(inner, {"y": (5,)}, TensorType((5,), "int8"), scale=scale, zero=zero)
    result = evaluate(domain, quantised, evaluate(domain, padded))["z"]
    assert (result[3:] == domain.constants(np.array([7, 7]))).all()
    assert result["kind"][:3].all()


def test_tensors_of_unknown_extents_are_one_element():
    domain = Domain(1)
    graph = of_one_node(SOFTMAX, {"x": (4,)}, TensorType((-1,), "float32"))
    assert evaluate(domain, graph)["y"].shape == ()


def test_constants_of_all_types_are_told_apart():
    domain = Domain(1)
    arrays = [
        np.array([1, 2], dtype) for dtype in ("int32", "float32", "int64", "float64", "int16", "float16")
    ]
    elements = [constant_elements(domain, array) for array in arrays]
    assert len(np.unique(np.concatenate(elements))) == 2 * len(arrays)
    for array, each in zip(arrays, elements, strict=True):
        assert (constant_elements(domain, array.copy()) == each).all()


def test_a_wrong_type_is_refused():
    domain = Domain(1)
    graph = of_one_node(
        Node("Reshape", ("x",), ("y",), {"shape": (2, 2)}), {"x": (4,)}, TensorType((4, 1), "float32")
    )
    with pytest.raises(GraphError, match=r"Reshape 'y' made y of the extents \(2, 2\)"):
        evaluate(domain, graph)


def test_operators_that_refuse_their_inputs_are_named():
    domain = Domain(1)
    graph = of_one_node(
        Node("Reshape", ("x",), ("y",), {"shape": (3,)}), {"x": (4,)}, TensorType((3,), "float32")
    )
    with pytest.raises(VdlaError, match="Reshape 'y'"):
        results_of(domain, graph, graph.nodes[0], inputs_of(domain, graph))
