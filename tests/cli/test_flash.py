"""Loading a build through openFPGALoader, with a program that stands in for it."""

import json

import pytest
from click.testing import CliRunner

from tests.boards.fakes import calls, install
from tests.boards.test_board_file import FILE
from vdla.boards.board_file import bitstream_digest, to_toml
from vdla.cli import main
from vdla.cli.flash import loader_arguments
from vdla.hw.spec.errors import ConfigError

BITS = b"bits"


@pytest.fixture
def build(tmp_path):
    """A folder with a build, as `vdla build` writes it."""
    folder = tmp_path / "build"
    folder.mkdir()
    (folder / "bitstream.bit").write_bytes(BITS)
    (folder / "report.json").write_text(json.dumps({"sources": "abc"}))
    text = to_toml(FILE).replace('digest = "' + "0" * 64, 'digest = "' + bitstream_digest("abc", BITS))
    (folder / "board.toml").write_text(text.replace('loader = ""', 'loader = "ulx3s"'))
    return folder


@pytest.fixture
def tools(tmp_path, monkeypatch):
    folder = tmp_path / "tools"
    folder.mkdir()
    install(folder, monkeypatch, {}, 70.0)
    return folder


def flash(*arguments):
    return CliRunner().invoke(main, ["flash", *map(str, arguments)])


def test_the_command_is_shown_and_run(build, tools):
    done = flash(build)
    command = ["--board", "ulx3s", "--write-sram", str(build / "bitstream.bit")]
    assert done.output.splitlines() == [" ".join(["openFPGALoader", *command]), f"{build}: loaded"]
    assert calls(tools) == [["openFPGALoader", *command]]


def test_the_flash_memory_is_written_on_request_through_the_named_cable(build, tools):
    assert flash(build, "--permanent", "--cable", "ft232").exit_code == 0
    assert calls(tools)[0][1:] == [
        *("--board", "ulx3s", "--cable", "ft232", "--write-flash"),
        str(build / "bitstream.bit"),
    ]


def test_a_dry_run_runs_nothing_and_needs_no_tool(build, tools, monkeypatch):
    monkeypatch.setenv("PATH", "")
    done = flash(build, "--dry-run")
    assert done.exit_code == 0
    assert done.output.startswith("openFPGALoader --board ulx3s --write-sram ")
    assert calls(tools) == []


def test_a_missing_loader_is_an_error_that_says_how_to_install_it(build, monkeypatch):
    monkeypatch.setenv("PATH", "")
    done = flash(build)
    assert done.exit_code == 2
    assert "error: vdla flash needs openFPGALoader, which is not on PATH" in done.output


def test_a_loader_that_fails_is_an_error_with_what_it_said(build, tools):
    (tools / "refuse").touch()
    done = flash(build)
    assert done.exit_code == 2
    assert "error: openFPGALoader failed: a board said no" in done.output


def test_a_bitstream_that_is_not_the_one_of_the_board_file_is_refused(build):
    (build / "bitstream.bit").write_bytes(BITS + b"!")
    with pytest.raises(
        ConfigError, match=r"bitstream\.bit is damaged, or is of another build than board\.toml"
    ):
        loader_arguments(build, permanent=False)


@pytest.mark.parametrize(
    ("name", "text"), [("report.json", "{"), ("report.json", "[]"), ("bitstream.bit", None)]
)
def test_a_folder_without_a_whole_build_is_refused(build, name, text):
    (build / name).write_text(text) if text else (build / name).unlink()
    with pytest.raises(ConfigError, match=r"does not hold a whole build: .*; write one with vdla build"):
        loader_arguments(build, permanent=False)


def test_a_board_that_the_loader_does_not_know_is_refused(build):
    file = build / "board.toml"
    file.write_text(file.read_text().replace('loader = "ulx3s"', 'loader = ""'))
    with pytest.raises(
        ConfigError, match=r"board\.loader is empty: openFPGALoader is not used for board ulx3s-85f"
    ):
        loader_arguments(build, permanent=False)
