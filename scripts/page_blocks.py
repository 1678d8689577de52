"""The fenced blocks of the documentation's pages."""

import re
from dataclasses import dataclass

FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: the first word after the fence; empty where there is none.
        name: the second word, the name of a file; empty where there is none.
    """

    language: str
    name: str
    text: str


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    fenced = []
    for match in FENCE.finditer(page):
        language, _, name = match["info"].partition(" ")
        fenced.append(Block(language, name, match["text"]))
    return fenced
