"""The generated pages say of each fact what its declaration says."""

import re
from pathlib import Path

import pytest

from vdla.hw.spec.reference import PAGES, registers_page
from vdla.hw.spec.registers import Control, Fault, Status


def _meanings(page: str) -> dict[tuple[str, str], str]:
    rows = re.findall(r"^\| (\w+) \| `(\w+)` \| 0x\w+ \| (.*) \|$", page, re.MULTILINE)
    return {
        (register, bit): meaning
        for register, bit, meaning in rows
        if register in ("CONTROL", "STATUS", "FAULT")
    }


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_are_those_of_the_sources(name):
    page = Path(__file__).parents[3] / "docs" / name
    assert page.read_text() == PAGES[name](), "run `make docs`"


def test_every_bit_has_a_meaning_of_its_own():
    meanings = _meanings(registers_page())
    assert set(meanings) == {
        (kind.__name__.upper(), bit.name) for kind in (Control, Status, Fault) for bit in kind
    }
    assert all(meanings.values())
    assert len(set(meanings.values())) == len(meanings)


@pytest.mark.parametrize(
    ("register", "bit", "word"),
    [
        ("CONTROL", "START", "starts a run"),
        ("CONTROL", "CLEAR_INTERRUPT", "interrupt"),
        ("STATUS", "RUNNING", "in progress"),
        ("STATUS", "DONE", "ended"),
        ("STATUS", "INTERRUPT", "interrupt"),
        ("STATUS", "FAULT", "FAULT"),
        ("FAULT", "UNFINISHED", "FINISH"),
    ],
)
def test_a_bit_is_described_by_what_it_does(register: str, bit: str, word: str):
    assert word in _meanings(registers_page())[register, bit]
