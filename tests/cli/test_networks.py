"""`vdla compile`, `run` and `inspect`: what they print and write."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import done, refused
from tests.cli.models import float_model, model
from tests.cli.networks import IMAGE, RNG, expected, made_in
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.source import Section

KEYS = {"device", "cycles", "seconds", "macs", "utilisation", "layers"}
LAYER_KEYS = {"name", "op", "on", "cycles", "macs", "utilisation", "bytes_read", "bytes_written"}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Return a folder with models, inputs, samples and a module."""
    return made_in(tmp_path_factory.mktemp("networks"))


def test_compile_tells_first_what_matters(files, tmp_path):
    arguments = ("compile", files / "net.onnx", "-o", tmp_path / "a.vdla", "--config", "tiny")
    printed = done(*arguments).stdout.splitlines()
    ran = json.loads(done("run", files / "net.vdla", "--device", "cycle", "--json").stdout)
    assert printed[0] == "net on tiny"
    assert printed[1].endswith(" k, 100.0% of them on the accelerator")
    assert f"2 launches, {ran['cycles']:,} cycles = " in printed[2]
    assert any(line.endswith("  3 operators") for line in printed)
    assert any(line.endswith(f"1  {ENABLED} (Int8Softmax)") for line in printed)
    assert not any(line.startswith("layer ") for line in printed)
    size = (tmp_path / "a.vdla").stat().st_size
    assert printed[-1].startswith(f"{tmp_path}/a.vdla: {size / 1024:.1f} KiB, ")
    assert printed[-1].endswith(" bytes of activations in DRAM")
    assert [path.name for path in tmp_path.iterdir()] == ["a.vdla"]
    assert (tmp_path / "a.vdla").read_bytes() == (files / "net.vdla").read_bytes()


def test_layers_and_operators_are_listed_on_request(files, tmp_path):
    arguments = ("compile", files / "net.onnx", "-o", tmp_path / "a.vdla", "--config", "tiny", "--layers")
    printed = done(*arguments).stdout.splitlines()
    begin = next(place for place, line in enumerate(printed) if line.startswith("layer "))
    assert [line.split()[:3] for line in printed[begin + 1 : begin + 6]] == [
        ["XQ", "QuantizeLinear", "host"],
        ["C", "Int8Conv", "accelerator"],
        ["P", "Int8MaxPool", "accelerator"],
        ["T", "Int8Softmax", "host"],
        ["G", "Int8Conv", "accelerator"],
    ]
    assert printed[begin + 4].endswith(NORMALISED)
    assert not any(line.startswith("layer ") for line in done(*arguments[:-1]).stdout.splitlines())


def test_the_summary_of_a_module_is_kept_for_the_next_time(files, tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path / "cache"))
    arguments = ("compile", files / "net.onnx", "-o", tmp_path / "a.vdla", "--config", "tiny")
    first = done(*arguments).stdout
    assert len(list((tmp_path / "cache/summaries").iterdir())) == 1
    monkeypatch.setattr("vdla.api.Module.forecast", lambda _: pytest.fail("it was simulated again"))
    assert done(*arguments).stdout == first


def test_a_module_that_no_device_holds_is_compiled_and_has_no_summary(files, tmp_path, monkeypatch):
    monkeypatch.setattr("vdla.api.DRAM_BYTES", 100)
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path / "cache"))
    arguments = ("compile", files / "net.onnx", "-o", tmp_path / "a.vdla", "--config", "tiny")
    first, *_, last = done(*arguments).stdout.splitlines()
    assert first.startswith("no summary: no device runs the module: net on a device: its DRAM takes ")
    assert last.startswith(f"{tmp_path}/a.vdla: ")
    assert " KiB, " in last


