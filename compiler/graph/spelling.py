"""Names of values as Python identifiers, and back, for the text form of graphs."""

import keyword
import re

MARK = "ꞏ"  # delimits the code of a character; a letter, so that identifiers may begin with it
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
CODED = re.compile(f"{MARK}([0-9a-f]{{1,6}}){MARK}")


def identifier_of(name: str) -> str:
    """Return the identifier that encodes a name.

    An ASCII identifier such as `conv1` is its own encoding. In other names, each other character becomes its
    hexadecimal code between two marks: `input.1` becomes `inputꞏ2eꞏ1`.
    """
    if PLAIN.match(name) and not keyword.iskeyword(name):
        return name
    first = 1 if name[:1].isdigit() or keyword.iskeyword(name) else 0
    return "".join(
        _coded(letter) if place < first or not PLAIN.match(f"_{letter}") else letter
        for place, letter in enumerate(name)
    )


def name_of(spelling: str) -> str:
    """Return the name that an identifier encodes."""
    return CODED.sub(lambda code: _letter(code), spelling)


def _coded(letter: str) -> str:
    return f"{MARK}{ord(letter):x}{MARK}"


def _letter(code: re.Match[str]) -> str:
    number = int(code[1], 16)
    return chr(number) if number < 0x110000 else code[0]
