"""The table of networks: its figures agree with a run."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

import vdla
from tests.cli.models import model


@pytest.fixture(scope="module")
def bench(script):
    """Return scripts/bench_networks.py."""
    return script("bench_networks")


@pytest.fixture(scope="module")
def row(bench, tmp_path_factory):
    """Return the row of a small network."""
    folder = tmp_path_factory.mktemp("rows")
    (folder / "net_int8.onnx").write_bytes(model().SerializeToString())
    return bench.row_of(folder / "net_int8.onnx", folder, "--config", "tiny")


def test_a_row_has_the_figures_of_a_run(bench, row):
    forecast = vdla.compile(model().SerializeToString(), "tiny").forecast()
    assert row.network == "net"
    assert row.seconds > 0
    assert row.summary.cycles == forecast.cycles
    name, launches, macs, share, default, cycles, change, used, _ = str(row).split()
    assert (name, launches, macs, share) == ("net", "2", "0.0", "100.0%")
    assert (default, cycles, change) == (f"{forecast.cycles:,}", f"{forecast.cycles:,}", "+0.00%")
    assert used == f"{forecast.utilisation:.1%}"


def test_the_change_is_that_from_the_compilers_own_choices(row):
    slow = replace(row, default=2 * row.summary.cycles, seconds=3.14)
    assert str(slow).split()[-3] == "-50.00%"
    assert str(slow).split()[-1] == "3.1"


def test_without_models_the_command_says_what_to_do(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "MODELS", tmp_path)
    done = CliRunner().invoke(bench.main, [])
    assert done.exit_code == 1
    assert "build/models holds no .onnx files; make some with scripts/make_models.py" in done.output
