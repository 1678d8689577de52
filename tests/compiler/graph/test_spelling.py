"""Names in texts of graphs: identifiers that tell every name."""

import ast
import keyword

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.graph.spelling import named, spelt

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
def test_a_name_is_spelt_with_the_codes_of_what_identifiers_have_not(name):
    assert spelt(name) == SPELLINGS[name]
    assert named(SPELLINGS[name]) == name


@settings(deadline=None)
@given(st.one_of(st.text(min_size=1), st.sampled_from(keyword.kwlist)))
def test_python_reads_every_spelling_as_one_identifier_that_tells_the_name(name):
    (statement,) = ast.parse(f"{spelt(name)} = 1").body
    assert named(statement.targets[0].id) == name


def test_a_code_beyond_all_letters_stays_as_it_is():
    assert named("ꞏ110000ꞏ") == "ꞏ110000ꞏ"
