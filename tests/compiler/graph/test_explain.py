"""What passes do, as text."""

import pytest

from vdla.compiler.graph.explain import Explanation, StoppedError
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.passes.cleanup import DeadCode
from vdla.compiler.graph.pipeline import Pipeline
from vdla.compiler.graph.rewrites.canonical import FOLD_PADS, SPLIT_SUMS
from vdla.compiler.graph.text import print_graph

GRAPH = parse_graph("""\
def f(a: float32[1, 1, 4, 4], b: float32[1, 1, 4, 4]):
    c: float32[1, 1, 4, 4] = Sum(a, b, a, name="total")
    d: float32[1, 1, 8, 8] = Pad(c, mode="constant", pads=(0, 0, 2, 2, 0, 0, 2, 2), value=0.0)
    p: float32[1, 1, 7, 7] = MaxPool(d, ceil_mode=0, dilations=(1, 1), kernel_shape=(2, 2), pads=(0, 0, 0, 0), strides=(1, 1))
    e: float32[1, 1, 7, 7] = Relu(p)
    return p
""")
PASSES = Pipeline((SPLIT_SUMS, FOLD_PADS, DeadCode(), DeadCode()))
TEXT = """\
pass split_sums
  split_sum
    - c = Sum(a, b, a, name="total")
    + c_2 = Add(a, b, name="total")
    + c = Add(c_2, a, name="total")
pass fold_pads
  not fold_pad: MaxPool 'p': MaxPool cannot express the border of Pad 'd'
pass dead_code
  -1 Relu
pass dead_code:2
"""


def explained(stop_after: str = "") -> str:
    lines: list[str] = []
    explanation = Explanation(lines.append, stop_after)
    try:
        PASSES.run(GRAPH, explanation.trace)
        explanation.check_stopped()
    except StoppedError as stopped:
        return str(stopped)
    return "".join(f"{line}\n" for line in lines)


def test_rules_that_fired_and_nearly_matched_are_shown():
    assert explained() == TEXT


@pytest.mark.parametrize(
    ("stop_after", "passes"),
    [
        ("split_sums", PASSES.passes[:1]),
        ("fold_pads:1", PASSES.passes[:2]),
        ("dead_code", PASSES.passes[:3]),
        ("dead_code:2", PASSES.passes),
    ],
)
def test_the_graph_after_a_pass(stop_after, passes):
    assert explained(stop_after) == print_graph(Pipeline(passes).run(GRAPH))


def test_a_pass_that_does_not_run_is_refused():
    with pytest.raises(
        GraphError,
        match=r"no pass 'fold' has run; these have: split_sums, fold_pads, dead_code \(2 times\); NAME:2 is the",
    ):
        explained("fold")
