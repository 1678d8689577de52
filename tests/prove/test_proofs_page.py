"""The page about proofs lists the axioms as their table does."""

import re
from pathlib import Path

from vdla.prove.axioms import Axiom

PAGE = Path(__file__).parents[2] / "docs" / "proofs.md"


def test_the_page_has_every_axiom_with_its_sentence():
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(axiom.name, axiom.value) for axiom in Axiom]
