"""Insertion of conversions by roles."""

import numpy as np

from tests.compiler.graph.quantisation.graphs import attention, residual
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.pipeline import INTEGERS
from vdla.compiler.graph.quantisation.grids import Grid
from vdla.compiler.graph.quantisation.insert import with_grids
from vdla.compiler.graph.quantisation.roles import Roles


def test_pairs_have_the_grids_of_their_leaders():
    roles = Roles(residual())
    grids = {name: Grid(np.float32(2**-place), place) for place, name in enumerate(roles.leaders)}
    quantised = with_grids(roles, grids)
    parameters = {
        node.inputs[0]: tuple(quantised.constants[name].item() for name in node.inputs[1:])
        for node in quantised.nodes
        if node.op == "QuantizeLinear"
    }
    assert parameters == {"n": (1, 0), "a": (0.5, 1), "g": (0.25, 2), "d": (0.125, 3)}


def test_attention_becomes_integer_operators_and_reads_heads_in_place():
    roles = Roles(attention())
    grids = dict.fromkeys(roles.leaders, Grid(np.float32(0.125)))
    graph = INTEGERS.run(with_grids(roles, grids))
    assert [node.op for node in graph.nodes] == [
        "QuantizeLinear",
        "Int8MatMul",
        "Int8Products",
        "Int8Softmax",
        "Int8Products",
        "DequantizeLinear",
    ]
    assert all(len(node.inputs) == 3 for node in graph.nodes if node.op == "Int8Products")  # no tables


OPERANDS = """\
def f(x: float32[1, 2, 4], g: float32[1, 1, 4]):
    w: float32[4, 4] = constant([[1, 2, 0, 0], [0, 1, 3, 0], [0, 0, 1, 4], [5, 0, 0, 1]])
    c: float32[1, 4] = constant([[1, 2, 3, 4]])
    m: float32[1, 2, 4] = MatMul(x, w)
    a: float32[1, 2, 4] = Mul(m, g)
    b: float32[1, 2, 4] = Add(a, c)
    d: float32[1, 2, 4] = Add(b, c)
    y: float32[1, 2, 4] = MatMul(d, w)
    return y
"""


def test_given_operands_are_expanded_once():
    roles = Roles(parse_graph(OPERANDS))
    graph = with_grids(roles, dict.fromkeys(roles.leaders, Grid(np.float32(0.5), 1)))
    (expand,) = [node for node in graph.nodes if node.op == "Expand"]
    assert graph.types[expand.inputs[0]].dtype == graph.types[expand.result].dtype == "int8"
    assert graph.types[expand.result].shape == (1, 2, 4)
    wide = [array for array in graph.constants.values() if array.shape == (1, 2, 4)]
    np.testing.assert_array_equal(wide, [np.broadcast_to(np.int8([3, 5, 7, 9]), (1, 2, 4))])
    assert "Int8Mul" in [node.op for node in INTEGERS.run(graph).nodes]
