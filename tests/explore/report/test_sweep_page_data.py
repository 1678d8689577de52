"""The folder of a sweep as the page's data: columns, commands, size, and damaged files."""

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("vl_convert")

import pyarrow as pa
import pyarrow.parquet as pq

from tests.explore.report.folders import LAYERS, write_sweep
from vdla.explore.report.numbers import short
from vdla.explore.report.sweep_page import Sweep, _settings, page_data, read_sweep, write_sweep_report
from vdla.explore.sweep.errors import SweepError
from vdla.hw.spec.errors import ConfigError, FileFormatError
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.target import Target
from vdla.hw.spec.target_files import to_toml


@pytest.fixture
def folder(tmp_path) -> Path:
    return write_sweep(tmp_path / "sweep", 14)


def test_every_column_has_a_value_for_each_point(folder):
    data = page_data(read_sweep(folder))
    first, second = data["workloads"]
    assert {len(column) for column in data["points"].values()} == {14}
    assert {len(column) for workload in (first, second) for column in workload["runs"].values()} == {14}
    assert (first["model"], second["model"]) == ("net.onnx", None)
    assert first["layers"]["shape"] == [0] * 12 + [None, 0]
    assert first["layers"]["shapes"][0]["op"] == tuple(op for _, op, _, _ in LAYERS)
    assert [len(cycles) for cycles in first["layers"]["cycles"] if cycles] == [len(LAYERS)] * 13
    assert (data["points"]["peak"][:2], data["points"]["bus"][0]) == ([64, 128], 8)
    assert data["points"]["settings"][1].startswith("default --set block_out=16 --set block_in=8 ")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (["table", "residual"], "table,residual"),
        (("table",), "table"),
        ([], "none"),
        (16.0, "16"),
        (2.5, "2.5"),
        (8, "8"),
        ("routed", "routed"),
    ],
)
def test_a_parameter_is_written_as_set_takes_it(value, text):
    sweep = Sweep("sweep", {"parameters": ["it", "empty"]}, {"it": [None, value], "empty": [0, None]}, {})
    assert _settings(sweep, 1) == [f"it={text}"]


def test_a_sweep_that_tunes_has_the_cycles_of_the_compilers_own_choices(folder):
    assert "default_cycles" not in page_data(read_sweep(folder))["workloads"][0]["runs"]
    table = pq.read_table(folder / "points.parquet")
    default_cycles = [None if cycles is None else cycles + 5 for cycles in table["cycles"].to_pylist()]
    pq.write_table(table.append_column("default_cycles", pa.array(default_cycles)), folder / "points.parquet")
    for workload in page_data(read_sweep(folder))["workloads"]:
        runs = workload["runs"]
        assert [cycles and cycles - 5 for cycles in runs["default_cycles"]] == runs["cycles"]


def test_the_roof_falls_with_the_bandwidth_of_memory(folder):
    about = json.loads((folder / "sweep.json").read_text())
    about["base_toml"] = to_toml(Target(memory=MemoryParameters(cycles_per_beat=4)))
    (folder / "sweep.json").write_text(json.dumps(about))
    assert page_data(read_sweep(folder))["points"]["bus"][0] == 2


def test_a_damaged_base_names_folder_file_and_key(folder):
    about = json.loads((folder / "sweep.json").read_text())
    (folder / "sweep.json").write_text(json.dumps(about | {"base_toml": "x"}))
    with pytest.raises(ConfigError, match=f"^{folder.name}/sweep.json: base_toml is not TOML: "):
        page_data(read_sweep(folder))


def test_models_have_the_options_of_their_quantisation(folder):
    about = json.loads((folder / "sweep.json").read_text())
    table = {"model": "my net.onnx", "name": "resnet", "calibrate": "s.npz", "shapes": {"x": [1, 3]}}
    about["specification"]["workloads"][0] = table
    (folder / "sweep.json").write_text(json.dumps(about))
    assert page_data(read_sweep(folder))["workloads"][0]["model"] == (
        "'my net.onnx' --calibrate s.npz --shape x=1,3"
    )


def test_layers_are_in_order_whatever_the_order_of_their_rows(folder):
    before = page_data(read_sweep(folder))
    table = pq.read_table(folder / "layers.parquet")
    pq.write_table(table.take(list(reversed(range(len(table))))), folder / "layers.parquet")
    assert page_data(read_sweep(folder)) == before


@pytest.mark.parametrize(
    ("value", "shown"),
    [(3.0, 3), (0.123456789, 0.12346), (float("nan"), None), (7, 7), ("a", "a"), (None, None)],
)
def test_numbers_are_as_short_as_the_page_needs(value, shown):
    assert short(value) == shown
    assert type(short(value)) is type(shown)


def without_column(folder: Path) -> None:
    pq.write_table(pq.read_table(folder / "points.parquet").drop_columns("lut"), folder / "points.parquet")


def cut(folder: Path) -> None:
    data = (folder / "layers.parquet").read_bytes()
    (folder / "layers.parquet").write_bytes(data[: len(data) // 2])


DAMAGED = {
    "holds no sweep: it has no sweep.json": lambda folder: (folder / "sweep.json").unlink(),
    "points.parquet cannot be read": lambda folder: (folder / "points.parquet").unlink(),
    "layers.parquet cannot be read": cut,
    "points.parquet has no column lut": without_column,
    "sweep.json is damaged: it is no JSON": lambda folder: (folder / "sweep.json").write_text("{"),
    "sweep.json is damaged: Object missing required field `specification`": lambda folder: (
        folder / "sweep.json"
    ).write_text('{"parameters": []}'),
    "sweep.json is damaged: Expected `object`, got `array`": lambda folder: (
        folder / "sweep.json"
    ).write_text("[]"),
}


@pytest.mark.parametrize("message", DAMAGED)
def test_a_damaged_sweep_is_named(folder, message):
    DAMAGED[message](folder)
    with pytest.raises((FileFormatError, SweepError)) as caught:
        write_sweep_report(folder)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (folder / "report.html").exists()


def test_a_thousand_points_on_five_workloads_take_less_than_five_megabytes(tmp_path):
    folder = write_sweep(tmp_path, 1000, tuple("abcde"), repeats=3)
    assert pq.read_table(folder / "points.parquet").num_rows == 5000
    assert pq.read_table(folder / "layers.parquet").num_rows > 90_000
    assert write_sweep_report(folder).stat().st_size < 5_000_000
