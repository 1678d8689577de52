"""Sums of several tensors become sums of two."""

import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.rewrites.canonical import SPLIT_SUMS

TEXTS = {
    "three": (
        """\
def f(x: float32[2], y: float32[2], z: float32[2]):
    s: float32[2] = Sum(x, y, z, name="all")
    return s
""",
        """\
def f(x: float32[2], y: float32[2], z: float32[2]):
    s_2: float32[2] = Add(x, y, name="all")
    s: float32[2] = Add(s_2, z, name="all")
    return s
""",
    ),
    "two": (
        """\
def f(x: float32[2]):
    s: float32[2] = Sum(x, x)
    return s
""",
        """\
def f(x: float32[2]):
    s: float32[2] = Add(x, x)
    return s
""",
    ),
    "of other shapes": (
        """\
def f(x: float32[2], y: float32[1]):
    s: float32[2] = Sum(x, y)
    return s
""",
        None,
    ),
    "one": (
        """\
def f(x: float32[2]):
    s: float32[2] = Sum(x)
    return s
""",
        None,
    ),
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    check_text(SPLIT_SUMS, *TEXTS[title])
