"""What the benchmark of the host measures, and how it judges."""

import numpy as np
import pytest

from tests.compiler.network.compiled import plan_of
from vdla.compiler.graph.parse import parse_graph
from vdla.hw.spec.presets import TINY

NETWORK = """\
def f(x: float32[3, 4], w: int8[3, 4]):
    s: float32 = constant(0.5)
    p: int8 = constant(0)
    k: int64[4, 1] = constant([[0], [32768], [16], [32640]])
    q: int8[3, 4] = QuantizeLinear(x, s, p, axis=1, name="q")
    a: int8[3, 4] = Int8Add(q, w, k, factors=(1, 1), name="a")
    y: float32[3, 4] = DequantizeLinear(a, s, p, axis=1, name="y")
    return y
"""


@pytest.fixture(scope="module")
def bench(script, on_one_thread):
    """Return scripts/bench_host.py."""
    return script("bench_host")


@pytest.fixture(scope="module")
def plan():
    return plan_of(parse_graph(NETWORK), TINY)


def test_operators_and_crossings_are_listed_in_order_with_what_they_read_and_write(bench, plan):
    steps = [
        (step.kind, [(array.dtype.name, array.shape) for array in step.arrays])
        for step in bench.steps_of(plan)
    ]
    wide, narrow = ("float32", (3, 4)), ("int8", (3, 4))
    blocks = ("int8", next(iter(plan.launches)).packs[0].layout.blocks)
    assert [kind for kind, _ in steps] == ["QuantizeLinear", "pack", "pack", "unpack", "DequantizeLinear"]
    assert [arrays for _, arrays in steps] == [
        [wide, narrow],
        [narrow, blocks],
        [narrow, blocks],
        [("int8", (int(np.prod(blocks[1])),)), narrow],
        [narrow, wide],
    ]


def test_every_step_and_a_run_are_timed(bench, plan):
    figures = bench.measure(plan, rounds=1)
    assert len(figures.steps) == 5
    assert all(seconds > 0 and copy > 0 for _, seconds, copy in figures.steps)
    assert figures.run > 0
    lines = list(bench.table(figures))
    assert [line.split()[:2] for line in lines[1:6:4]] == [["q", "QuantizeLinear"], ["y", "DequantizeLinear"]]


@pytest.mark.parametrize(("seconds", "verdict"), [(0.5, "ok    50.0%"), (0.51, "SHORT 51.0%")])
def test_half_of_a_run_is_allowed(bench, seconds, verdict):
    step = bench.Step("s", "Relu", lambda: None, (np.ones(3, np.float32),))
    *_, last = bench.table(bench.Figures(((step, seconds, 0.01),), 1.0))
    assert last == f"{verdict} of a run on the host, at most 50% allowed"
