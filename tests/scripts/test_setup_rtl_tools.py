"""What `make tools` says where it may install nothing."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "setup_rtl_tools.sh"
TOOLS = ("g++", "make", "perl", "iverilog", "tclsh", "ccache")
PYTHON = """#!/bin/sh
case "$2" in *find_libpython*) exit {status};; *) echo libpython3.99;; esac
"""


def _executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def run_tools(tmp_path: Path):
    """Return a function that runs the script without apt-get, with the tools and a Python as asked for."""

    def run(tools: tuple[str, ...], *, libpython: bool) -> subprocess.CompletedProcess:
        _executable(tmp_path / "scripts" / SCRIPT.name, SCRIPT.read_text())
        _executable(tmp_path / ".venv/bin/python", PYTHON.format(status=0 if libpython else 1))
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in ("bash", "sh", "dirname"):
            (folder / name).symlink_to(shutil.which(name))
        for name in tools:
            _executable(folder / name, "#!/bin/sh\n")
        command = [tmp_path / "scripts" / SCRIPT.name]
        return subprocess.run(command, env={"PATH": str(folder)}, capture_output=True, text=True, check=False)

    return run


def test_nothing_is_missing_where_tools_and_libpython_are_there(run_tools):
    done = run_tools((*TOOLS, "chromium"), libpython=True)
    assert (done.returncode, done.stdout) == (0, "[tools] ready\n")


def test_a_missing_browser_is_no_failure(run_tools):
    done = run_tools(TOOLS, libpython=True)
    assert done.returncode == 0
    assert done.stdout == (
        "[tools] optional: chromium is not installed; the tests of reports in a browser will be skipped\n"
        "[tools] ready\n"
    )


def test_a_missing_libpython_is_named_by_its_package(run_tools):
    done = run_tools(TOOLS, libpython=False)
    assert done.returncode == 1
    assert "[tools] missing: libpython3.99\n" in done.stderr
    assert "apt-get install -y libpython3.99" in done.stderr


def test_missing_tools_and_libpython_are_named_together(run_tools):
    done = run_tools(("g++", "make", "perl"), libpython=False)
    assert done.returncode == 1
    assert "[tools] missing: iverilog tcl ccache libpython3.99\n" in done.stderr
