"""Pages with marks, and the figures and excerpts of output that stand at the marks.

`7,602,145<!-- resnet18.cycles -->` is a figure; `7.6<!-- resnet18.cycles M.1 -->` shows millions with one
decimal place. A line `<!-- resnet18 summary -->` before a fenced block names an excerpt of the output, and
a line `<!-- resnet18 -->` all of it. Lines of the block that begin with `$ ` are the page's.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from figures.declared import ROOT, Measurement, matched
from figures.store import Output

FIGURE = re.compile(
    r"(?P<shown>[\d,.]*\d)"
    r"(?P<mark><!-- (?P<name>\w+)\.(?P<figure>\w+)(?: (?P<scale>[kMG])\.(?P<places>\d))? -->)"
)
BLOCK = re.compile(
    r"(?P<mark>^<!-- (?P<name>\w+)(?: (?P<view>\w+))? -->\n```\w*\n)(?P<shown>.*?)(?P<end>^```$)",
    re.MULTILINE | re.DOTALL,
)
SCALES = {"k": 1e3, "M": 1e6, "G": 1e9}
PROMPT = "$ "


class PageError(Exception):
    """A mark names no figure or excerpt."""


def paths() -> Iterator[Path]:
    """Yield the pages that may have marks."""
    yield from (ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md")
    yield from sorted((ROOT / "docs").rglob("*.md"))


def marks(text: str) -> set[str]:
    """Return the names of the measurements that a page shows."""
    return {match["name"] for pattern in (FIGURE, BLOCK) for match in pattern.finditer(text)}


def rendered(text: str, declared: Mapping[str, Measurement], outputs: Mapping[str, Output]) -> str:
    """Return a page with the stored figures and excerpts at its marks.

    Raises:
        PageError: a mark names an unknown measurement, figure or excerpt, or the output holds none.
    """
    stored = _Stored(declared, outputs)
    return FIGURE.sub(stored.figure, BLOCK.sub(stored.block, text))


@dataclass(frozen=True)
class _Stored:
    """The stored outputs, by which marks are replaced."""

    declared: Mapping[str, Measurement]
    outputs: Mapping[str, Output]

    def figure(self, match: re.Match[str]) -> str:
        """Return what stands at the mark of a figure, and the mark."""
        text = self._excerpt(match["name"], "figures", match["figure"])
        if match["scale"]:
            text = f"{float(text.replace(',', '')) / SCALES[match['scale']]:,.{match['places']}f}"
        return text + match["mark"]

    def block(self, match: re.Match[str]) -> str:
        """Return the block behind a mark, and the mark."""
        prompts = [line for line in match["shown"].splitlines() if line.startswith(PROMPT)]
        lines = [*prompts, *self._text(match["name"], match["view"]).splitlines()]
        return match["mark"] + "\n".join([*lines, match["end"]])

    def _text(self, name: str, view: str | None) -> str:
        return self._stored(name) if view is None else self._excerpt(name, "views", view)

    def _stored(self, name: str) -> str:
        if name not in self.declared or name not in self.outputs:
            raise PageError(
                f"the mark {name} names no stored measurement; `make figures` stores all that are declared"
            )
        return self.outputs[name].text

    def _excerpt(self, name: str, kind: str, key: str) -> str:
        text, measurement = self._stored(name), self.declared[name]
        pattern = getattr(measurement, kind).get(key)
        if pattern is None:
            raise PageError(f"docs/figures.toml declares no {kind}.{key} of {name}")
        excerpt = matched(pattern, text)
        if excerpt is None:
            raise PageError(f"the output of `{measurement.command}` holds no {pattern!r} ({name}.{key})")
        return excerpt