def test_inspect_tells_layers_and_what_stays_on_the_host(files):
    printed = done("inspect", files / "net.vdla").stdout.splitlines()
    begin = next(place for place, line in enumerate(printed) if line.startswith("layer "))
    assert [line.split()[:2] for line in printed[begin + 1 : begin + 4]] == [
        ["C", "Int8Conv"],
        ["P", "Int8MaxPool"],
        ["G", "Int8Conv"],
    ]
    assert f"on the host: Int8Softmax T: {NORMALISED}" in printed


@pytest.mark.parametrize(
    "arguments",
    [
        ("net.vdla",),
        ("net.onnx", "--config", "tiny"),
        ("net.onnx", "--config", "small"),
        ("net.vdla", "--device", "cycle"),
    ],
)
def test_run_writes_what_the_network_means(files, tmp_path, arguments):
    name, *options = arguments
    done("run", files / name, "--input", files / "in.npz", "--output", tmp_path / "out.npz", *options)
    with np.load(tmp_path / "out.npz") as outputs:
        assert outputs.files == ["y"]
        np.testing.assert_array_equal(outputs["y"], expected())
    assert [path.name for path in tmp_path.iterdir()] == ["out.npz"]


def test_a_part_of_a_network_is_compiled_and_run(files, tmp_path):
    cut = ("--inputs", "xq", "--outputs", "rq,pq", "--config", "tiny")
    done("compile", files / "net.onnx", "-o", tmp_path / "part.vdla", *cut)
    pixels = RNG.integers(-128, 128, IMAGE.shape, np.int8)
    np.savez(tmp_path / "in.npz", xq=pixels)
    for arguments in ((tmp_path / "part.vdla",), (files / "net.onnx", *cut)):
        done("run", *arguments, "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz")
        with np.load(tmp_path / "out.npz") as outputs:
            assert outputs.files == ["rq", "pq"]
            part = load(model(), section=Section(("xq",), ("rq", "pq")))
            for name, array in interpret(part, {"xq": pixels}).items():
                assert np.abs(outputs[name].astype(int) - array).max() <= 1


def test_an_input_can_be_fixed_to_a_number(files, tmp_path):
    part = ("--inputs", "rq", "--outputs", "y", "--config", "tiny")
    said = refused("compile", files / "net.onnx", "-o", tmp_path / "x.vdla", *part, "--fix", "rq=3")
    assert said.endswith("'rq' is fixed, and named as an input or fixed once more")
    fixed = ("--fix", "x=0.25", "--config", "tiny")
    done("compile", files / "net.onnx", "-o", tmp_path / "fixed.vdla", *fixed)
    np.savez(tmp_path / "none.npz")
    np.savez(tmp_path / "all.npz", x=np.full(IMAGE.shape, 0.25, np.float32))
    results = []
    for name, given in (("fixed.vdla", "none.npz"), ("net.vdla", "all.npz")):
        path = tmp_path / name if name == "fixed.vdla" else files / name
        done("run", path, "--input", tmp_path / given, "--output", tmp_path / "out.npz")
        with np.load(tmp_path / "out.npz") as out:
            results.append(out["y"])
    np.testing.assert_array_equal(*results)
    said = refused("compile", files / "net.onnx", "-o", tmp_path / "x.vdla", "--fix", "x")
    assert said == "--fix x is not of the form NAME=16000"


def test_a_part_that_does_not_exist_is_refused(files, tmp_path):
    said = refused("compile", files / "net.onnx", "-o", tmp_path / "x.vdla", "--outputs", "rr")
    assert "outputs names 'rr', which the model does not have" in said
    said = refused("compile", files / "net.onnx", "-o", tmp_path / "x.vdla", "--outputs", "a,")
    assert said == "--outputs a, has an empty name; it is of the form NAME,NAME"
    said = refused("run", files / "net.vdla", "--inputs", "x")
    assert said.endswith(
        "is compiled already, so --inputs cannot change it; run the model, or compile it again"
    )


