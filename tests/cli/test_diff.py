"""`vdla diff`: what it prints and writes, and what it refuses."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import done, invoke, refused
from tests.cli.models import QDQ_NODES, QUANTISED, model, node
from tests.explore.runs.records import PARAMETERS, layer, run, text
from vdla.explore.runs.record import WRITE_ONE, TargetRecord

SMALL = TargetRecord(
    "small", "1" * 64, {**PARAMETERS, "block_in": 8, "clock_mhz": 50.0, "extensions": ("table",)}
)
FUSED = run([layer("conv", 4000, "conv add"), layer("pool", 100), layer("soft", None)], outside=24)
SPLIT = run(
    [
        layer("conv", 9000, "conv", bound="memory"),
        layer("add", 1000, "add"),
        layer("pool", 90, reason=""),
        layer("soft", 7, reason=""),
    ],
    preset="small",
    target=SMALL,
    clock_hz=5e7,
    instructions=30,
)
TEXT = """\
A  a.json: net on default at 100 MHz, device cycle
B  b.json: net on small at 50 MHz, device cycle
target      default -> small
block_in    16 -> 8
clock_mhz   100 -> 50
extensions  A alone has gather

                       A       B  difference  ratio
cycles             4,124  10,097      +5,973  2.448
ms                 0.041   0.202      +0.161  4.897
DRAM, KiB           44.0   108.5       +64.4  2.463
DRAM read, KiB      40.0    98.6       +58.6  2.463
DRAM written, KiB    4.0     9.9        +5.9  2.463
energy, uJ          82.5   201.9      +119.5  2.448
launches               1       1           0  1.000
instructions           9      30         +21  3.333

layer        cycles A  cycles B  difference  ratio  KiB A  KiB B  ratio  uJ A   uJ B  ratio  bound A  bound B
conv + add      4,000    10,000      +6,000  2.500   43.0  107.4  2.500  80.0  200.0  2.500  compute  memory, compute  1 layer in A, 2 layers in B
  B: conv                 9,000                             96.7               180.0                  memory
  B: add                  1,000                             10.7                20.0                  compute
