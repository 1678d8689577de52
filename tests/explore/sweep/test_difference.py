"""Comparing sweeps: through the command line, on hand-written tables."""

import json
import shutil

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from vdla.cli import main
from vdla.explore.sweep.difference import Pair, compare
from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.figures import FIGURES
from vdla.explore.sweep.results import Results
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.target import Target
from vdla.hw.spec.target_files import to_toml

ROW = dict.fromkeys(FIGURES, 100.0) | {"workload": "w", "status": "ok", "cycles": 1000}


def folder(path, rows, names=("block_in",), base=None):
    """Write the folder of a sweep; `base` is the target that its points differ from."""
    path.mkdir()
    identity = {"specification": {}, "parameters": list(names), "workloads": {}, "base": {"name": "default"}}
    identity |= {} if base is None else {"base_toml": to_toml(base)}
    (path / "sweep.json").write_text(json.dumps(identity))
    rows = [{"point": number} | ROW | row for number, row in enumerate(rows)]
    parquet.write_table(pa.Table.from_pylist(rows), path / "points.parquet")
    return path


@pytest.fixture
def both(tmp_path):
    """Return the folders of two sweeps."""
    before = [
        {"block_in": 8},
        {"block_in": 16},
        {"block_in": 32, "status": "too wide", "cycles": None},
        {"block_in": 64},
    ]
    after = [
        {"block_in": 128},
        {"block_in": 32},
        {"block_in": 16, "cycles": 500, "lut": 110.0},
        {"block_in": 8, "cycles": None, "status": "broken"},
    ]
    return folder(tmp_path / "a", before), folder(tmp_path / "b", after)  # fmt: skip


def run(*arguments):
    """Run `vdla sweep diff`."""
    return CliRunner().invoke(main, ["sweep", "diff", *map(str, arguments)])


def test_a_comparison_says_what_became_of_every_point(both):
    done = run(*both)
    assert done.exit_code == 0
    assert done.stdout == (
        "3 rows in both sweeps, 3 of them differ; 1 only in the first, 1 only in the second\n"
        "workload   cycles     best    worst  seconds  energy_pj     lut      ff     dsp  block_ram     mhz\n"
        "       w  -50.00%  -50.00%  -50.00%   +0.00%     +0.00%  +3.23%  +0.00%  +0.00%     +0.00%  +0.00%\n"
        "without cycles in the second: block_in = 8, w: broken\n"
        "without cycles in the first: block_in = 32, w: too wide\n"
        "block_in  workload  cycles A  cycles B   change\n"
        "      16         w     1,000       500  -50.00%\n"
    )


def test_a_damaged_base_names_file_and_key(both):
    path = both[1] / "sweep.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"base_toml": "x"}))
    done = run(*both)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {path}: base_toml is not TOML: ")


def test_a_comparison_is_json_and_parquet_too(both, tmp_path):
    values = json.loads(run(*both, "--json", "-o", tmp_path / "d.parquet").stdout)
    assert (values["points"], values["changed"], values["only_before"], values["only_after"]) == (3, 3, 1, 1)
    assert values["ratios"]["cycles"] == {"mean": 0.5, "least": 0.5, "greatest": 0.5}
    assert values["gained"] == [{"block_in": 32, "workload": "w"}]
    table = parquet.read_table(tmp_path / "d.parquet")
    assert table.column("cycles_before").to_pylist() == [1000, 1000, None]
    assert table.column("cycles_after").to_pylist() == [None, 500, 1000]


@pytest.mark.parametrize(
    ("before", "after", "ratio", "changed"),
    [(100, 50, 0.5, True), (100, 100, 1.0, False), (None, 50, None, False), (0, 50, None, True)],
)
def test_a_pair_has_the_ratio_of_what_both_know(before, after, ratio, changed):
    pair = Pair({}, "w", {"cycles": before, "status": "ok"}, {"cycles": after, "status": "ok"})
    assert (pair.ratio("cycles"), pair.changed) == (ratio, changed)


def test_figures_that_one_sweep_does_not_know_are_no_difference(tmp_path):
    known = folder(tmp_path / "a", [{"block_in": 8}, {"block_in": 16}])
    without_area = folder(tmp_path / "b", [{"block_in": 8, "lut": None}, {"block_in": 16, "lut": None}])
    assert run(known, without_area).stdout.startswith("2 rows in both sweeps, 0 of them differ")


BOTH = ("block_in", "memory.latency")
WIDE = [
    {"block_in": size, "memory.latency": wait, "cycles": size * wait}
    for size in (8, 16)
    for wait in (64, 128)
]


@pytest.mark.parametrize(
    ("latency", "pairs", "only", "line"),
    [
        (64, [(8, 640), (16, 640)], 2, "only the second sweeps memory.latency: compared at 64, the value of the first's base"),
        (128, [(8, 640), (16, 640)], 2, "only the second sweeps memory.latency: compared at 128, the value of the first's base"),
        (99, [(8, 640)] * 2 + [(16, 640)] * 2, 0, "only the second sweeps memory.latency: every value is compared with the first's points"),
    ],
)  # fmt: skip
def test_a_parameter_of_one_sweep_is_compared_at_the_base_of_the_other(tmp_path, latency, pairs, only, line):
    base = Target(memory=MemoryParameters(latency))
    narrow = folder(tmp_path / "a", [{"block_in": size, "cycles": 640} for size in (8, 16)], base=base)
    wide = folder(tmp_path / "b", WIDE, BOTH)
    comparison = compare(Results(narrow), Results(wide))
    assert [(pair.values["block_in"], pair.before["cycles"]) for pair in comparison.pairs] == pairs
    waits = {128: {128}, 64: {64}, 99: {64, 128}}[latency]
    assert {pair.after["cycles"] // pair.values["block_in"] for pair in comparison.pairs} == waits
    assert all(("memory.latency" in pair.values) == (latency == 99) for pair in comparison.pairs)
    assert (len(comparison.only_before), len(comparison.only_after)) == (0, only)
    assert line in run(narrow, wide).stdout.splitlines()
    back = compare(Results(wide), Results(narrow))
    assert (len(back.pairs), len(back.only_before)) == (len(pairs), only)


def test_equal_sweeps_do_not_differ(both):
    assert run(both[0], both[0]).stdout.startswith("4 rows in both sweeps, 0 of them differ; 0 only")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: (path / "sweep.json").unlink(), "holds no sweep: it has no sweep.json"),
        (lambda path: (path / "points.parquet").unlink(), "points.parquet does not exist; run the sweep again"),
        (lambda path: (path / "points.parquet").write_bytes(b"PAR1 and more"), "points.parquet is damaged"),
        (lambda path: parquet.write_table(pa.table({"x": [1]}), path / "points.parquet"), "has no column point, workload"),
        (lambda path: (shutil.rmtree(path), folder(path, [{"batch": 1}], ("batch",))), "compare sweeps that share a parameter"),
    ],
)  # fmt: skip
def test_a_sweep_that_cannot_be_compared_is_one_line_and_status_2(both, spoil, message):
    spoil(both[1])
    done = run(*both)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr


def test_one_row_is_one_and_a_sweep_without_parameters_says_so(tmp_path):
    first, second = (folder(tmp_path / name, [{"block_in": 8}]) for name in "ab")
    none = folder(tmp_path / "c", [{}], ())
    assert run(first, second).stdout.startswith("1 row in both sweeps, 0 of them differ; ")
    with pytest.raises(SweepError, match=r"a sweeps block_in, and \S+c sweeps no parameter; compare sweeps"):
        compare(Results(first), Results(none))
