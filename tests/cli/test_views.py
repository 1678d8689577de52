"""`vdla trace` and `vdla plot`: what they write, and what they refuse."""

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import vdla
from tests.cli.commands import invoke as command
from tests.cli.models import model, node
from vdla.cli import plot, trace
from vdla.runtime.vectors import load_vector
from vdla.sim.decoded import decode_stream
from vdla.sim.interleave import interleave
from vdla.sim.trace.perfetto import Lane

VECTORS = sorted((Path(__file__).parents[1] / "vectors" / "vta").glob("*.npz"))
GOOD = next(path for path in VECTORS if path.name.startswith("gemm"))
ALU = next(path for path in VECTORS if path.name.startswith("alu"))


def invoke(module, *arguments):
    return CliRunner().invoke(module.command, [str(argument) for argument in arguments])


@pytest.fixture
def stuck(tmp_path):
    """Return a vector whose program lacks its first token."""
    import numpy as np

    with np.load(GOOD) as file:
        arrays = {name: file[name].copy() for name in file.files}
    pushing = np.flatnonzero(arrays["instructions"][:, 0] & 0b1100000)
    arrays["instructions"][pushing[0], 0] &= 0b10011111
    np.savez(tmp_path / "stuck.npz", **arrays)
    return tmp_path / "stuck.npz"


def test_a_timeline_is_written(tmp_path):
    outcome = invoke(trace, GOOD, "-o", tmp_path / "trace.json")
    assert outcome.exit_code == 0
    assert "cycles" in outcome.stderr
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_text_goes_to_a_file_or_to_standard_output(tmp_path):
    printed = invoke(trace, GOOD, "--text", "-o", "-")
    assert invoke(trace, GOOD, "--text", "-o", tmp_path / "trace.txt").exit_code == 0
    assert printed.stdout == (tmp_path / "trace.txt").read_text()
    assert len(printed.stdout.splitlines()) >= 3 * len(load_vector(GOOD).stream)


def test_a_name_in_txt_is_written_as_text(tmp_path):
    outcome = invoke(trace, GOOD, "-o", tmp_path / "trace.txt")
    assert "perfetto" not in outcome.stderr
    assert (tmp_path / "trace.txt").read_text() == invoke(trace, GOOD, "--text", "-o", "-").stdout


def test_the_summary_tells_how_busy_the_units_were(tmp_path):
    outcome = invoke(trace, GOOD, "-o", tmp_path / "trace.json")
    name, cycles, instructions, shares = (
        r"gemm\S*\.npz",
        r"[\d,]+ cycles",
        r"\d+ instructions",
        r"load \d+%, compute \d+%, store \d+%",
    )
    assert re.fullmatch(
        rf"{name}: {cycles}, {instructions}, busy: {shares} -> \S+/trace\.json; open it in https://ui\.perfetto\.dev\n",
        outcome.stderr,
    )


def test_memory_can_be_chosen(tmp_path):
    slow, fast = (
        invoke(trace, GOOD, "--text", "-o", "-", "--latency", latency).stderr for latency in (500, 1)
    )
    assert slow != fast
    outcome = invoke(trace, GOOD, "--text", "-o", "-", "--latency", 0)
    assert outcome.exit_code == 2
    assert outcome.stderr == "error: memory latency = 0 is outside 1..1048576\n"


def test_a_stopped_program_is_shown_up_to_there_and_explained(tmp_path, stuck):
    outcome = invoke(trace, stuck, "-o", tmp_path / "trace.json")
    vector = load_vector(stuck)
    assert outcome.exit_code == 2
    assert str(interleave(decode_stream(vector.stream, vector.config)).error) in outcome.stderr
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


@pytest.mark.parametrize("kind", plot.KINDS)
def test_plots_are_written(tmp_path, kind):
    outcome = invoke(plot, GOOD, "--kind", kind, "-o", tmp_path / "plot.svg")
    assert outcome.exit_code == 0, outcome.output
    assert (tmp_path / "plot.svg").read_text().lstrip().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "plot.gif"), "plot.gif: a plot is written as .png or .svg, not as .gif"),
        (("--kind", "timeline", "-o", "plot.svg"), "a timeline shows one program, not 2: "),
        (
            ("--kind", "roofline", "-o", "plot.svg"),
            "different configurations or memories; a roofline shows one: plot them apart",
        ),
    ],
)
def test_what_cannot_be_plotted_is_refused(arguments, message, tmp_path, monkeypatch):
    other = next(
        path for path in VECTORS if load_vector(path).config.digest != load_vector(GOOD).config.digest
    )
    monkeypatch.chdir(tmp_path)
    outcome = invoke(plot, GOOD, other, *arguments)
    assert list(tmp_path.iterdir()) == []
    assert outcome.exit_code == 2
    assert message in outcome.stderr


