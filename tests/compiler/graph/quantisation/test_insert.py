"""Insertion of conversions by roles."""

import numpy as np

from tests.compiler.graph.quantisation.graphs import attention, residual
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
