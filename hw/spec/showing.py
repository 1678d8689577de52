"""Values as error messages show them: on one line, and cut to a limited length."""

import reprlib

LONGEST_NUMBER_BITS = 128
LONGEST_TEXT = 80


class _Short(reprlib.Repr):
    """Cuts long values; shows the length of long numbers, which Python does not write in decimal."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = LONGEST_TEXT

    def repr_int(self, value: int, level: int) -> str:
        """Return a number in decimal, or its length."""
        bits = value.bit_length()
        return repr(value) if bits <= LONGEST_NUMBER_BITS else f"a number of {bits} bits"


_SHORT = _Short()


def shown(value: object) -> str:
    """Return `repr(value)`, cut if it is long or deeply nested."""
    return _SHORT.repr(value)


def short(text: str, length: int = LONGEST_TEXT) -> str:
    """Return a text without quotes, on one line, cut to `length` characters."""
    plain = text if len(text) <= length else f"{text[: length - 3]}..."
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in plain)
