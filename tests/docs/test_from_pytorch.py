"""docs/from_pytorch.md: its commands and its program run, and the program that exports is that of the examples."""

import re

import pytest
from page_blocks import blocks

from tests.docs.pages import DOCS, ROOT, commands
from tests.docs.test_from_vta import run

PAGE = (DOCS / "from_pytorch.md").read_text()
NOT_RUN = ("digits.py", "not run")  # PyTorch is not among the packages


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder in which the commands find the examples."""
    directory = tmp_path_factory.mktemp("from_pytorch")
    (directory / "examples").symlink_to(ROOT / "examples")
    return directory


def test_the_commands_and_the_program_of_the_page_run_in_its_order(folder):
    printed, programs = {}, []
    for block in blocks(PAGE):
        if block.language == "python" and block.name not in NOT_RUN:
            programs.append(run(["python", "-c", block.text], folder))
        for words in commands(block.text) if not block.language else ():
            printed[" ".join(words)] = run(words, folder)
    assert len(printed) == 7
    assert all("100.0% of them on the accelerator" in text for text in printed.values() if "  MACs" in text)
    assert "error of the results, by layers alone" in next(
        printed[line] for line in printed if "--errors" in line
    )
    assert (folder / "build" / "pytorch.html").stat().st_size > 100_000
    assert programs == [blocks(PAGE[PAGE.index("It prints") :])[0].text]


def test_the_blocks_that_do_not_run_are_marked_and_no_others_need_pytorch():
    needing = [
        block.name
        for block in blocks(PAGE)
        if block.language == "python" and re.search(r"\btorch\.", block.text)
    ]
    assert needing == list(NOT_RUN)
    assert "the tests do not run the first and the last block of this page" in " ".join(PAGE.split())


def test_the_page_exports_as_the_example_does():
    block = next(block for block in blocks(PAGE) if block.name == "digits.py")
    assert block.text in (ROOT / "examples" / "pytorch" / "digits.py").read_text()
