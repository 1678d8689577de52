"""Values in messages stay on one line and have a length that fits there."""

import pytest

from vdla.hw.spec.showing import short, shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 77 + "..."),
        ("two\nlines", "two\\nlines"),
        ("\x00\u2028é", "\\x00\\u2028é"),
    ],
)
def test_a_text_is_cut_to_80_characters_on_one_line(text, expected):
    assert short(text) == expected


def test_a_text_is_cut_to_a_given_length():
    assert [short("abcdefgh", length) for length in (8, 7, 3)] == ["abcdefgh", "abcd...", "..."]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-(1 << 127), str(-(1 << 127))),
        ((1 << 128) - 1, str((1 << 128) - 1)),
        (1 << 128, "a number of 129 bits"),
        (-(1 << 20_000), "a number of 20001 bits"),
        ([1 << 200], "[a number of 201 bits]"),
        ("x" * 78, repr("x" * 78)),
        ("x" * 79, f"'{'x' * 37}...{'x' * 38}'"),
        (complex(0.1, 0.1), "(0.1+0.1j)"),
        (None, "None"),
    ],
    ids=range(9),
)
def test_a_value_is_shown_whole_or_cut(value, expected):
    assert shown(value) == expected


def test_other_objects_are_cut_as_texts_are():
    class Long:
        def __init__(self, length: int) -> None:
            self.length = length

        def __repr__(self) -> str:
            return "y" * self.length

    assert shown(Long(80)) == "y" * 80
    assert shown(Long(81)) == f"{'y' * 38}...{'y' * 39}"
