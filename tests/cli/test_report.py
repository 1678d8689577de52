"""`vdla report`: what it takes, and where it writes."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("vl_convert")

from tests.cli.commands import invoke
from tests.cli.models import model
from tests.explore.report.folders import write_sweep


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").write_bytes(model().SerializeToString())
    write_sweep(Path("sweep"), 3)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "page", "title"),
    [
        (("sweep",), "sweep/report.html", "Sweep sweep"),
        (("sweep", "-o", "x/y.html"), "x/y.html", "Sweep sweep"),
        (("net.onnx", "--config", "tiny", "--latency", 90), "net.html", "Run of net"),
    ],
)
def test_the_page_is_one_file_that_loads_nothing(here, arguments, page, title):
    done = invoke("report", *arguments)
    assert (done.exit_code, done.stdout) == (0, f"{page}\n"), done.stderr
    text = Path(page).read_text()
    assert f"<title>{title}</title>" in text
    assert "default-src 'none'" in text
    assert not any(
        marker in text for marker in (' src="http', ' href="http', "<!--data-->", "<!--scripts-->")
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sweep", "--config", "tiny"), "sweep is the folder of a sweep, so --config cannot change it"),
        (
            ("sweep", "--latency", 9, "--clock", 3, "--cycles-per-beat", 2),
            "so --clock and --latency and --cycles-per-beat cannot change it",
        ),
        (("sweep", "--input", "net.onnx"), "so --input cannot change it"),
        ((".",), ". holds no sweep: it has no sweep.json; `vdla sweep` writes one"),
        (("net.onnx", "-o", "sweep"), "sweep cannot be written: Is a directory"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(here, arguments, message):
    done = invoke("report", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_config_writes_a_file_that_config_takes(here):
    settings = ("--set", "block_in=32", "--set", "memory.latency=99", "--set", "energy.dram=5")
    wanted = invoke("config", "default", *settings, "--json").stdout
    assert invoke("config", "default", *settings, "-o", "mine.toml").exit_code == 0
    assert invoke("config", "mine.toml", "--json").stdout == wanted
    refused = invoke("config", "default", "-o", "mine.json")
    assert refused.exit_code == 2
    assert refused.stderr == (
        "error: --output mine.json has another suffix than .toml; --config takes .toml files\n"
    )
