"""The commands of the pages: each is run, or has a reason why not, and its options exist."""

import re
import shlex

import click
import pytest
from run_pages import BEFORE, NOT_RUN, TESTED, PageCommand, all_commands, commands_of, in_order

from tests.docs.pages import CODE, paths
from vdla.cli import main
from vdla.cli._groups import DefaultGroup

COMMANDS = all_commands()
PLACEHOLDERS = re.compile(r"\\\||[<>].*$|\.\.\.")  # a choice in a table, a redirection, something left out


def refusal(line: str) -> str:
    """Return why the command line refuses the words of a command; "" if it takes them."""
    words = shlex.split(PLACEHOLDERS.sub(" ", line), comments=True)[1:]
    if not words or words[0].startswith("-"):
        return ""
    command: click.Command = main
    context = click.Context(main)
    try:
        while isinstance(command, click.Group) and words:
            if isinstance(command, DefaultGroup) and words[0] not in command.commands:
                words.insert(0, "run")
            name, subcommand, words = command.resolve_command(context, words)
            assert subcommand is not None
            command, context = subcommand, click.Context(subcommand, context, name)
        command.make_parser(context).parse_args(words)
    except click.BadOptionUsage:
        return ""  # a text that names an option leaves out its value
    except click.UsageError as error:
        return error.format_message()
    return ""


def texts() -> list[str]:
    """Return the commands of `vdla` on all pages, in blocks and in the text."""
    inline = (text for path in paths() for text in CODE.findall(path.read_text()))
    commands = {*(each.line for each in COMMANDS), *inline}
    return sorted(text for text in commands if re.match(r"vdla [a-z]+( |$)", text))


@pytest.mark.parametrize("line", texts())
def test_the_command_line_takes_a_command_of_a_page(line):
    assert refusal(line) == ""


def test_a_command_and_an_option_that_do_not_exist_are_noticed():
    assert "No such command 'compose'" in refusal("vdla compose x.onnx")
    assert "No such option '--tunned'" in refusal("vdla compile x.onnx --tunned none")
    assert refusal("vdla compile x.onnx --tuned none  # no records") == ""


def test_commands_stand_in_blocks_without_a_language():
    page = "```\n$ vdla ops\nops\n```\n```python\nvdla = 1\n```\n```\nscripts/a.py\n```\n"
    assert [each.line for each in commands_of("p.md", page)] == ["vdla ops", "scripts/a.py"]


def test_a_command_has_at_most_one_reason_and_each_reason_a_command():
    for pattern in NOT_RUN:
        assert [each for each in COMMANDS if re.search(pattern, each.line)] != [], pattern
    assert {each.page for each in COMMANDS} >= set(TESTED)
    assert [each.reason for each in COMMANDS if each.page == "README.md" and "run" in each.line] == ["", ""]


def test_pages_that_write_files_for_others_come_first():
    pages = [each.page for each in in_order([PageCommand("docs/a.md", "x"), PageCommand("README.md", "y")])]
    assert pages == ["README.md", *["(preparation)"] * len(BEFORE), "docs/a.md"]
