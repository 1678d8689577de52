"""User options of quantisation: qualities by name and in decibels."""

import re

import pytest

from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.quantisation.options import QUALITIES, quality_db


def test_a_quality_is_a_name_or_decibels():
    assert quality_db("fast") is None
    assert 0 < quality_db("balanced") < quality_db("exact")
    assert {name: quality_db(name) for name in QUALITIES} == {"fast": None, "balanced": 10.0, "exact": 30.0}
    assert [quality_db(quality) for quality in (0, 12.5, "12.5", "0", 100)] == [0, 12.5, 12.5, 0, 100]


@pytest.mark.parametrize("quality", ["best", -0.5, "-1", 100.5, 101, "nan", None, ""])
def test_other_qualities_are_refused(quality):
    message = f"quality {quality} is none of fast, balanced, exact, and no number of decibels from 0 to 100"
    with pytest.raises(GraphError, match=f"^{re.escape(message)}$"):
        quality_db(quality)