def test_run_reports_json(files):
    result = json.loads(
        done(
            "run",
            files / "net.vdla",
            "--input",
            files / "in.npz",
            "--device",
            "cycle",
            "--clock",
            "200",
            "--json",
        ).stdout
    )
    assert result.keys() >= KEYS
    assert all(layer.keys() >= LAYER_KEYS for layer in result["layers"])
    assert [(layer["name"], layer["on"]) for layer in result["layers"]] == [
        ("XQ", "host"),
        ("C", "accelerator"),
        ("P", "accelerator"),
        ("T", "host"),
        ("G", "accelerator"),
        ("gq", "accelerator"),
        ("Y", "host"),
    ]  # gq: the shape alone
    assert result["cycles"] == sum(layer["cycles"] or 0 for layer in result["layers"])
    assert result["seconds"] == pytest.approx(result["cycles"] / 200e6)
    assert result["macs"] == 4 * 9 * 64 + 64 * 5
    summary = result["summary"]
    assert (summary["mac_share"], summary["launches"], summary["host_operators"]) == (1, 2, 3)
    assert summary["host_seconds"] == sum(
        layer["seconds"] for layer in result["layers"] if layer["on"] == "host"
    )


ENABLED = "enable extensions `table` and `normalise` (--set extensions=+table,+normalise)"
NORMALISED = f"configuration tiny with the extension normalise switched off; {ENABLED}"


@pytest.mark.parametrize("device", ["functional", "cycle"])
def test_run_tells_why_an_operator_runs_on_the_host(files, device):
    rows = done("run", files / "net.vdla", "--device", device, "--layers").stdout.splitlines()
    assert [row.endswith(NORMALISED) for row in rows if row.split()[:1] == ["T"]] == [True]
    layers = json.loads(done("run", files / "net.vdla", "--device", device, "--json").stdout)["layers"]
    assert {layer["name"]: layer["reason"] for layer in layers}["T"] == NORMALISED
    assert all(bool(layer["reason"]) is (layer["on"] == "host") for layer in layers)


def test_an_untimed_run_reports_json_without_cycles(files):
    result = json.loads(done("run", files / "net.vdla", "--json").stdout)
    assert (result["device"], result["cycles"], result["seconds"], result["utilisation"]) == (
        "functional",
        None,
        None,
        None,
    )


def test_without_inputs_numbers_are_random_and_the_same_each_time(files, tmp_path):
    for name in ("a.npz", "b.npz"):
        assert done("run", files / "net.vdla", "--output", tmp_path / name).stderr == (
            f"no --input given: running on random numbers\n{tmp_path / name}: holds y\n"
        )
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_timeline_for_each_launch(files, tmp_path):
    done("run", files / "net.vdla", "--device", "cycle", "--trace", tmp_path / "t.json")
    assert {path.name for path in tmp_path.iterdir()} == {"t.json", "t-2.json"}
    assert all(json.loads(path.read_text())["traceEvents"] for path in tmp_path.iterdir())


def test_a_float_model_is_quantised_by_samples(files, tmp_path):
    done(
        "compile",
        files / "float.onnx",
        "-o",
        tmp_path / "f.vdla",
        "--config",
        "tiny",
        "--calibrate",
        files / "samples.npz",
    )
    done("run", tmp_path / "f.vdla", "--input", files / "in.npz", "--output", tmp_path / "out.npz")
    real = interpret(load(float_model()), {"x": IMAGE})["y"]
    with np.load(tmp_path / "out.npz") as outputs:
        assert np.abs(outputs["y"] - real).max() < 0.1 * np.abs(real).max()


@pytest.mark.parametrize("options", [(), ("--errors",)])
def test_samples_that_quantise_nothing_are_told(files, tmp_path, options):
    arguments = ("--calibrate", files / "samples.npz", "--config", "tiny", *options)
    said = done("compile", files / "net.onnx", "-o", tmp_path / "a.vdla", *arguments).stderr
    assert said == (
        f"--calibrate {files}/samples.npz quantised nothing: the file holds quantised tensors, or no operator of "
        "it can be quantised; samples gave at most shapes\n"
    )
    assert done("compile", files / "float.onnx", "-o", tmp_path / "f.vdla", *arguments).stderr == ""


