"""docs/debugger.md: its table has every command, its conditions are accepted, and its program runs."""

import re

from page_blocks import blocks

from tests.docs.pages import DOCS, ROOT, section, table
from tests.explore.debug.programs import recording
from vdla.explore.debug.debugger import Debugger
from vdla.explore.debug.stepper import COMMANDS

PAGE = (DOCS / "debugger.md").read_text()


def test_the_table_of_commands_is_that_of_the_stepper():
    commands = re.findall(
        r"^\| `(.+?)` \|", section(PAGE, "commands").partition("| condition |")[0], re.MULTILINE
    )
    rows = [command.replace("\\|", "|").split(" ", 1) for command in commands]
    forms = {name: (arguments[0] if arguments else "") for name, *arguments in rows}
    expected = {name: command.arguments for name, command in COMMANDS.items()}
    assert forms.pop("break") == "CONDITION"
    assert expected.pop("break").startswith("[instruction N|")
    assert list(forms.items()) == list(expected.items())


def test_the_conditions_of_the_page_are_accepted():
    debugger = Debugger(recording("conv3x3"))
    conditions = [condition.strip("`") for condition, _ in table(PAGE, "condition")]
    assert len(conditions) == 7
    for condition in conditions:
        assert debugger.add_breakpoint(condition.split()).text == condition


def test_the_program_of_the_page_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    exec(next(block.text for block in blocks(PAGE) if block.language == "python"), names)
    debugger = names["debugger"]
    assert debugger.cycle == 2696
    assert [link.text for link in debugger.path().links[:1]] == ["run control begins or ends the run"]
