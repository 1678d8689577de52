"""Explicit padding, strides and dilations, compared with onnxruntime."""

import numpy as np
import pytest

from tests.compiler.graph.onnx.networks import attributes_agreed, model, node
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.load import load

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def spread(total: int, upper: bool) -> tuple[int, int]:
    """Return what stands before and behind an image of padding in all."""
    half, rest = total // 2, total % 2
    return (half, half + rest) if upper else (half + rest, half)


# The image is 7 by 10, and the kernel 3 by 2: attributes of the model, and attributes that are written out.
WINDOWS = {
    "nothing given": ({}, {}),
    "all given": (
        {"pads": [1, 0, 2, 3], "strides": [2, 3], "dilations": [1, 4]},
        {"pads": (1, 0, 2, 3), "strides": (2, 3), "dilations": (1, 4)},
    ),
    "no border": ({"auto_pad": "VALID", "strides": [2, 1]}, {"strides": (2, 1)}),
    "the same size, more behind": ({"auto_pad": "SAME_UPPER"}, {"pads": (1, 0, 1, 1)}),
    "the same size, more before": ({"auto_pad": "SAME_LOWER"}, {"pads": (1, 1, 1, 0)}),
    "a part of the size, rounded up": (
        {"auto_pad": "SAME_UPPER", "strides": [3, 4]},
        # 3 windows of 3 rows span 9 rows, and 3 of 2 columns span 10
        {"pads": (1, 0, 1, 0), "strides": (3, 4)},
    ),
    "strides beyond the kernel": (
        {"auto_pad": "SAME_LOWER", "strides": [4, 3]},
        # 2 windows span 7 rows, and 4 windows 11 columns
        {"pads": (0, 1, 0, 0), "strides": (4, 3)},
    ),
}
PLAIN = {"pads": (0, 0, 0, 0), "strides": (1, 1), "dilations": (1, 1)}


@pytest.mark.parametrize("title", WINDOWS)
def test_the_padding_of_a_convolution_is_explicit(title):
    given, expected = WINDOWS[title]
    fed, weights = {"x": normal(2, 4, 7, 10)}, {"w": normal(6, 2, 3, 2), "b": normal(6)}
    attributes = attributes_agreed([node("Conv", "x w b", "y", group=2, **given)], fed, weights)
    assert attributes == [("Conv", {**PLAIN, "group": 2, **expected})]


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize("title", [title for title in WINDOWS if title != "all given"])
def test_the_padding_of_a_pooling_is_explicit(title, op):
    given, expected = WINDOWS[title]
    counts = {"count_include_pad": 1} if op == "AveragePool" else {}
    nodes = [node(op, "x", "y", kernel_shape=[3, 2], **given, **counts)]
    attributes = attributes_agreed(nodes, {"x": normal(1, 2, 7, 10)})
    assert attributes == [(op, {**PLAIN, "ceil_mode": 0, "kernel_shape": (3, 2), **counts, **expected})]


def test_windows_are_rounded_up_only_with_explicit_padding():
    for given, rounded in (({"pads": [1, 0, 1, 0]}, 1), ({"auto_pad": "VALID"}, 0)):
        nodes = [node("MaxPool", "x", "y", kernel_shape=[2, 2], strides=[2, 3], ceil_mode=1, **given)]
        graph = load(model(nodes, {"x": [1, 1, 6, 6]}, ["y"]))
        assert graph.nodes[0].attributes["ceil_mode"] == rounded


TURNED = {
    "nothing given": ({}, {}),
    "all given": (
        {"pads": [1, 0, 2, 1], "strides": [2, 3], "dilations": [2, 1], "output_padding": [1, 2]},
        {"pads": (1, 0, 2, 1), "strides": (2, 3), "dilations": (2, 1), "output_padding": (1, 2)},
    ),
    # Rows span (4 - 1) * 2 + 3 = 9, columns (5 - 1) * 3 + 2 = 14.
    "strides alone, more behind": (
        {"auto_pad": "SAME_UPPER", "strides": [2, 3]},
        {"strides": (2, 3), "pads": (0, 0, 1, 0)},
    ),
    "strides alone, more before": (
        {"auto_pad": "SAME_LOWER", "strides": [1, 1], "dilations": [2, 3]},
        # rows span 4 + 4 = 8 and columns 5 + 3 = 8, of which as many stay as went in
        {"dilations": (2, 3), "pads": (2, 2, 2, 1)},
    ),
    "a smaller result, more before": (
        {"output_shape": [6, 11], "strides": [2, 3]},
        {"strides": (2, 3), "pads": (2, 2, 1, 1), "output_padding": (0, 0)},
    ),
    "a larger result": (
        {"output_shape": [10, 16], "strides": [2, 3]},
        {"strides": (2, 3), "pads": (0, 0, 0, 0), "output_padding": (1, 2)},
    ),
    "a smaller result, and more at the end": (
        {"output_shape": [8, 13], "strides": [2, 3], "output_padding": [1, 2]},
        {"strides": (2, 3), "pads": (1, 2, 1, 1), "output_padding": (1, 2)},
    ),
}


@pytest.mark.parametrize("title", TURNED)
def test_the_padding_of_a_transposed_convolution_is_explicit(title):
    given, expected = TURNED[title]
    nodes, weights = [node("ConvTranspose", "x w b", "y", group=2, **given)], normal(4, 3, 3, 2)
    plain = {**PLAIN, "group": 2, "output_padding": (0, 0)}
    attributes = attributes_agreed(nodes, {"x": normal(1, 4, 4, 5)}, {"w": weights, "b": normal(6)})
    assert attributes == [("ConvTranspose", {**plain, **expected})]


IMAGE = {"x": [1, 4, 7, 10]}
REFUSED = {
    "kernel_shape (2, 3) is not the kernel of the weights float32[6, 4, 3, 2]": node(
        "Conv", "x w", "y", kernel_shape=[2, 3]
    ),
    "weights of 6 outputs and 4 inputs in 2 groups do not match an input float32[1, 4, 7, 10]": node(
        "Conv", "x w", "y", group=2
    ),
    "weights of 3 outputs and 2 inputs in 2 groups do not match an input float32[1, 4, 7, 10]": node(
        "Conv", "x v", "y", group=2
    ),
    "attribute auto_pad = 'SAME' is not supported; it may be 'NOTSET' or 'VALID' or 'SAME_UPPER' or "
    "'SAME_LOWER'": node("Conv", "x w", "y", auto_pad="SAME"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_invalid_windows_are_refused(message, without_onnxruntime):
    weights = {"w": normal(6, 4, 3, 2), "v": normal(3, 2, 3, 2)}
    with pytest.raises(GraphError) as caught:
        load(model([REFUSED[message]], IMAGE, ["y"], weights))
    node_proto = REFUSED[message]
    assert f"  node 0, {node_proto.op_type} '{node_proto.name}': {message}" in str(caught.value).splitlines()
