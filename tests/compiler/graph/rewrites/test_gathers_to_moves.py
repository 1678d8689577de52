"""Gathers of constant indices as shuffles and slices."""

import numpy as np
import pytest

from tests.compiler.graph.onnx.networks import model, node
from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.rewrites.canonical import GATHERS_TO_MOVES
from vdla.compiler.network.compile import compile_network
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.target import Target

BEFORE = """\
def f(x: float32[1, 6, 2, 2]):
    i: int64[6] = constant([0, 2, 4, 1, 3, 5])
    y: float32[1, 6, 2, 2] = Gather(x, i, axis=1)
    return y
"""
AFTER = """\
def f(x: float32[1, 6, 2, 2]):
    y_groups: float32[1, 3, 2, 2, 2] = Reshape(x, shape=(1, 3, 2, 2, 2))
    y_turned: float32[1, 2, 3, 2, 2] = Transpose(y_groups, perm=(0, 2, 1, 3, 4))
    y: float32[1, 6, 2, 2] = Reshape(y_turned, shape=(1, 6, 2, 2))
    return y
"""


def test_the_text_before_and_after():
    check_text(GATHERS_TO_MOVES, BEFORE, AFTER)


def gathered(indices: list[int], axis: int = 1, shape=(1, 6, 2, 2)) -> Graph:
    out = list(shape)
    out[axis] = len(indices)
    text = f"def f(x: float32{list(shape)}):\n    i: int64[{len(indices)}] = constant({indices})\n"
    return parse_graph(text + f"    y: float32{out} = Gather(x, i, axis={axis})\n    return y\n")


SHUFFLE, SLICE, GATHER = ["Reshape", "Transpose", "Reshape"], ["Slice"], ["Gather"]


@pytest.mark.parametrize(
    ("graph", "ops"),
    [
        (gathered([0, 2, 4, 1, 3, 5]), SHUFFLE),
        (gathered([0, 3, 1, 4, 2, 5]), SHUFFLE),
        (gathered([0, -3, 1, -2, 2, -1]), SHUFFLE),
        (gathered([0, 2, 1, 3], 0, (4, 3)), SHUFFLE),
        (gathered([0, 2, 1, 3], 2, (2, 3, 4)), SHUFFLE),
        (gathered([0, 1, 2, 3, 4, 5]), SLICE),
        (gathered([1, 3, 5]), SLICE),
        (gathered([-2]), SLICE),
        (gathered([2, 3]), SLICE),
        (gathered([5, 4, 3, 2, 1, 0]), GATHER),
        (gathered([0, 2, 4, 1, 5, 3]), GATHER),
        (gathered([0, 4, 1, 5, 2, 3]), GATHER),
        (gathered([0, 0, 0]), GATHER),
        (gathered([2, 4, 1, 3, 5, 0]), GATHER),
        (gathered([0, 2, 1, 3]), GATHER),
    ],
)
def test_indices_in_turn_are_shuffles_and_even_steps_slices(graph, ops):
    changed = GATHERS_TO_MOVES.run(graph)
    assert [graph_node.op for graph_node in changed.nodes] == ops
    shape = graph.types["x"].shape
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    expected, result = (interpret(variant, {"x": x})["y"] for variant in (graph, changed))
    np.testing.assert_array_equal(result, expected)


def test_indices_that_are_computed_stay():
    text = (
        "def f(x: float32[4, 3], i: int64[2]):\n    y: float32[2, 3] = Gather(x, i, axis=0)\n    return y\n"
    )
    graph = parse_graph(text)
    assert GATHERS_TO_MOVES.run(graph) == graph


def unit(gathers: bool) -> list:
    """Return two grouped convolutions with a shuffle between, by Gather or by Reshape and Transpose."""
    moves = [node("Gather", "a order", "s", axis=1)]
    if not gathers:
        moves = [
            node("Reshape", "a parts", "p"),
            node("Transpose", "p", "t", perm=[0, 2, 1, 3, 4]),
            node("Reshape", "t whole", "s"),
        ]
    return [node("Conv", "x w", "a"), *moves, node("Conv", "s v", "y", group=4)]


def test_a_shuffle_by_gather_is_one_launch_as_one_by_reshape_and_transpose():
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.normal(size=(64, 32, 1, 1)).astype(np.float32),
        "v": rng.normal(size=(64, 16, 1, 1)).astype(np.float32),
        "order": np.arange(64).reshape(4, 16).T.reshape(-1),
        "parts": np.array([1, 4, 16, 6, 6]),
        "whole": np.array([1, 64, 6, 6]),
    }
    samples = [{"x": rng.normal(size=(1, 32, 6, 6)).astype(np.float32)} for _ in range(2)]
    plans = [
        compile_network(
            model(unit(gathers), {"x": [1, 32, 6, 6]}, ["y"], constants).SerializeToString(),
            Target(DEFAULT),
            samples=samples,
        ).plan
        for gathers in (True, False)
    ]
    assert [len(plan.launches) for plan in plans] == [1, 1]
    assert len({len(plan.host_steps) for plan in plans}) == 1
