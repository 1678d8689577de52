"""Syntax trees of texts in Python's syntax: assembly, expressions, programs and graphs.

Python warns of some texts that it can still read, as of `1if x else 2`. Such a warning has neither the name
of the file nor a word of what to do, so it is not shown. Readers of the trees refuse what they do not take.
"""

import ast
import warnings


def statements_of(text: str) -> ast.Module:
    """Return the syntax tree of statements.

    Raises:
        SyntaxError: the text cannot be read; further errors as in `ast.parse`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def expression_of(text: str) -> ast.expr:
    """Return the syntax tree of an expression; errors as in `statements_of`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, mode="eval").body
