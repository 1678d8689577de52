"""Expressions over parameters: values, names, and what is refused."""

import sys

import pytest

from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.expressions import parse

VALUES = {"block_in": 16, "memory.latency": 64, "clock_mhz": 100.0, "extensions": "none"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("block_in", 16),
        ("4 * block_in + 1", 65),
        ("round(block_in / 3, 1) * 10 + round(block_in, -1) + round(2.5)", 75),
        ("block_in // 3 * 2 - -1", 11),
        ("block_in / 3 > 5 and not block_in == 17", True),
        ("block_in < 8 or block_in >= 16", True),
        ("8 < block_in <= 16 != 17", True),
        ("memory.latency % 10", 4),
        ("2 ** log2(block_in)", 16),
        ("max(block_in, 8, 32) if block_in > 8 else 1", 32),
        ("64 * KiB", 1 << 16),
        ("ceil(clock_mhz / 30)", 4),
    ],
)
def test_an_expression_has_the_value_that_python_gives_it(text, value):
    assert parse(text).value(VALUES) == value


def test_an_expression_tells_the_parameters_it_reads():
    assert parse("block_in * memory.latency + KiB").names == {"block_in", "memory.latency"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("block_in +", "cannot be read: invalid syntax"),
        ("__import__('os')", "is not allowed; there are numbers, names of parameters"),
        ("block_in.__class__.__name__", "is not allowed"),
        ("[1 for x in y]", "is not allowed"),
        ("max()", "is not allowed"),
        ("'text'", "is not allowed"),
        ("block_in << 3", "is not allowed"),
        ("(" * 400 + "1" + ")" * 400, "cannot be read"),
        ("9" * 60, "a result needs more than 128 bits"),
        ("1" * 2000, "has 2000 characters; at most 1000 are read"),
        ("", "cannot be read"),
    ],
)
def test_what_is_not_arithmetic_is_refused(text, message):
    with pytest.raises(SweepError, match=r"^expression ") as caught:
        parse(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "1 / (block_in - 16)",
        "9 ** 9 ** 9",
        "log2(0)",
        "extensions + 1",
        "(-8) ** 0.5",
        "2 ** 100 * 2 ** 100",
        "round(block_in, -10 ** 18)",
        "round(block_in, 10 ** 18)",
        "round(block_in, 0.5)",
        "round(1.5, -41)",
        "extensions * 2000000000",
        "2000000000 * extensions",
        "max(extensions, extensions)",
        "block_in ** -(10 ** 30)",
        "2.0 ** 10 ** 20",
        "block_in % 0",
    ],
)
def test_an_expression_without_a_value_names_itself_and_its_operands(text):
    with pytest.raises(SweepError) as caught:
        parse(text).value(VALUES)
    assert repr(text) in str(caught.value)
    assert "has no value" in str(caught.value)


@pytest.mark.parametrize("name", ["min", "max"])
def test_min_and_max_take_two_or_more_values(name):
    with pytest.raises(SweepError, match=f"has no value: {name} takes two or more values, not one$"):
        parse(f"{name}(16)").value({})


def test_a_value_of_too_many_digits_is_not_computed_with():
    with pytest.raises(SweepError, match="more than 128 bits"):
        parse("block_in + 1").value({"block_in": 10**5000})


def test_an_expression_that_is_nested_too_deeply_says_so():
    """Reading takes less of the stack than computing does."""
    expression = parse("-" * 60 + "1")

    def deep(levels: int) -> float:
        return deep(levels - 1) if levels else expression.value({})

    with pytest.raises(SweepError, match="nested too deeply"):
        list(map(deep, range(800, sys.getrecursionlimit(), 20)))