@pytest.mark.parametrize("shown", [trace, plot], ids=["trace", "plot"])
def test_a_network_that_is_not_compiled_says_what_to_do(shown, tmp_path):
    (tmp_path / "net.onnx").write_bytes(model().SerializeToString())
    done = invoke(shown, tmp_path / "net.onnx", "-o", tmp_path / "o.svg")
    assert done.exit_code == 2
    assert "net.onnx is a network (`vdla compile` makes a module of it), not a conformance" in done.stderr


def test_a_program_that_multiplies_nothing_has_no_roofline(tmp_path):
    outcome = invoke(plot, ALU, "--kind", "roofline", "-o", tmp_path / "plot.svg")
    assert outcome.exit_code == 2
    assert outcome.stderr == f"error: {ALU.stem} multiplies nothing; a roofline shows runs that do\n"


def test_files_of_one_name_in_two_folders_are_both_plotted(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        shutil.copy(GOOD, tmp_path / folder / "same.npz")
    paths = [tmp_path / folder / "same.npz" for folder in ("one", "two")]
    assert invoke(plot, *paths, ALU, ALU, "-o", tmp_path / "plot.svg").exit_code == 0
    written = (tmp_path / "plot.svg").read_text()
    assert all(str(path) in written for path in paths)
    assert f">{ALU.stem}</text>" in written


def test_another_suffix_is_refused_before_anything_is_simulated(monkeypatch):
    monkeypatch.setattr(plot, "timed_runs", None)
    outcome = invoke(plot, GOOD, "-o", "plot.gif")
    assert outcome.stderr == "error: plot.gif: a plot is written as .png or .svg, not as .gif\n"


def test_a_missing_library_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = invoke(plot, GOOD, "-o", "plot.svg")
    assert outcome.exit_code == 2
    assert 'install it with: pip install "vdla[plot]"' in outcome.stderr


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """Return a module for a slow memory."""
    folder = tmp_path_factory.mktemp("module")
    (folder / "net.onnx").write_bytes(model().SerializeToString())
    target = ("--config", "tiny", "--set", "memory.latency=300")
    done = command("compile", folder / "net.onnx", "-o", folder / "net.vdla", *target)
    assert done.exit_code == 0, done.stderr
    return folder / "net.vdla"


def test_the_timeline_of_a_module_is_that_of_its_run_and_names_its_layers(module, tmp_path):
    assert invoke(trace, module, "-o", tmp_path / "a.json").exit_code == 0
    ran = command("run", module, "--device", "cycle", "--trace", tmp_path / "b.json", "--json")
    files = [[tmp_path / f"{name}.json", tmp_path / f"{name}-2.json"] for name in "ab"]
    assert len(list(tmp_path.iterdir())) == 4
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]
    layers = [layer for layer in json.loads(ran.stdout)["layers"] if layer["cycles"]]
    events = [event for path in files[0] for event in json.loads(path.read_text())["traceEvents"]]
    slices = [event for event in events if event["ph"] == "X" and event["tid"] == Lane.LAYERS]
    assert [(event["name"], event["args"]["operator"], event["dur"]) for event in slices] == [
        (layer["name"], layer["op"], layer["cycles"]) for layer in layers
    ]
    named = {event["args"]["layer"] for event in events if "layer" in event.get("args", {})}
    assert named == {layer["name"] for layer in layers}
    slow, fast = (
        json.loads(files[0][0].read_text())["otherData"]["cycles"],
        invoke(trace, module, "--text", "-o", tmp_path / "c.txt", "--latency", 1).stderr,
    )
    assert int(fast.split(": ")[1].split()[0].replace(",", "")) < slow


@pytest.mark.parametrize("kind", ["utilisation", "roofline", "timeline"])
def test_the_launches_of_a_module_are_plotted(module, tmp_path, kind):
    done = invoke(plot, module, "--kind", kind, "-o", tmp_path / "p.svg")
    if kind == "timeline":
        assert "error: a timeline shows one program, not 2: net 1, net 2" in done.stderr
        assert (done.exit_code, (tmp_path / "p.svg").exists()) == (2, False)
    else:
        assert (done.exit_code, done.stderr) == (0, "")
        drawn = (tmp_path / "p.svg").read_text()
        assert all(f">net {number}<" in drawn for number in (1, 2))


def test_a_module_without_launches_has_no_timeline(tmp_path):
    nodes = (node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y"))
    vdla.compile(model(nodes).SerializeToString(), "tiny").save(tmp_path / "host.vdla")
    for view, file in ((trace, "t.json"), (plot, "t.svg")):
        done = invoke(view, tmp_path / "host.vdla", "-o", tmp_path / file)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
        assert "on the accelerator" in done.stderr
        assert not (tmp_path / file).exists()
