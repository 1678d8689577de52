"""Chains of moves become shorter."""

import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.passes.merge_moves import MergeMoves

X = "float32[2, 3, 1, 5]"


def function(*lines: str, gives: str = "y", x: str = X) -> str:
    """Return a function of x."""
    return f"def f(x: {x}):\n" + "".join(f"    {line}\n" for line in (*lines, f"return {gives}"))


TEXTS = {
    "two changes of shape": (
        function(
            "a: float32[2, 3, 5] = Squeeze(x, axes=(2,))",
            'b: float32[6, 5] = Reshape(a, shape=(6, 5), name="flat")',
            "y: float32[6, 5] = Neg(b)",
        ),
        function('b: float32[6, 5] = Reshape(x, shape=(6, 5), name="flat")', "y: float32[6, 5] = Neg(b)"),
    ),
    "there and back": (
        function(
            "a: float32[2, 3, 5] = Squeeze(x, axes=(2,))",
            f"b: {X} = Unsqueeze(a, axes=(2,))",
            f"y: {X} = Neg(b)",
        ),
        function(f"y: {X} = Neg(x)"),
    ),
    "two orders": (
        function(
            'a: float32[3, 2, 1, 5] = Transpose(x, perm=(1, 0, 2, 3), name="first")',
            'y: float32[3, 5, 1, 2] = Transpose(a, perm=(0, 3, 2, 1), name="last")',
        ),
        function('y: float32[3, 5, 1, 2] = Transpose(x, perm=(1, 3, 2, 0), name="last")'),
    ),
    "orders there and back, with a shape between": (
        function(
            "a: float32[2, 5, 3, 1] = Transpose(x, perm=(0, 3, 1, 2))",
            "b: float32[2, 5, 3] = Squeeze(a, axes=(3,))",
            "c: float32[2, 3, 5] = Transpose(b, perm=(0, 2, 1))",
            "y: float32[2, 3, 5] = Neg(c)",
        ),
        function("c: float32[2, 3, 5] = Reshape(x, shape=(2, 3, 5))", "y: float32[2, 3, 5] = Neg(c)"),
    ),
    "rows that are divided and stay in order": (
        function(
            "a: float32[2, 3, 2, 5] = Reshape(x, shape=(2, 3, 2, 5))",
            "b: float32[3, 2, 2, 5] = Transpose(a, perm=(1, 0, 2, 3))",
            "c: float32[3, 20] = Reshape(b, shape=(3, 20))",
            "y: float32[3, 20] = Neg(c)",
            x="float32[6, 10]",
        ),
        function(
            "a_rows: float32[2, 3, 10] = Reshape(x, shape=(2, 3, 10))",
            "b_rows: float32[3, 2, 10] = Transpose(a_rows, perm=(1, 0, 2))",
            "c: float32[3, 20] = Reshape(b_rows, shape=(3, 20))",
            "y: float32[3, 20] = Neg(c)",
            x="float32[6, 10]",
        ),
    ),
    "rows that are divided and change places": (
        function(
            "a: float32[2, 3, 2, 5] = Reshape(x, shape=(2, 3, 2, 5))",
            "y: float32[2, 2, 3, 5] = Transpose(a, perm=(0, 2, 1, 3))",
            x="float32[6, 10]",
        ),
        None,
    ),
    "what is in the middle stays where it is read": (
        function(
            "a: float32[2, 3, 5] = Squeeze(x, axes=(2,))",
            "b: float32[2, 3, 5, 1] = Unsqueeze(a, axes=(3,))",
            gives="a, b",
        ),
        function(
            "a: float32[2, 3, 5] = Squeeze(x, axes=(2,))",
            "b: float32[2, 3, 5, 1] = Reshape(x, shape=(2, 3, 5, 1))",
            gives="a, b",
        ),
    ),
    "another order, with a shape between": (
        function(
            "a: float32[3, 2, 1, 5] = Transpose(x, perm=(1, 0, 2, 3))",
            "b: float32[6, 5] = Reshape(a, shape=(6, 5))",
            "y: float32[5, 6] = Transpose(b, perm=(1, 0))",
        ),
        None,
    ),
    "an image that becomes rows": (
        function(
            "a: float32[2, 3, 5] = Squeeze(x, axes=(2,))",
            "y: float32[2, 5, 3] = Transpose(a, perm=(0, 2, 1))",
        ),
        function(
            "y_image: float32[2, 1, 5, 3] = Transpose(x, perm=(0, 2, 3, 1))",
            "y: float32[2, 5, 3] = Reshape(y_image, shape=(2, 5, 3))",
        ),
    ),
    "rows that become an image": (
        function(
            "a: float32[2, 3, 10] = Transpose(x, perm=(0, 2, 1))",
            'y: float32[2, 3, 2, 5] = Reshape(a, shape=(2, 3, 2, 5), name="image")',
            x="float32[2, 10, 3]",
        ),
        function(
            'y_rows: float32[2, 2, 5, 3] = Reshape(x, shape=(2, 2, 5, 3), name="image")',
            'y: float32[2, 3, 2, 5] = Transpose(y_rows, perm=(0, 3, 1, 2), name="image")',
            x="float32[2, 10, 3]",
        ),
    ),
    "an image that becomes rows and an image": (
        function(
            "a: float32[2, 3, 5] = Squeeze(x, axes=(2,))",
            "b: float32[2, 5, 3] = Transpose(a, perm=(0, 2, 1))",
            "c: float32[2, 3, 5] = Transpose(b, perm=(0, 2, 1))",
            "y: float32[2, 3, 5, 1] = Unsqueeze(c, axes=(3,))",
            gives="b, y",
        ),
        function(
            "b_image: float32[2, 1, 5, 3] = Transpose(x, perm=(0, 2, 3, 1))",
            "b: float32[2, 5, 3] = Reshape(b_image, shape=(2, 5, 3))",
            "y: float32[2, 3, 5, 1] = Reshape(x, shape=(2, 3, 5, 1))",
            gives="b, y",
        ),
    ),
    "channels that go in front of images": (
        function(
            "a: float32[2, 3, 5] = Squeeze(x, axes=(2,))",
            "y: float32[5, 2, 3] = Transpose(a, perm=(2, 0, 1))",
        ),
        None,
    ),
    "an operator between": (
        function(
            "a: float32[2, 3, 5] = Squeeze(x, axes=(2,))",
            "b: float32[2, 3, 5] = Neg(a)",
            f"y: {X} = Unsqueeze(b, axes=(2,))",
        ),
        None,
    ),
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    check_text(MergeMoves(), *TEXTS[title])
