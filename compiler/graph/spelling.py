"""Names of values in the texts of graphs, which are Python: any name becomes an identifier, and back."""

import keyword
import re

MARK = "ꞏ"  # begins and ends the code of a character; a letter, so that identifiers may begin with it
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
CODED = re.compile(f"{MARK}([0-9a-f]{{1,6}}){MARK}")


def spelt(name: str) -> str:
    """Return the identifier that stands for a name: itself if it is one of ASCII, as in `conv1`; else with
    the code of each other character between two marks, as in `inputꞏ2eꞏ1` for `input.1`."""
    if PLAIN.match(name) and not keyword.iskeyword(name):
        return name
    first = 1 if name[:1].isdigit() or keyword.iskeyword(name) else 0
    return "".join(
        _coded(letter) if place < first or not PLAIN.match(f"_{letter}") else letter
        for place, letter in enumerate(name)
    )


def named(spelling: str) -> str:
    """Return the name for which an identifier stands."""
    return CODED.sub(lambda code: _letter(code), spelling)


def _coded(letter: str) -> str:
    return f"{MARK}{ord(letter):x}{MARK}"


def _letter(code: re.Match[str]) -> str:
    number = int(code[1], 16)
    return chr(number) if number < 0x110000 else code[0]
