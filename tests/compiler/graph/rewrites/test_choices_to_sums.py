"""A Where that excludes scores from a softmax becomes a sum with a mask."""

import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.rewrites.canonical import CHOICES_TO_SUMS

KEPT = """\
def f(x: float32[2, 2], m: bool[2, 2]):
    low: float32 = constant(LOW)
    c: float32[2, 2] = Where(CHOICES, name="w")
    s: float32[2, 2] = Softmax(c, axis=AXIS)
    return s
"""
SUMMED = """\
def f(x: float32[2, 2], m: bool[2, 2]):
CONSTANTS    c_mask: float32[2, 2] = Where(CHOICES, name="w")
    c: float32[2, 2] = Add(x, c_mask, name="w")
    s: float32[2, 2] = Softmax(c, axis=1)
    return s
"""
CONSTANT = """\
def f(x: float32[2, 2]):
    m: bool[1, 2] = constant([[MASK]])
    low: float32 = constant(-20000.0)
    c: float32[2, 2] = Where(m, x, low)
    s: float32[2, 2] = Softmax(c, axis=1)
    return s
"""
CONSTANT_SUMMED = """\
def f(x: float32[2, 2]):
    c_mask: float32[1, 2] = constant([[0.0, -20000.0]])
    c: float32[2, 2] = Add(x, c_mask)
    s: float32[2, 2] = Softmax(c, axis=1)
    return s
"""


ZERO, LOW = "    c_zero: float32 = constant(0.0)\n", "    low: float32 = constant(-1e+32)\n"


def where(choices: str, low: str = "-1e+32", axis: int = 1) -> str:
    return KEPT.replace("CHOICES", choices).replace("LOW", low).replace("AXIS", str(axis))


TEXTS = {
    "scores first": (
        where("m, x, low"),
        SUMMED.replace("CHOICES", "m, c_zero, low").replace("CONSTANTS", ZERO + LOW),
    ),
    "scores last": (
        where("m, low, x"),
        SUMMED.replace("CHOICES", "m, low, c_zero").replace("CONSTANTS", LOW + ZERO),
    ),
    "a mask that may exclude a whole row, by a number that sums change": (
        where("m, x, low", "-20000.0"),
        None,
    ),
    "a number that excludes nothing": (where("m, x, low", "-10.0"), None),
    "another axis": (where("m, x, low", axis=0), None),
    "a constant mask": (CONSTANT.replace("MASK", "True, False"), CONSTANT_SUMMED),
    "a constant mask that excludes a whole row": (CONSTANT.replace("MASK", "False, False"), None),
    "another reader": (where("m, x, low").replace("return s", "return s, c"), None),
}


@pytest.mark.parametrize("title", TEXTS)
def test_choices_become_sums(title):
    check_text(CHOICES_TO_SUMS, *TEXTS[title])