pool              100        90         -10  0.900    1.1    1.0  0.900   2.0    1.8  0.900  compute  compute
soft                -         7          +7      -    0.0    0.1      -     -    0.1      -  host     compute          on the host in A
in no layer        24         0         -24  0.000    0.0    0.0      -   0.5    0.0  0.000
total           4,124    10,097      +5,973  2.448   44.0  108.5  2.463  82.5  201.9  2.448
"""


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """Return the current folder, with the records of two runs."""
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_bytes(text(FUSED))
    Path("b.json").write_bytes(text(SPLIT))
    return tmp_path


def test_both_runs_are_compared_as_text(here):
    assert done("diff", "a.json", "b.json").stdout == TEXT


def test_layers_are_listed_as_they_run_or_by_their_difference(here):
    Path("c.json").write_bytes(text(run([layer("conv", 4001), layer("pool", 150), layer("soft", None)])))
    listed = {
        order: [
            line.split()[0]
            for line in done("diff", "a.json", "c.json", "--sort", order).stdout.splitlines()[-5:-1]
        ]
        for order in ("order", "difference")
    }
    assert listed == {"order": ["conv", "pool", "soft", "in"], "difference": ["pool", "conv", "soft", "in"]}


def test_rows_that_are_not_listed_are_summed(here):
    lines = done("diff", "a.json", "b.json", "--top", 1).stdout.splitlines()[-6:]
    assert [line.split("  ")[0] for line in lines] == [
        "conv + add",
        "",
        "",
        "2 other rows",
        "in no layer",
        "total",
    ]
    assert lines[3].split()[3:6] == ["100", "97", "-3"]


def test_json_has_the_same_rows(here):
    values = json.loads(done("diff", "a.json", "b.json", "--json", "--top", 1).stdout)
    assert [row["kind"] for row in values["layers"]] == ["group", "others", "rest"]
    assert sum(row["cycles"]["difference"] for row in values["layers"]) == 5973
    assert values["totals"]["cycles"]["difference"] == 5973
    assert values["changed"]["block_in"] == {"a": 16, "b": 8}
    assert (values["a"]["file"], values["b"]["target"], values["differs"]) == ("a.json", "small", True)


def test_the_same_run_does_not_differ(here):
    assert done("diff", "a.json", "a.json").stdout.splitlines()[-1] == (
        "nothing differs: the same target, and the same figures of every layer"
    )
    assert json.loads(done("diff", "a.json", "a.json", "--json").stdout)["differs"] is False


def test_runs_on_one_target_differ_for_other_reasons(here):
    Path("c.json").write_bytes(text(run([layer("conv", 4001)])))
    lines = done("diff", "a.json", "c.json").stdout.splitlines()
    assert lines[2] == "the same target; compiler, schedules or options of compilation differ"


def test_the_page_is_one_file_that_loads_nothing(here):
    pytest.importorskip("vl_convert")
    result = done("diff", "a.json", "b.json", "-o", "made/x.html", "--top", 1)
    assert result.stderr == "made/x.html: open it in a browser\n"
    assert result.stdout == done("diff", "a.json", "b.json", "--top", 1).stdout
    page = Path("made/x.html").read_text()
    assert "<title>Two runs of net</title>" in page
    assert "default-src 'none'" in page
    assert not any(
        marker in page for marker in (' src="http', ' href="http', "<!--data-->", "<!--scripts-->")
    )


@pytest.mark.parametrize(
    ("b", "options", "message"),
    [
        ("bad.json", (), f"bad.json is not the record of a run: Input data was truncated; {WRITE_ONE}"),
        (
            "net.onnx",
            (),
            "net.onnx is not the record of a run: JSON is malformed: invalid character (byte 0)",
        ),
        ("bad.vdla", (), "bad.vdla is not a module: it does not begin with VDLA"),
        (
            "untimed.json",
            (),
            "untimed.json has no cycles: the device functional counts none; run the network",
        ),
        (
            "other.json",
            (),
            "a.json is a run of net (1,000 MACs), and other.json of other (7 MACs); layers are",
        ),
        ("bad.json", ("-o", "."), ". cannot be written: Is a directory"),
    ],
)
def test_what_cannot_be_compared_is_refused_and_nothing_is_written(here, b, options, message):
    Path("bad.json").write_bytes(text(SPLIT)[:-5])
    Path("bad.vdla").write_bytes(text(SPLIT))
    Path("net.onnx").write_bytes(model().SerializeToString())
    Path("untimed.json").write_bytes(text(run([layer("conv")], device="functional", cycles=None)))
    Path("other.json").write_bytes(text(run([layer("conv")], network="other", macs=7)))
    before = set(here.iterdir())
    problem = refused("diff", "a.json", b, *(options or ("-o", "x.html")))
    assert problem.startswith(message)
    assert "\n" not in problem
    assert set(here.iterdir()) == before


@pytest.mark.parametrize(
    "arguments", [("a.json",), ("a.json", "none.json"), ("a.json", "."), ("a.json", "b.json", "--top", 0)]
)
def test_arguments_are_checked(here, arguments):
    result = invoke("diff", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage: " in result.stderr


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Return a folder with a network, its modules for two targets, and the records of their runs."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "net.onnx").write_bytes(model().SerializeToString())
    for preset in ("default", "tiny"):
        done("compile", folder / "net.onnx", "--config", preset, "-o", folder / f"{preset}.vdla")
        printed = done("run", folder / f"{preset}.vdla", "--device", "cycle", "--json").stdout
        (folder / f"{preset}.json").write_text(printed)
    return folder


def test_a_run_and_its_module_do_not_differ(files):
    for preset in ("default", "tiny"):
        result = done("diff", files / f"{preset}.json", files / f"{preset}.vdla")
        assert "nothing differs" in result.stdout


def test_the_rows_of_two_targets_add_up_to_the_totals_of_both_runs(files):
    values = json.loads(done("diff", files / "default.vdla", files / "tiny.json", "--json").stdout)
    for side, preset in (("a", "default"), ("b", "tiny")):
        report = json.loads((files / f"{preset}.json").read_text())
        assert values["totals"]["cycles"][side] == report["cycles"]
        assert values["totals"]["bytes_moved"][side] == report["summary"]["bytes_moved"]
        assert values["totals"]["energy_pj"][side] == report["energy_pj"]
        assert sum(row["cycles"][side] or 0 for row in values["layers"]) == report["cycles"]
        assert sum(row["energy_pj"][side] or 0 for row in values["layers"]) == pytest.approx(
            report["energy_pj"]
        )
        names = [layer["name"] for row in values["layers"] for layer in row["layers"][side]]
        assert sorted(names) == sorted(layer["name"] for layer in report["layers"])
    assert {row["kind"] for row in values["layers"]} <= {"layer", "group"}
    assert values["changed"]["target"] == {"a": "default", "b": "tiny"}
    assert "block_in" in values["changed"]


def test_options_of_a_run_are_settings_that_differ(files):
    slow = done("run", files / "tiny.vdla", "--device", "cycle", "--json", "--latency", 300, "--clock", 50)
    (files / "slow.json").write_text(slow.stdout)
    values = json.loads(done("diff", files / "tiny.json", files / "slow.json", "--json").stdout)
    assert values["changed"] == {
        "clock_mhz": {"a": 100.0, "b": 50.0},
        "memory.latency": {"a": 64, "b": 300},
    }
    assert values["totals"]["cycles"]["difference"] > 0
    assert values["totals"]["bytes_moved"]["difference"] == 0


def test_any_clock_of_a_run_is_recorded(files):
    fast = done("run", files / "tiny.vdla", "--device", "cycle", "--json", "--clock", 1e9).stdout
    assert json.loads(fast)["target"]["parameters"]["clock_mhz"] == 1e9


def residual_model():
    """Return a model of two convolutions and their sum, which a target with the extension `residual` fuses.
    Both convolutions have one node after common subexpressions are merged, so its name is not unique."""
    nodes = (
        *QDQ_NODES[:7],
        node("Conv", "xd wd", "d", pads=[1, 1, 1, 1]),
        node("QuantizeLinear", "d s z", "dq"),
        node("DequantizeLinear", "dq s z", "dd"),
        node("Add", "rd dd", "a"),
        node("QuantizeLinear", "a ys z", "aq"),
        node("DequantizeLinear", "aq ys z", "y"),
    )
    return model(nodes, {name: QUANTISED[name] for name in ("wq", "s", "ws", "ys", "z")})


def test_layers_that_one_target_fuses_are_one_row(tmp_path):
    (tmp_path / "net.onnx").write_bytes(residual_model().SerializeToString())
    for preset in ("default", "small"):
        done("compile", tmp_path / "net.onnx", "--config", preset, "-o", tmp_path / f"{preset}.vdla")
    values = json.loads(done("diff", tmp_path / "default.vdla", tmp_path / "small.vdla", "--json").stdout)
    rows = values["layers"]
    assert sorted(row["kind"] for row in rows) == ["group", "layer", "layer", "layer"]
    group = next(row for row in rows if row["kind"] == "group")
    fused, separate = (group["layers"][side] for side in "ab")
    convolution, total = (layer["operators"] for layer in separate)
    assert [layer["operators"] for layer in fused] == [[*convolution, *total]]
    assert (group["name"], total) == ("C + A", ["A"])
    assert group["cycles"]["b"] == sum(layer["cycles"] for layer in separate)


def test_modules_without_a_graph_are_compared_by_the_names_of_layers(files):
    done("compile", files / "net.onnx", "--config", "tiny", "--no-graph", "-o", files / "bare.vdla")
    values = json.loads(done("diff", files / "tiny.vdla", files / "bare.vdla", "--json").stdout)
    assert values["differs"] is False
    assert all(layer["operators"] == [] for row in values["layers"] for layer in row["layers"]["b"])
