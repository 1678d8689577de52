"""docs/glossary.md: its terms occur on the other pages, and each link leads to a section with the term."""

import re

import pytest

from tests.docs.pages import DOCS, LINK, ROOT, paths, section, table

GLOSSARY = DOCS / "glossary.md"
ROWS = table(GLOSSARY.read_text(), "term")
FORMS = {"calibration": "calibrat", "tensorization": "tensoriz"}
"""Terms that the pages use in other forms, with what all forms have in common."""


def has(text: str, term: str) -> bool:
    """Return whether a text has a term, in the singular or the plural, in any case."""
    words = r"[\s-]+".join(map(re.escape, FORMS.get(term, term.strip("`")).split()))
    end = "" if term in FORMS else r"(?:s|es)?\b"
    return re.search(rf"\b{words}{end}", text, re.IGNORECASE) is not None


def place(cell: str) -> tuple[str, str]:
    """Return the file name and the anchor of a link."""
    name, _, anchor = LINK.fullmatch(cell)["target"].partition("#")
    return name, anchor


def test_terms_are_in_order_and_have_one_row_each():
    terms = [term.strip("`").lower() for term, _, _ in ROWS]
    assert terms == sorted(set(terms))
    assert len(terms) > 70


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip("`"))
def test_a_meaning_is_one_or_two_sentences(row):
    assert re.fullmatch(r"[A-Z`][^.]*\.(?: [A-Z`][^.]*\.)?", row[1])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip("`"))
def test_a_term_occurs_in_the_section_that_explains_it(row):
    name, anchor = place(row[2])
    assert name != GLOSSARY.name
    assert has(section((DOCS / name).read_text(), anchor), row[0])


def test_a_term_that_no_page_has_is_noticed():
    pages = [path.read_text() for path in paths() if path != GLOSSARY]
    assert not any(has(page, "flux capacitor") for page in pages)
    assert not has("A zero-pointed value, a tokeniser", "zero point")
    assert not has("A zero-pointed value, a tokeniser", "token")
    assert has("Zero\npoints and tokens", "zero point")


def test_a_section_ends_at_the_next_heading_of_its_level():
    page = "# A\na\n## B\nb\n### C\nc\n## D\nd\n"
    assert section(page, "b") == "## B\nb\n### C\nc\n"
    assert section(page, "d") == "## D\nd\n"
    assert section(page, "") == page


def test_the_first_lines_of_pages_and_the_readme_lead_to_the_glossary():
    assert "(docs/glossary.md)" in (ROOT / "README.md").read_text()
    for name in ("networks", "compiler", "microarchitecture", "tuning", "from_vta"):
        assert "(glossary.md)" in "\n".join((DOCS / f"{name}.md").read_text().splitlines()[:8])
