"""Texts in Python's syntax are read without a warning of Python."""

import ast
import warnings

import pytest

from vdla.hw.spec.python_text import expression_of, statements_of

ODD = "1if 2else 3"  # Python reads it, and warns of an invalid decimal literal


def test_python_itself_warns():
    with pytest.warns((SyntaxWarning, DeprecationWarning), match="invalid decimal literal"):
        ast.parse(ODD)


@pytest.mark.parametrize("read", [statements_of, expression_of])
def test_no_warning_is_shown(read):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        tree = read(ODD)
    assert seen == []
    assert "IfExp" in ast.dump(tree)


@pytest.mark.parametrize("read", [statements_of, expression_of])
def test_what_cannot_be_read_is_a_syntax_error(read):
    with pytest.raises(SyntaxError):
        read("1 +")


def test_statements_are_no_expression():
    assert len(statements_of("a = 1\nb = 2").body) == 2
    with pytest.raises(SyntaxError):
        expression_of("a = 1")
