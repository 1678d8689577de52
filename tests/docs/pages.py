"""The pages of the documentation: their links, anchors, commands, programs and tables."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from page_blocks import FENCE

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (?P<text>.+)$", re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")


def paths() -> list[Path]:
    """Return every page."""
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def prose(page: str) -> str:
    """Return a page with spaces in place of its fenced blocks."""
    return FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), page)


def links(page: str) -> list[str]:
    """Return the targets of links and pictures to files of the repository, with their anchors."""
    targets = [match["target"] for match in LINK.finditer(CODE.sub("", prose(page)))]
    return [target for target in targets if "://" not in target]


def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub forms them."""
    slugs: set[str] = set()
    for match in HEADING.finditer(prose(page)):
        text = LINK.sub(lambda link: link[0][1:].partition("]")[0], match["text"]).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        count = sum(1 for anchor in slugs if re.fullmatch(rf"{re.escape(slug)}(-\d+)?", anchor))
        slugs.add(f"{slug}-{count}" if slug in slugs else slug)
    return slugs


def broken_links(path: Path) -> list[str]:
    """Return the links of a page that lead to no file or to no heading."""
    return [target for target in links(path.read_text()) if not _resolves(path, target)]


def _resolves(path: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    file = path.parent / name if name else path
    return file.exists() and (not anchor or anchor in anchors(file.read_text()))


def commands(text: str, *others: str) -> Iterator[list[str]]:
    """Yield the commands of a fenced block without a language, split into words: commands of vdla,
    Python and `others`."""
    for line in text.splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words and words[0] in ("vdla", "python", *others):
            yield words


def table(page: str, heading: str) -> list[tuple[str, ...]]:
    """Return the rows of the first table of a page whose header begins with `heading`."""
    lines = page.splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("| "):
            break
        rows.append(tuple(cell.strip() for cell in line.strip("|").split("|")))
    return rows


def section(page: str, anchor: str) -> str:
    """Return the part of a page below a heading and its sub-headings, with the heading; all of it without an
    anchor."""
    if not anchor:
        return page
    headings = list(HEADING.finditer(prose(page)))
    first = next(index for index, match in enumerate(headings) if anchor in anchors(match[0]))
    level = len(headings[first][0].partition(" ")[0])
    ends = (match.start() for match in headings[first + 1 :] if len(match[0].partition(" ")[0]) <= level)
    return page[headings[first].start() : next(ends, len(page))]
