"""Scales and shifts of channels become depthwise convolutions, and go into the convolutions before them."""

import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.pipeline import Pipeline
from vdla.compiler.graph.rewrites.channel_scales import FOLD_CHANNEL_SCALES

DEPTHWISE = "dilations=(1, 1), group=2, pads=(0, 0, 0, 0), strides=(1, 1)"
TEXTS = {
    "scale and shift of an image": (
        """\
def f(x: float32[1, 2, 1, 3]):
    s: float32[2, 1, 1] = constant([[[2.0]], [[-3.0]]])
    a: float32[1, 2, 1, 3] = Mul(x, s)
    t: float32[1, 2, 1, 1] = constant([[[[0.5]], [[1.0]]]])
    y: float32[1, 2, 1, 3] = Add(t, a)
    return y
""",
        f"""\
def f(x: float32[1, 2, 1, 3]):
    y_weight: float32[2, 1, 1, 1] = constant([[[[2.0]]], [[[-3.0]]]])
    y_bias: float32[2] = constant([0.5, 1.0])
    y: float32[1, 2, 1, 3] = Conv(x, y_weight, y_bias, {DEPTHWISE})
    return y
""",
    ),
    "a scale of all channels of what comes in": (
        """\
def f(x: float32[1, 2, 1, 1]):
    s: float32 = constant(0.5)
    y: float32[1, 2, 1, 1] = Mul(x, s)
    return y
""",
        f"""\
def f(x: float32[1, 2, 1, 1]):
    y_weight: float32[2, 1, 1, 1] = constant([[[[0.5]]], [[[0.5]]]])
    y_bias: float32[2] = constant([0.0, 0.0])
    y: float32[1, 2, 1, 1] = Conv(x, y_weight, y_bias, {DEPTHWISE})
    return y
""",
    ),
    "normalisation alone": (
        """\
def f(x: float32[1, 2, 1, 1]):
    s: float32[2] = constant([2.0, 3.0])
    b: float32[2] = constant([1.0, -1.0])
    m: float32[2] = constant([0.5, 0.0])
    v: float32[2] = constant([0.25, 1.0])
    y: float32[1, 2, 1, 1] = BatchNormalization(x, s, b, m, v, epsilon=0.0)
    return y
""",
        f"""\
def f(x: float32[1, 2, 1, 1]):
    y_weight: float32[2, 1, 1, 1] = constant([[[[4.0]]], [[[3.0]]]])
    y_bias: float32[2] = constant([-1.0, -1.0])
    y: float32[1, 2, 1, 1] = Conv(x, y_weight, y_bias, {DEPTHWISE})
    return y
""",
    ),
    "behind a convolution": (
        """\
def f(x: float32[1, 1, 2, 2]):
    w: float32[2, 1, 1, 1] = constant([[[[1.0]]], [[[2.0]]]])
    c: float32[1, 2, 2, 2] = Conv(x, w, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1), name="c")
    s: float32[1, 2, 1, 1] = constant([[[[2.0]], [[4.0]]]])
    d: float32[1, 2, 2, 2] = Mul(c, s)
    t: float32[1] = constant([3.0])
    y: float32[1, 2, 2, 2] = Add(d, t)
    return y
""",
        """\
def f(x: float32[1, 1, 2, 2]):
    y_weight: float32[2, 1, 1, 1] = constant([[[[2.0]]], [[[8.0]]]])
    y_bias: float32[2] = constant([3.0, 3.0])
    y: float32[1, 2, 2, 2] = Conv(x, y_weight, y_bias, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1), name="c")
    return y
""",
    ),
}
LEFT_ALONE = {
    "a number for each column": """\
def f(x: float32[1, 2, 1, 2]):
    s: float32[2] = constant([2.0, 3.0])
    y: float32[1, 2, 1, 2] = Mul(x, s)
    return y
""",
    "no image": """\
def f(x: float32[1, 2]):
    s: float32[2] = constant([2.0, 3.0])
    y: float32[1, 2] = Mul(x, s)
    return y
""",
    "two operands that change": """\
def f(x: float32[1, 2, 1, 1], y: float32[1, 2, 1, 1]):
    z: float32[1, 2, 1, 1] = Add(x, y)
    return z
""",
    "a number for all channels, behind no convolution": """\
def f(x: float32[1, 2, 1, 1], y: float32[1, 2, 1, 1]):
    a: float32[1, 2, 1, 1] = Add(x, y)
    s: float32 = constant(0.5)
    z: float32[1, 2, 1, 1] = Mul(a, s)
    return z
""",
    "a number for all channels, behind a convolution that something else reads": f"""\
def f(x: float32[1, 2, 1, 1]):
    w: float32[2, 1, 1, 1] = constant([[[[1.0]]], [[[3.0]]]])
    c: float32[1, 2, 1, 1] = Conv(x, w, {DEPTHWISE})
    s: float32 = constant(0.5)
    z: float32[1, 2, 1, 1] = Mul(c, s)
    y: float32[1, 2, 1, 1] = Add(c, z)
    return y
""",
    "an operand that is spread": """\
def f(x: float32[1, 1, 1, 1]):
    s: float32[1, 2, 1, 1] = constant([[[[2.0]], [[3.0]]]])
    y: float32[1, 2, 1, 1] = Mul(x, s)
    return y
""",
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    check_text(FOLD_CHANNEL_SCALES, *TEXTS[title])


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_no_scale_of_channels_is_left_alone(title):
    check_text(FOLD_CHANNEL_SCALES, LEFT_ALONE[title])


def joinable(
    second: str, out: tuple[int, ...] = (1, 2, 4, 4), shape: str = "2, 1, 1, 1", results: str = "y"
) -> str:
    """Return a graph of two convolutions, the second with the attributes `second`."""
    weights = {
        "2, 1, 1, 1": "[[[[3.0]]], [[[4.0]]]]",
        "2, 1, 1, 2": "[[[[3.0, 1.0]]], [[[4.0, 1.0]]]]",
        "2, 2, 1, 1": "[[[[3.0]], [[1.0]]], [[[4.0]], [[1.0]]]]",
    }
    return f"""\
def f(x: float32[1, 1, 4, 4]):
    w: float32[2, 1, 1, 1] = constant([[[[2.0]]], [[[1.0]]]])
    c: float32[1, 2, 4, 4] = Conv(x, w, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    v: float32[{shape}] = constant({weights[shape]})
    y: float32{list(out)} = Conv(c, v, {second})
    return {results}
"""


# The second convolution scales channels in all but one respect.
APART = {
    "it skips rows": joinable("dilations=(1, 1), group=2, pads=(0, 0, 0, 0), strides=(2, 1)", (1, 2, 2, 4)),
    "it skips columns": joinable(
        "dilations=(1, 1), group=2, pads=(0, 0, 0, 0), strides=(1, 2)", (1, 2, 4, 2)
    ),
    "it pads": joinable("dilations=(1, 1), group=2, pads=(0, 1, 0, 0), strides=(1, 1)", (1, 2, 4, 5)),
    "it has a wider window": joinable(
        "dilations=(1, 1), group=2, pads=(0, 0, 0, 0), strides=(1, 1)", (1, 2, 4, 3), "2, 1, 1, 2"
    ),
    "it mixes channels": joinable(
        "dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1)", shape="2, 2, 1, 1"
    ),
    "the first one's result is an output": joinable(DEPTHWISE, results="c, y"),
}


@pytest.mark.parametrize("title", APART)
def test_two_convolutions_stay_apart_where_the_second_does_more_than_scale_channels(title):
    check_text(FOLD_CHANNEL_SCALES, APART[title])


def test_two_convolutions_join_where_the_second_scales_channels():
    assert [node.op for node in FOLD_CHANNEL_SCALES.run(parse_graph(joinable(DEPTHWISE))).nodes] == ["Conv"]


def test_a_convolution_that_something_else_reads_stays():
    check_text(
        Pipeline((FOLD_CHANNEL_SCALES,)),
        """\
def f(x: float32[1, 1, 1, 1]):
    w: float32[1, 1, 1, 1] = constant([[[[2.0]]]])
    c: float32[1, 1, 1, 1] = Conv(x, w, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    b: float32[1] = constant([1.0])
    y: float32[1, 1, 1, 1] = Conv(c, w, b, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    return c, y
""",
    )
