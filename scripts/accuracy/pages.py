"""The pages of `docs` as plain text, to train a text model on and to test it with pages it has not seen."""

import re
from pathlib import Path

import numpy as np

DOCS = Path(__file__).parents[2] / "docs"
ALPHABET = " abcdefghijklmnopqrstuvwxyz,.:"
TEST_PAGES = 5  # each fifth page, by name, is for the test


def split(alphabet: str = ALPHABET) -> tuple[np.ndarray, np.ndarray]:
    """Return the texts of the training pages and of the test pages as `numbers`."""
    texts = [plain(path.read_text(encoding="utf-8"), alphabet) for path in sorted(DOCS.glob("*.md"))]
    test = [text for number, text in enumerate(texts) if number % TEST_PAGES == 0]
    training = [text for number, text in enumerate(texts) if number % TEST_PAGES]
    return numbers(" ".join(training), alphabet), numbers(" ".join(test), alphabet)


def plain(page: str, alphabet: str = ALPHABET) -> str:
    """Return the sentences of a page in lower case: no listings and tables, and spaces for other symbols."""
    listings = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    tables = re.compile(r"^\|.*$", re.MULTILINE)
    sentences = tables.sub("", listings.sub("", page)).lower()
    return re.sub(rf"[^{re.escape(alphabet.strip())}]+", " ", sentences).strip()


def numbers(text: str, alphabet: str = ALPHABET) -> np.ndarray:
    """Return the places of characters in an alphabet, int64[length]."""
    return np.array([alphabet.index(character) for character in text])
