"""The pages of the site as browsers read them: their links, their resources, the index of the search."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup

URL = re.compile(r"""(?:url\(|@import\s+)\s*(['"]?)(?P<url>[^'")\s;]+)""")
ATTRIBUTES = ("src", "srcset", "poster", "data")  # what a browser loads, of any element
LOADED = ("stylesheet", "icon", "preload", "prefetch", "modulepreload", "manifest")  # of a <link>


class Site:
    """A folder of pages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pages = {
            path.relative_to(folder).as_posix(): BeautifulSoup(path.read_text(), "html.parser")
            for path in sorted(folder.rglob("*.html"))
        }
        self._anchors = {
            name: {element["id"] for element in page.find_all(id=True)} for name, page in self.pages.items()
        }

    def dead_links(self) -> list[str]:
        """Return the links and resources that lead to no file of the site, or to no element of a page."""
        return [
            f"{name}: {target}"
            for name, page in self.pages.items()
            for target in _targets(page)
            if not _is_remote(target) and not self._resolves(name, target)
        ]

    def _resolves(self, name: str, target: str) -> bool:
        parts = urlsplit(target)
        file = (self.folder / name).parent / unquote(parts.path) if parts.path else self.folder / name
        if not file.is_file() or not file.resolve().is_relative_to(self.folder.resolve()):
            return False
        page = file.resolve().relative_to(self.folder.resolve()).as_posix()
        return not parts.fragment or unquote(parts.fragment) in self._anchors.get(page, ())

    def remote_resources(self) -> list[str]:
        """Return what the pages and style sheets load from a network."""
        resources = [
            f"{name}: {url}"
            for name, page in self.pages.items()
            for url in (*_resources(page), *_urls(page.decode()))
            if _is_remote(url)
        ]
        sheets = ((path, path.read_text()) for path in sorted(self.folder.rglob("*.css")))
        return resources + [
            f"{path.name}: {url}" for path, text in sheets for url in _urls(text) if _is_remote(url)
        ]

    def index(self) -> dict[str, Any]:
        """Return the index of the search, which is the argument of a function call."""
        text = (self.folder / "searchindex.js").read_text()
        return json.loads(text[text.index("(") + 1 : text.rindex(")")])


def pages_with(index: dict[str, Any], stem: str) -> set[str]:
    """Return the pages that hold a word, by its stem as Sphinx forms it."""
    numbers = [index[where].get(stem, []) for where in ("terms", "titleterms")]
    return {
        index["docnames"][number]
        for some in numbers
        for number in (some if isinstance(some, list) else [some])
    }


def _is_remote(target: str) -> bool:
    parts = urlsplit(target)
    return bool(parts.netloc) or parts.scheme in ("http", "https", "mailto")


def _targets(page: BeautifulSoup) -> Iterator[str]:
    yield from (element["href"] for element in page.find_all(["a", "area"], href=True))
    yield from (url for url in _resources(page) if not url.startswith("data:"))


def _resources(page: BeautifulSoup) -> Iterator[str]:
    for name in ATTRIBUTES:
        for element in page.find_all(attrs={name: True}):
            values = element[name].split(",") if name == "srcset" else [element[name]]
            yield from (value.split()[0] for value in values if value.strip())
    for element in page.find_all("link", href=True):
        if set(element.get("rel", ())) & set(LOADED):
            yield element["href"]
    yield from (element["href"] for element in page.find_all(["image", "use"], href=True))


def _urls(text: str) -> Iterator[str]:
    """Yield the addresses in a style sheet, or in the styles of a page."""
    return (match["url"] for match in URL.finditer(text))
