"""States whose ends have one scale are int8 between runs."""

import numpy as np
import pytest

from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.passes.narrow_states import NarrowStates
from vdla.compiler.graph.text import print_graph
from vdla.compiler.graph.verify import verify

BEFORE = """\
@state("past", "present", 1.0, 0)
def f(past: float32[2], x: int8[2]):
    s: float32 = constant(0.5)
    z: int8 = constant(3)
    a: int8[2] = QuantizeLinear(past, s, z, axis=0)
    b: int8[4] = Concat(a, x, axis=0)
    c: int8[2] = Slice(b, axes=(0,), ends=(3,), starts=(1,), steps=(1,))
    present: float32[2] = DequantizeLinear(c, s, z, axis=0)
    return b, present
"""
AFTER = """\
@state("past", "present", 0.5, 3)
def f(past: int8[2], x: int8[2]):
    b: int8[4] = Concat(past, x, axis=0)
    present: int8[2] = Slice(b, axes=(0,), ends=(3,), starts=(1,), steps=(1,))
    return b, present
"""
READ_BY_OTHERS = """\
@state("past", "present", 0.5, 3)
def f(past: int8[2], x: int8[2]):
    b: int8[4] = Concat(past, x, axis=0)
    present: int8[2] = Slice(b, axes=(0,), ends=(3,), starts=(1,), steps=(1,))
    s: float32 = constant(0.5)
    z: int8 = constant(3)
    present_real: float32[2] = DequantizeLinear(present, s, z, axis=0)
    d: float32[2] = Neg(present_real)
    e: uint8[2] = FlipSign(present)
    return b, present, d, e
"""


def with_readers(text: str, *lines: str, results: str) -> str:
    """Return a graph with further operators and results."""
    return text.replace(
        "    return b, present", "".join(f"    {line}\n" for line in lines) + f"    return {results}"
    )


def runs_of(graph: Graph) -> list[dict[str, np.ndarray]]:
    """Return the outputs of some runs, each of which takes the states of the run before, as real numbers."""
    states = {
        name: np.full(graph.types[name].shape, state.zero, graph.types[name].dtype)
        for name, state in graph.states.items()
    }
    runs = []
    for value in range(4):
        outputs = interpret(graph, {"x": np.array([value, -value], np.int8), **states})
        states = {name: outputs[state.output] for name, state in graph.states.items()}
        real = {
            state.output: (outputs[state.output].astype(np.float32) - state.zero) * np.float32(state.scale)
            for state in graph.states.values()
        }
        runs.append(outputs | real)
    return runs


READERS = "d: float32[2] = Neg(present)", "e: uint8[2] = FlipSign(c)"
NARROWED = {
    "both ends lose their conversions": (BEFORE, AFTER),
    "other readers keep what they read": (
        with_readers(BEFORE, *READERS, results="b, present, d, e"),
        READ_BY_OTHERS,
    ),
}


@pytest.mark.parametrize("title", NARROWED)
def test_a_state_of_one_scale_becomes_int8(title):
    before, after = map(parse_graph, NARROWED[title])
    changed = NarrowStates().run(before)
    verify(changed)
    assert print_graph(changed) == print_graph(after)
    assert NarrowStates().run(changed) == changed
    for expected, results in zip(runs_of(before), runs_of(changed), strict=True):
        assert {name: array.tolist() for name, array in results.items()} == {
            name: array.tolist() for name, array in expected.items()
        }


UNCHANGED = {
    "the output has another scale": BEFORE.replace("(c, s", "(c, t").replace(
        "    present:", "    t: float32 = constant(0.25)\n    present:"
    ),
    "an operator reads the input in float": with_readers(
        BEFORE, "d: float32[2] = Neg(past)", results="b, present, d"
    ),
    "the int8 value is an output, too": with_readers(BEFORE, results="c, b, present"),
    "the output is the input": BEFORE.replace('"present"', '"past"').replace("return b", "return past, b"),
    "the scale differs by element": BEFORE.replace(
        "s: float32 = constant(0.5)", "s: float32[2] = constant([0.5, 1.0])"
    ).replace("z: int8 = constant(3)", "z: int8[2] = constant([3, 3])"),
}


@pytest.mark.parametrize("title", UNCHANGED)
def test_other_states_stay_as_they_are(title):
    graph = parse_graph(UNCHANGED[title])
    verify(graph)
    assert NarrowStates().run(graph) == graph
