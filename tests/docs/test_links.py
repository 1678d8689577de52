"""Every link of every page leads to a file of the repository, and to a heading of it."""

import pytest

from tests.docs.pages import ROOT, anchors, broken_links, links, paths


@pytest.mark.parametrize("path", paths(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_link_leads_to_a_file_and_a_heading(path):
    assert broken_links(path) == []


def test_a_link_without_a_file_or_a_heading_is_noticed(tmp_path):
    (tmp_path / "other.md").write_text("# A heading: `x`, *y*\n## Twice\n## Twice\n")
    good = (
        "[a](other.md) [b](other.md#a-heading-x-y) [c](other.md#twice-1) [d](https://x.y/z) ![e](other.md)\n"
    )
    (tmp_path / "page.md").write_text(f"# Here\n{good}[f](#here)\n```\n[g](block.md)\n```\n`[h](code.md)`\n")
    assert broken_links(tmp_path / "page.md") == []
    (tmp_path / "page.md").write_text("[a](none.md) [b](other.md#none) [c](other.md#twice-2) [d](#there)\n")
    assert broken_links(tmp_path / "page.md") == ["none.md", "other.md#none", "other.md#twice-2", "#there"]


def test_links_and_anchors_are_seen():
    page = (ROOT / "README.md").read_text()
    assert {"docs/isa.md", "docs/networks.md#samples-and-inputs"} <= set(links(page))
    assert {"install", "four-uses"} <= anchors(page)
