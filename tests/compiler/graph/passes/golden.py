"""Passes as text before and after."""

import numpy as np

from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph, TensorType
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.pipeline import Pass
from vdla.compiler.graph.text import print_graph
from vdla.compiler.graph.verify import verify


def check_text(change: Pass, before: str, after: str | None = None) -> None:
    """Check what a pass makes of a graph (None: what it was), that it does no more when run again, and that
    the meaning stays."""
    graph = parse_graph(before)
    changed = change.run(graph)
    assert print_graph(changed) == (after or before)
    assert change.run(changed) == changed
    assert_same_meaning(graph, changed)


def assert_same_meaning(before: Graph, after: Graph) -> None:
    """Run both graphs on random inputs; 8-bit outputs may differ by one."""
    verify(after)
    rng = np.random.default_rng(0)
    for _ in range(8):
        inputs = {name: random_array(rng, type_) for name, type_ in before.inputs.items()}
        expected, results = interpret(before, inputs), interpret(after, inputs)
        assert list(expected) == list(results)
        for name, array in expected.items():
            assert array.dtype == results[name].dtype
            bound = 1e-5 if array.dtype.kind == "f" else 1
            np.testing.assert_allclose(
                results[name].astype(np.float64), array.astype(np.float64), rtol=0, atol=bound
            )


def random_array(rng: np.random.Generator, type_: TensorType) -> np.ndarray:
    """Return normally distributed floats, or integers of all values."""
    if type_.dtype == "float32":
        return rng.normal(scale=20, size=type_.shape).astype(np.float32)
    if type_.dtype == "bool":
        return rng.random(type_.shape) < 0.5
    limits = np.iinfo(type_.dtype)
    return rng.integers(limits.min, limits.max + 1, type_.shape).astype(type_.dtype)
