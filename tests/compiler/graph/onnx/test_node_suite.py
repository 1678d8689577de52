"""A share of ONNX's own node tests: `scripts/onnx_node_tests.py` runs all of them."""

import re

import pytest

from tests.loading import load_file

MODULES = (
    "add",
    "averagepool",
    "batch_normalization",
    "clip",
    "concat",
    "conv",
    "convinteger",
    "convtranspose",
    "dequantizelinear",
    "div",
    "erf",
    "flatten",
    "gather",
    "gelu",
    "gemm",
    "globalaveragepool",
    "layernormalization",
    "lrn",
    "matmul",
    "matmulinteger",
    "maxpool",
    "pad",
    "pow",
    "qlinearconv",
    "qlinearmatmul",
    "quantizelinear",
    "reducesum",
    "reshape",
    "resize",
    "slice",
    "softmax",
    "split",
    "squeeze",
    "transpose",
    "unsqueeze",
    "where",
)
ACCEPTED_REFUSALS = (
    "supported element types are",
    "which has no elements",
    "its output [12] .* is not supported",
    "attribute block_size",
    "attribute mode",
    "attribute coordinate_transformation_mode",
    "attribute antialias",
    "attribute keep_aspect_ratio_policy",
)


@pytest.fixture(scope="module")
def outcomes():
    """Run the tests of some operators."""
    script = load_file("scripts/onnx_node_tests.py")
    return [script.outcome(case) for case in script.cases(MODULES)]


def test_no_result_is_wrong(outcomes):
    assert [(each.name, each.reason) for each in outcomes if each.verdict == "wrong"] == []
    assert sum(each.verdict == "passed" for each in outcomes) >= 320


def test_only_other_types_and_modes_are_refused(outcomes):
    refused = {each.name: each.reason for each in outcomes if each.verdict == "refused"}
    assert {
        name: reason
        for name, reason in refused.items()
        if not any(re.search(known, reason) for known in ACCEPTED_REFUSALS)
    } == {}
