"""Names in texts of graphs as identifiers."""

import ast
import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.compiler.graph.text import identifier_of, name_of

SPELLINGS = {
    "conv1": "conv1",
    "_x": "_x",
    "input.1": "inputꞏ2eꞏ1",
    "208": "ꞏ32ꞏ08",
    "a/b": "aꞏ2fꞏb",
    "class": "ꞏ63ꞏlass",
    "é": "ꞏe9ꞏ",
    "ꞏ2eꞏ": "ꞏa78fꞏ2eꞏa78fꞏ",
    "🙂": "ꞏ1f642ꞏ",
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_characters_that_identifiers_lack_are_encoded(name):
    assert identifier_of(name) == SPELLINGS[name]
    assert name_of(SPELLINGS[name]) == name


@given(st.one_of(st.text(min_size=1), st.sampled_from(keyword.kwlist)))
def test_every_encoded_name_is_an_identifier_and_decodes_to_the_name(name):
    (statement,) = ast.parse(f"{identifier_of(name)} = 1").body
    assert name_of(statement.targets[0].id) == name


def test_a_code_beyond_unicode_is_not_decoded():
    assert name_of("ꞏ110000ꞏ") == "ꞏ110000ꞏ"
