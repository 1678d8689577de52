"""The node tests of the ONNX operator specification, as the `onnx` package makes them."""

from collections import Counter

import pytest
from onnx_node_tests import Outcome, cases, outcome

from vdla.runtime.host.evaluate import OPERATORS

TESTED_ELSEWHERE = {"And", "Not", "Xor"}  # the suite has them for other types or operator sets alone


@pytest.fixture(scope="module")
def outcomes() -> list[tuple[str, Outcome]]:
    """Run the suite; return the outcomes, each with the operator of the test's last node."""
    return [(case.model.graph.node[-1].op_type, outcome(case)) for case in cases()]


def named(outcomes, verdict: str) -> list[tuple[str, str]]:
    """Return the names and reasons of the tests of a verdict."""
    return [(each.name, each.reason) for _, each in outcomes if each.verdict == verdict]


def test_no_result_is_wrong(outcomes):
    assert named(outcomes, "wrong") == []


def test_nothing_is_refused_that_onnxruntime_runs(outcomes):
    assert named(outcomes, "refused") == []


def test_every_operator_passes_tests(outcomes):
    passed = Counter(op for op, each in outcomes if each.verdict == "passed")
    tested = {op for op, _ in outcomes} & OPERATORS.keys()
    assert tested - passed.keys() <= TESTED_ELSEWHERE
    assert passed.total() >= 1550