def test_a_dynamic_shape_is_given(files, tmp_path):
    (tmp_path / "d.onnx").write_bytes(model(shape=("N", 1, 8, 8)).SerializeToString())
    done(
        "run",
        tmp_path / "d.onnx",
        "--shape",
        "x=1,1,8,8",
        "--config",
        "tiny",
        "--input",
        files / "in.npz",
        "--output",
        tmp_path / "out.npz",
    )
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_array_equal(outputs["y"], expected())
    assert (
        refused("run", tmp_path / "d.onnx", "--shape", "x=1,one")
        == "--shape x=1,one is not of the form NAME=1,3,224,224"
    )
    assert "--shape x=1,1,8,8" in refused("run", tmp_path / "d.onnx")


def test_errors_of_layers_are_printed_on_demand(files, tmp_path):
    arguments = (
        "compile",
        files / "float.onnx",
        "-o",
        tmp_path / "a.vdla",
        "--config",
        "tiny",
        "--calibrate",
        files / "samples.npz",
    )
    lines = done(*arguments, "--errors").stdout.splitlines()
    begin = lines.index("signal to quantisation noise, including the noise of all layers before:")
    end = next(
        place for place, line in enumerate(lines) if line.startswith("error of the results, by layers")
    )
    layers = [line.split() for line in lines[begin + 1 : end]]
    assert layers
    assert all(unit == "dB" and float(ratio) > 10 for ratio, unit, *_ in layers)
    costly = [line.split() for line in lines[end + 1 : -1]]
    assert costly
    assert all(line[2:5] == ["of", "the", "MACs"] for line in costly)
    assert lines[begin] not in done(*arguments).stdout.splitlines()


def test_outputs_of_any_name_are_written(tmp_path):
    odd = float_model()
    odd.graph.output[0].name = "file"
    odd.graph.node[-1].output[0] = "file"
    (tmp_path / "f.onnx").write_bytes(odd.SerializeToString())
    np.savez(tmp_path / "s.npz", x=IMAGE[None])
    done(
        "run",
        tmp_path / "f.onnx",
        "--config",
        "tiny",
        "--calibrate",
        tmp_path / "s.npz",
        "--output",
        tmp_path / "out.npz",
    )
    with np.load(tmp_path / "out.npz") as outputs:
        assert outputs["file"].shape == (1, 5)


def test_inspect_tells_what_a_module_holds(files):
    lines = done("inspect", files / "net.vdla").stdout.splitlines()
    assert lines[0].startswith("net, compiled for tiny (")
    assert lines[1:3] == ["input   x: float32[1, 1, 8, 8]", "output  y: float32[1, 5]"]
    facts = json.loads(done("inspect", files / "net.vdla", "--json").stdout)
    assert facts["host_operators"] == ["QuantizeLinear XQ", "Int8Softmax T", "DequantizeLinear Y"]
    assert list(facts["streams"]) == ["launch1", "launch3"]


def test_a_network_that_cannot_be_offloaded_stays_on_the_host(files, tmp_path):
    printed = done("compile", files / "net.onnx", "-o", tmp_path / "x.vdla", "--config", "vta").stdout
    assert "2.6 k, 0.0% of them on the accelerator\n" in printed
    assert "accelerator  nothing runs there\n" in printed
    cure = "enable extensions `requantise` and `pad_minimum` (--set extensions=+requantise,+pad_minimum)"
    assert f"4  {cure} (2 Int8Conv, Int8MaxPool, Int8Softmax)\n" in printed
    assert (
        "on the host: Int8Conv C: configuration vta with the extensions requantise and pad_minimum switched "
        f"off; {cure}\n"
    ) in done("inspect", tmp_path / "x.vdla").stdout
    done("run", tmp_path / "x.vdla", "--input", files / "in.npz", "--output", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_array_equal(outputs["y"], expected())
