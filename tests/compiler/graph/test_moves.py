"""Operators that move elements."""

import numpy as np
import pytest

from vdla.compiler.graph.interpret import run_node
from vdla.compiler.graph.nodes import REARRANGING, RESHAPING
from vdla.compiler.graph.parse import parse_graph

CALLS = {
    "Flatten": "int8[2, 12] = Flatten(x, axis=1)",
    "Reshape": "int8[6, 4] = Reshape(x, shape=(6, 4))",
    "Squeeze": "int8[2, 3, 4] = Squeeze(x, axes=(2,))",
    "Transpose": "int8[4, 1, 3, 2] = Transpose(x, perm=(3, 2, 1, 0))",
    "Unsqueeze": "int8[2, 3, 1, 4, 1] = Unsqueeze(x, axes=(4,))",
}


def test_every_moving_operator_is_covered():
    assert sorted(CALLS) == sorted(REARRANGING)


@pytest.mark.parametrize("op", CALLS)
def test_elements_are_permuted_and_only_transpose_changes_their_order(op):
    graph = parse_graph(f"def f(x: int8[2, 3, 1, 4]):\n    y: {CALLS[op]}\n    return y\n")
    x = np.arange(24, dtype=np.int8).reshape(2, 3, 1, 4)
    result = run_node(graph.nodes[0], {"x": x}, graph.types)["y"]
    assert result.shape == graph.types["y"].shape
    assert np.array_equal(np.sort(result, None), x.ravel())
    assert np.array_equal(result.ravel(), x.ravel()) == (op in RESHAPING)
