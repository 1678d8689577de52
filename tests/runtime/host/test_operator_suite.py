"""The node tests of the ONNX operator specification, as the `onnx` package makes them.

The tests of one operator: `pytest tests/runtime/host/test_operator_suite.py -k NAME`.
"""

from collections import Counter, defaultdict
from functools import cache

import pytest
from onnx_node_tests import Outcome, cases, outcome

from vdla.runtime.host.evaluate import OPERATORS

TESTED_ELSEWHERE = {"And", "Not", "Xor"}  # the suite has them for other types or operator sets alone
OTHERS = "operators of onnxruntime"
GROUPS = (*sorted(OPERATORS), OTHERS)


@pytest.fixture(scope="module")
def outcomes():
    """Return a function from an operator to the outcomes of its tests, which run once.

    A test is that of the operator of its last node.
    """
    suite = defaultdict(list)
    for case in cases():
        op = case.model.graph.node[-1].op_type
        suite[op if op in OPERATORS else OTHERS].append(case)

    @cache
    def of(op: str) -> list[Outcome]:
        return [outcome(case) for case in suite[op]]

    return of


@pytest.mark.parametrize("op", GROUPS)
def test_an_operator_passes_its_tests(outcomes, op):
    """No result is wrong, and nothing is refused that onnxruntime runs."""
    failed = [(each.name, each.reason) for each in outcomes(op) if each.verdict in ("wrong", "refused")]
    assert failed == []
    verdicts = Counter(each.verdict for each in outcomes(op))
    assert verdicts["passed"] or not verdicts or op in TESTED_ELSEWHERE


def test_most_tests_pass(outcomes):
    assert sum(each.verdict == "passed" for op in GROUPS for each in outcomes(op)) >= 1550
