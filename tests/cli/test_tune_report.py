"""`vdla tune report`: what it takes, and where it writes."""

from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("vl_convert")
pytest.importorskip("xgboost")

from tests.cli.test_extras import line_of, without
from tests.explore.report.logs import write
from vdla.cli import main


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(Path("net.jsonl"))
    Path("empty").touch()
    Path("bad").write_bytes(b"x\n")
    return tmp_path


def invoke(*arguments: object):
    return CliRunner().invoke(main, ["tune", "report", *map(str, arguments)])


@pytest.mark.parametrize(("arguments", "page"), [((), "net.html"), (("-o", "x/y.html"), "x/y.html")])
def test_the_page_is_one_file_that_loads_nothing(here, arguments, page):
    done = invoke("net.jsonl", *arguments)
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"{page}\n", "")
    text = Path(page).read_text()
    assert "<title>Tuning log net.jsonl</title>" in text
    assert "default-src 'none'" in text
    assert not any(
        marker in text for marker in (' src="http', ' href="http', "<!--data-->", "<!--scripts-->")
    )


def test_a_torn_line_is_left_out_and_the_log_stays_as_it_is(here):
    data = Path("net.jsonl").read_bytes()[:-4]
    Path("net.jsonl").write_bytes(data)
    done = invoke("net.jsonl")
    assert (done.exit_code, done.stderr) == (0, "net.jsonl: its last line is torn, and left out\n")
    assert Path("net.jsonl").read_bytes() == data


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("empty",), "empty holds no records; `vdla tune MODEL -o empty` writes some"),
        (("bad",), "bad, line 1 is damaged"),
        (("net.jsonl", "-o", "."), ". cannot be written: Is a directory"),
        (("net.jsonl", "--config", "none"), "none is neither a preset"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(here, arguments, message):
    done = invoke(*arguments)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr
    assert not Path("net.html").exists()


def test_usage_names_the_words_that_are_typed():
    assert invoke("--help").output.startswith("Usage: main tune report [OPTIONS] LOG\n")


@pytest.mark.parametrize("package", ["vl_convert", "xgboost"])
def test_the_extra_that_is_needed_is_named(here, package):
    start = "from vdla.cli import main\nmain()"
    done = without((package,), ["vdla", "tune", "report", "net.jsonl"], start, here)
    assert (done.returncode, done.stderr) == (2, line_of(package, "vdla tune report"))
