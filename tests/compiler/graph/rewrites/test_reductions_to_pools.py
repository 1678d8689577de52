"""Means and maxima over space become pooling."""

import numpy as np
import onnxruntime
import pytest

from tests.compiler.graph.onnx.networks import model, node
from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.pipeline import SIMPLIFY
from vdla.compiler.graph.rewrites.canonical import REDUCTIONS_TO_POOLS

WINDOW = "dilations=(1, 1), kernel_shape=({}), pads=(0, 0, 0, 0), strides=(1, 1)"


def function(reads: str, *lines: str, gives: str = "y") -> str:
    return f"def f(x: {reads}):\n" + "".join(f"    {line}\n" for line in (*lines, f"return {gives}"))


TEXTS = {
    "a mean over an image": (
        function(
            "float32[2, 3, 4, 5]",
            'y: float32[2, 3, 1, 1] = ReduceMean(x, axes=(2, 3), keepdims=1, name="squeeze")',
        ),
        function("float32[2, 3, 4, 5]", 'y: float32[2, 3, 1, 1] = GlobalAveragePool(x, name="squeeze")'),
    ),
    "a mean that leaves channels alone": (
        function("float32[2, 3, 4, 5]", "y: float32[2, 3] = ReduceMean(x, axes=(2, 3), keepdims=0)"),
        function(
            "float32[2, 3, 4, 5]",
            "y_pooled: float32[2, 3, 1, 1] = GlobalAveragePool(x)",
            "y: float32[2, 3] = Reshape(y_pooled, shape=(2, 3))",
        ),
    ),
    "a mean over rows": (
        function("float32[2, 3, 8]", "y: float32[2, 3, 1] = ReduceMean(x, axes=(2,), keepdims=1)"),
        function("float32[2, 3, 8]", "y: float32[2, 3, 1] = GlobalAveragePool(x)"),
    ),
    "a mean over the columns of an image": (
        function("float32[1, 3, 4, 5]", "y: float32[1, 3, 5] = ReduceMean(x, axes=(2,), keepdims=0)"),
        function(
            "float32[1, 3, 4, 5]",
            "y_pooled: float32[1, 3, 1, 5] = AveragePool(x, ceil_mode=0, count_include_pad=0, "
            f"{WINDOW.format('4, 1')})",
            "y: float32[1, 3, 5] = Reshape(y_pooled, shape=(1, 3, 5))",
        ),
    ),
    "a maximum over an image": (
        function("float32[2, 3, 4, 5]", "y: float32[2, 3, 1, 1] = ReduceMax(x, axes=(2, 3), keepdims=1)"),
        function(
            "float32[2, 3, 4, 5]",
            f"y: float32[2, 3, 1, 1] = MaxPool(x, ceil_mode=0, {WINDOW.format('4, 5')})",
        ),
    ),
    "a maximum over the rows of an image": (
        function("float32[1, 3, 4, 5]", "y: float32[1, 3, 4, 1] = ReduceMax(x, axes=(3,), keepdims=1)"),
        function(
            "float32[1, 3, 4, 5]",
            f"y: float32[1, 3, 4, 1] = MaxPool(x, ceil_mode=0, {WINDOW.format('1, 5')})",
        ),
    ),
    "the maximum of each channel": (
        function("float32[1, 3, 8]", "y: float32[1, 3, 1] = GlobalMaxPool(x)"),
        function(
            "float32[1, 3, 8]",
            "y: float32[1, 3, 1] = MaxPool(x, ceil_mode=0, dilations=(1,), kernel_shape=(8,), pads=(0, 0), "
            "strides=(1,))",
        ),
    ),
    "channels behind the space": (
        function(
            "float32[2, 3, 4, 5]",
            "t: float32[2, 4, 5, 3] = Transpose(x, perm=(0, 2, 3, 1))",
            "y: float32[2, 1, 1, 3] = ReduceMean(t, axes=(1, 2), keepdims=1)",
            gives="t, y",
        ),
        function(
            "float32[2, 3, 4, 5]",
            "t: float32[2, 4, 5, 3] = Transpose(x, perm=(0, 2, 3, 1))",
            "y_pooled: float32[2, 3, 1, 1] = GlobalAveragePool(x)",
            "y: float32[2, 1, 1, 3] = Reshape(y_pooled, shape=(2, 1, 1, 3))",
            gives="t, y",
        ),
    ),
    "space in another order": (
        function(
            "float32[2, 3, 4, 5]",
            "t: float32[2, 5, 4, 3] = Transpose(x, perm=(0, 3, 2, 1))",
            "y: float32[2, 4, 3] = ReduceMean(t, axes=(1,), keepdims=0)",
        ),
        None,
    ),
    "channels": (
        function("float32[2, 3, 4, 5]", "y: float32[2, 1, 4, 5] = ReduceMean(x, axes=(1,), keepdims=1)"),
        None,
    ),
    "channels and space": (
        function("float32[2, 3, 4, 5]", "y: float32[2] = ReduceMax(x, axes=(1, 2, 3), keepdims=0)"),
        None,
    ),
    "a matrix": (
        function("float32[2, 3]", "y: float32[2, 1] = ReduceMean(x, axes=(1,), keepdims=1)"),
        None,
    ),
    "a volume": (
        function(
            "float32[1, 2, 3, 4, 5]", "y: float32[1, 2, 1, 1, 1] = ReduceMean(x, axes=(2, 3, 4), keepdims=1)"
        ),
        function("float32[1, 2, 3, 4, 5]", "y: float32[1, 2, 1, 1, 1] = GlobalAveragePool(x)"),
    ),
    "more dimensions than a volume has": (
        function(
            "float32[1, 2, 3, 4, 5, 6]", "y: float32[1, 2] = ReduceMean(x, axes=(2, 3, 4, 5), keepdims=0)"
        ),
        None,
    ),
    "whole numbers": (
        function("int64[1, 2, 3, 4]", "y: int64[1, 2] = ReduceMax(x, axes=(2, 3), keepdims=0)"),
        None,
    ),
    "another reduction": (
        function("float32[1, 2, 3, 4]", "y: float32[1, 2] = ReduceSum(x, axes=(2, 3), keepdims=0)"),
        None,
    ),
    "the mean of a normalisation": (
        function(
            "float32[1, 3, 8]",
            "m: float32[1, 3, 1] = ReduceMean(x, axes=(2,), keepdims=1)",
            "y: float32[1, 3, 8] = Sub(x, m)",
        ),
        None,
    ),
    "a mean that is taken off another tensor": (
        function(
            "float32[1, 3, 8]",
            "m: float32[1, 3, 1] = ReduceMean(x, axes=(2,), keepdims=1)",
            "n: float32[1, 3, 8] = Neg(x)",
            "y: float32[1, 3, 8] = Sub(n, m)",
        ),
        function(
            "float32[1, 3, 8]",
            "m: float32[1, 3, 1] = GlobalAveragePool(x)",
            "n: float32[1, 3, 8] = Neg(x)",
            "y: float32[1, 3, 8] = Sub(n, m)",
        ),
    ),
    "a mean that is added to its operand": (
        function(
            "float32[1, 3, 8]",
            "m: float32[1, 3, 1] = ReduceMean(x, axes=(2,), keepdims=1)",
            "y: float32[1, 3, 8] = Add(x, m)",
        ),
        function(
            "float32[1, 3, 8]",
            "m: float32[1, 3, 1] = GlobalAveragePool(x)",
            "y: float32[1, 3, 8] = Add(x, m)",
        ),
    ),
    "the mean of squares, as products": (
        function(
            "float32[1, 3, 8]",
            "s: float32[1, 3, 8] = Mul(x, x)",
            "y: float32[1, 3, 1] = ReduceMean(s, axes=(2,), keepdims=1)",
        ),
        None,
    ),
    "the mean of squares, as powers": (
        function(
            "float32[1, 3, 8]",
            "two: float32 = constant(2.0)",
            "s: float32[1, 3, 8] = Pow(x, two)",
            "y: float32[1, 3, 1] = ReduceMean(s, axes=(2,), keepdims=1)",
        ),
        None,
    ),
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    check_text(REDUCTIONS_TO_POOLS, *TEXTS[title])


SPELLINGS = {
    "an attribute": (13, [node("ReduceMean", "x", "y", axes=[2, 3])], {}, "GlobalAveragePool"),
    "an attribute from the end": (11, [node("ReduceMax", "x", "y", axes=[-1, -2])], {}, "MaxPool"),
    "an input": (18, [node("ReduceMax", "x axes", "y")], {"axes": np.array([-1, 2])}, "MaxPool"),
    "an input, not kept": (
        18,
        [node("ReduceMean", "x axes", "m", keepdims=0), node("Neg", "m", "y")],
        {"axes": np.array([3, -2])},
        "GlobalAveragePool Reshape Neg",
    ),
    "no axes": (13, [node("ReduceMean", "x", "y")], {}, "ReduceMean"),
}


@pytest.mark.parametrize("title", SPELLINGS)
def test_onnxruntime_agrees(title):
    opset, nodes, constants, operators = SPELLINGS[title]
    proto = model(nodes, {"x": (2, 3, 4, 5)}, ["y"], constants, opset=opset)
    graph = SIMPLIFY.run(load(proto.SerializeToString()))
    assert " ".join(graph_node.op for graph_node in graph.nodes) == operators
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(interpret(graph, {"x": x})["y"], session.run(None, {"x": x})[0], atol=1e-6)
