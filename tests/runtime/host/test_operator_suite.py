"""The node tests of the ONNX operator specification, as the `onnx` package makes them."""

import re
from collections import Counter, defaultdict

import pytest
from onnx_node_tests import Outcome, cases, outcome

from vdla.runtime.host.evaluate import OPERATORS

ACCEPTED_REFUSALS = (
    "supported element types are",
    "element type STRING",
    "which has no elements",
    "NaN or infinite elements",
    "its shape is dynamic",
    "operator set [17] is not supported",
    "operator (RandomUniformLike|Swish) is not supported",
    "its output [12] .* is not supported",
    "training_mode is true",
    "only tensors are supported",
    "attribute block_size",
    "attribute mode",
    "attribute coordinate_transformation_mode",
    "attribute antialias",
    "attribute keep_aspect_ratio_policy",
    "EluResult",
)
TESTED_ELSEWHERE = {"And", "Cast", "Not", "Xor"}  # the suite has them for other types or operator sets alone


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[Outcome]]:
    """Run the suite; return the outcomes for each operator of the host, by the last node of the test."""
    found = defaultdict(list)
    for case in cases():
        op = case.model.graph.node[-1].op_type
        if op in OPERATORS:
            found[op].append(outcome(case))
    return found


def test_no_result_is_wrong(outcomes):
    every = [each for group in outcomes.values() for each in group]
    assert [(each.name, each.reason) for each in every if each.verdict == "wrong"] == []


def test_every_operator_passes_tests(outcomes):
    passed = Counter(op for op, group in outcomes.items() for each in group if each.verdict == "passed")
    assert outcomes.keys() - passed.keys() == TESTED_ELSEWHERE
    assert passed.total() >= 650


def test_only_other_types_and_modes_are_refused(outcomes):
    refused = {
        each.name: each.reason for group in outcomes.values() for each in group if each.verdict == "refused"
    }
    known = re.compile("|".join(ACCEPTED_REFUSALS))
    assert {name: reason for name, reason in refused.items() if not known.search(reason)} == {}
