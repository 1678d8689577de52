"""`vdla compile`, `run` and `inspect`: what they print and write, and what they say to bad files."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto

from tests.cli.models import CONSTANTS, FLOAT_NODES, QUANTISED, float_model, model, node
from vdla.cli import main
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.section import Section
from vdla.compiler.network.compile import integer_graph
from vdla.hw.spec.writing import ADVICE
from vdla.runtime.host import onnx_runtime

RNG = np.random.default_rng(0)
IMAGE = RNG.normal(size=(1, 1, 8, 8)).astype(np.float32)
KEYS = {"device", "cycles", "seconds", "macs", "utilisation", "layers"}
LAYER_KEYS = {"name", "op", "on", "cycles", "macs", "utilisation", "bytes_read", "bytes_written"}


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def done(*arguments: object) -> Result:
    """Run a command that ends well."""
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments: object) -> str:
    """Run a command that must refuse; return what it says."""
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    return result.stderr.removeprefix("error: ").removesuffix("\n")


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Return a folder with models, inputs, samples and a module."""
    folder = tmp_path_factory.mktemp("networks")
    (folder / "net.onnx").write_bytes(model().SerializeToString())
    (folder / "float.onnx").write_bytes(float_model().SerializeToString())
    np.savez(folder / "in.npz", x=IMAGE)
    np.savez(folder / "samples.npz", x=RNG.normal(size=(3, 1, 1, 8, 8)).astype(np.float32))
    done("compile", folder / "net.onnx", "-o", folder / "net.vdla", "--config", "tiny")
    return folder


def expected() -> np.ndarray:
    return interpret(integer_graph(load(model())), {"x": IMAGE})["y"]


# What they do


def test_compile_tells_first_what_matters(files, tmp_path):
    arguments = ("compile", files / "net.onnx", "-o", tmp_path / "a.vdla", "--config", "tiny")
    printed = done(*arguments).stdout.splitlines()
    ran = json.loads(done("run", files / "net.vdla", "--device", "cycle", "--json").stdout)
    assert printed[0] == "net on tiny"
    assert printed[1].endswith("0.0 M, 100.0% of them on the accelerator")
    assert f"2 launches, {ran['cycles']:,} cycles = " in printed[2]
    assert printed[3].endswith("3 operators; a run measures their time")
    assert any(
        line.endswith("1  the accelerator takes whole blocks of channels (Concat) (Transpose)")
        for line in printed
    )
    assert not any(line.startswith("layer ") for line in printed)
    assert printed[-1].startswith(f"{tmp_path}/a.vdla: 0.0 MiB, ")
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
        ["T", "Transpose", "host"],
        ["G", "Int8Conv", "accelerator"],
    ]
    assert printed[begin + 4].endswith(MOVED)
    assert MOVED not in done(*arguments[:-1]).stdout


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
    assert last.startswith(f"{tmp_path}/a.vdla: 0.0 MiB, ")


def test_inspect_tells_layers_and_what_stays_on_the_host(files):
    printed = done("inspect", files / "net.vdla").stdout.splitlines()
    begin = next(place for place, line in enumerate(printed) if line.startswith("layer "))
    assert [line.split()[:2] for line in printed[begin + 1 : begin + 4]] == [
        ["C", "Int8Conv"],
        ["P", "Int8MaxPool"],
        ["G", "Int8Conv"],
    ]
    assert f"on the host: Transpose T: {MOVED}" in printed


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
    with np.load(tmp_path / "out.npz") as found:
        assert found.files == ["y"]
        np.testing.assert_array_equal(found["y"], expected())
    assert [path.name for path in tmp_path.iterdir()] == ["out.npz"]


def test_a_part_of_a_network_is_compiled_and_run(files, tmp_path):
    cut = ("--inputs", "xq", "--outputs", "rq,pq", "--config", "tiny")
    done("compile", files / "net.onnx", "-o", tmp_path / "part.vdla", *cut)
    pixels = RNG.integers(-128, 128, IMAGE.shape, np.int8)
    np.savez(tmp_path / "in.npz", xq=pixels)
    for arguments in ((tmp_path / "part.vdla",), (files / "net.onnx", *cut)):
        done("run", *arguments, "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz")
        with np.load(tmp_path / "out.npz") as found:
            assert found.files == ["rq", "pq"]
            part = load(model(), section=Section(("xq",), ("rq", "pq")))
            for name, array in interpret(part, {"xq": pixels}).items():
                assert np.abs(found[name].astype(int) - array).max() <= 1


def test_an_input_can_be_fixed_to_a_number(files, tmp_path):
    part = ("--inputs", "rq", "--outputs", "y", "--config", "tiny")
    said = refused("compile", files / "net.onnx", "-o", tmp_path / "x.vdla", *part, "--fix", "rq=3")
    assert said.endswith("'rq' is fixed, and named as an input or fixed once more")
    fixed = ("--fix", "x=0.25", "--config", "tiny")
    done("compile", files / "net.onnx", "-o", tmp_path / "fixed.vdla", *fixed)
    np.savez(tmp_path / "none.npz")
    np.savez(tmp_path / "all.npz", x=np.full(IMAGE.shape, 0.25, np.float32))
    found = []
    for name, given in (("fixed.vdla", "none.npz"), ("net.vdla", "all.npz")):
        path = tmp_path / name if name == "fixed.vdla" else files / name
        done("run", path, "--input", tmp_path / given, "--output", tmp_path / "out.npz")
        with np.load(tmp_path / "out.npz") as out:
            found.append(out["y"])
    np.testing.assert_array_equal(*found)
    said = refused("compile", files / "net.onnx", "-o", tmp_path / "x.vdla", "--fix", "x")
    assert said == "--fix x is not of the form NAME=16000"


def test_a_part_that_does_not_exist_is_refused(files, tmp_path):
    said = refused("compile", files / "net.onnx", "-o", tmp_path / "x.vdla", "--outputs", "rr")
    assert "outputs names 'rr', which the model has not" in said
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
    whole = result["seconds"] + summary["host_seconds"] + summary["copy_seconds"]
    assert summary["cycle_share"] == pytest.approx(result["seconds"] / whole)


MOVED = "Transpose with single elements to move; the accelerator takes whole blocks of channels (Concat)"


@pytest.mark.parametrize("device", ["functional", "cycle"])
def test_run_tells_why_an_operator_runs_on_the_host(files, device):
    rows = done("run", files / "net.vdla", "--device", device, "--layers").stdout.splitlines()
    assert [row.endswith(MOVED) for row in rows if row.split()[:1] == ["T"]] == [True]
    layers = json.loads(done("run", files / "net.vdla", "--device", device, "--json").stdout)["layers"]
    assert {layer["name"]: layer["reason"] for layer in layers}["T"] == MOVED
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
    said = {
        done("run", files / "net.vdla", "--output", tmp_path / name).stderr for name in ("a.npz", "b.npz")
    }
    assert said == {"no --input given: running on random numbers\n"}
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
    with np.load(tmp_path / "out.npz") as found:
        assert np.abs(found["y"] - real).max() < 0.1 * np.abs(real).max()


def test_a_dynamic_shape_is_given(files, tmp_path):
    (tmp_path / "d.onnx").write_bytes(changed(shape=("N", 1, 8, 8)))
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
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_array_equal(found["y"], expected())
    assert (
        refused("run", tmp_path / "d.onnx", "--shape", "x=1,one")
        == "--shape x=1,one is not of the form NAME=1,3,224,224"
    )
    assert "--shape x=..." in refused("run", tmp_path / "d.onnx")


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
    begin = lines.index("signal to quantisation noise, with that of all layers before:")
    end = next(
        place for place, line in enumerate(lines) if line.startswith("error of the results, by layers")
    )
    layers = [line.split() for line in lines[begin + 1 : end]]
    assert layers
    assert all(unit == "dB" and float(ratio) > 10 for ratio, unit, *_ in layers)
    costly = [line.split() for line in lines[end + 1 : -1]]
    assert costly
    assert all(line[2:5] == ["of", "the", "MACs"] for line in costly)
    assert not any("dB" in line for line in done(*arguments).stdout.splitlines())


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
    with np.load(tmp_path / "out.npz") as found:
        assert found["file"].shape == (1, 5)


def test_inspect_tells_what_a_module_holds(files):
    lines = done("inspect", files / "net.vdla").stdout.splitlines()
    assert lines[0].startswith("net, compiled for tiny (")
    assert lines[1:3] == ["input   x: float32[1, 1, 8, 8]", "output  y: float32[1, 5]"]
    facts = json.loads(done("inspect", files / "net.vdla", "--json").stdout)
    assert facts["host_operators"] == ["QuantizeLinear XQ", "Transpose T", "DequantizeLinear Y"]
    assert list(facts["streams"]) == ["launch1", "launch3"]


# What they refuse


def test_a_float_model_without_samples_is_refused_with_advice(files, tmp_path):
    assert refused("compile", files / "float.onnx", "-o", tmp_path / "f.vdla") == (
        "net is a float network, and the accelerator computes with integers; give samples of its inputs for "
        "quantisation (--calibrate SAMPLES.npz), or a quantised model"
    )
    assert not list(tmp_path.iterdir())


def changed(**changes) -> bytes:
    return model(**changes).SerializeToString()


NAN = {**QUANTISED, "s": np.float32("nan")}
NAN_WEIGHTS = {**CONSTANTS, "m": np.where(CONSTANTS["m"] > 2, np.nan, CONSTANTS["m"]).astype(np.float32)}
MODELS = {
    "truncated": (changed()[:-40], "this is not an ONNX model, or it is damaged ("),
    "noise": (RNG.bytes(10 << 20), "this is not an ONNX model, or it is damaged (10485760 bytes)"),
    "empty": (b"", "this is not an ONNX model, or it is damaged"),
    "a module": (b"VDLA-MOD" + bytes(60), "this is not an ONNX model, or it is damaged"),
    "NaN in a scale": (changed(constants=NAN), "its constant 's' holds 1 NaN or infinite elements"),
    "NaN in weights": (changed(nodes=FLOAT_NODES, constants=NAN_WEIGHTS), "its constant 'm' holds "),
    "dynamic shape": (changed(shape=("N", 1, 8, 8)), "its shape is dynamic: [N, 1, 8, 8]"),
    "zero-size input": (changed(shape=(0, 1, 8, 8)), "is float32[0, 1, 8, 8], which has no elements"),
    "zero-size weights": (
        changed(constants={**QUANTISED, "wq": np.zeros((0, 1, 3, 3), np.int8)}),
        "which has no elements",
    ),
    "doubles": (changed(elem_type=TensorProto.DOUBLE), "which QuantizeLinear does not take"),
    "a circle": (
        changed(nodes=[node("Add", "x b", "a"), node("Relu", "a", "b"), node("Neg", "b", "y")]),
        "nodes form a cycle",
    ),
    "unsorted": (changed(nodes=[node("Neg", "a", "y"), node("Relu", "x", "a")]), "nodes must be in order"),
    "nobody's operator": (changed(nodes=[node("Det", "x", "y")]), "operator Det is not supported"),
}


@pytest.mark.parametrize("title", MODELS)
@pytest.mark.parametrize("command", ["compile", "run"])
def test_bad_models_are_refused_and_nothing_is_written(title, command, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_runtime, "is_there", lambda: False)
    data, message = MODELS[title]
    (tmp_path / "bad.onnx").write_bytes(data)
    option = "-o" if command == "compile" else "--output"
    said = refused(command, tmp_path / "bad.onnx", option, tmp_path / "out", "--config", "tiny")
    assert said.startswith(f"{tmp_path}/bad.onnx: ")
    assert message in said
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["bad.onnx"]


def test_damaged_models_are_refused_or_compiled(tmp_path):
    whole = model().SerializeToString()
    for number, place in enumerate(RNG.integers(0, len(whole) * 8, 60)):
        broken = bytearray(whole)
        broken[place // 8] ^= 1 << place % 8
        (tmp_path / "m.onnx").write_bytes(broken[: place // 8] if number % 4 == 0 else broken)
        result = invoke("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.vdla", "--config", "tiny")
        assert result.exit_code in (0, 2), result.output
        assert (tmp_path / "m.vdla").exists() is (result.exit_code == 0)
        assert result.exit_code == 0 or result.stderr.startswith("error: ")
        (tmp_path / "m.vdla").unlink(missing_ok=True)


def broken_module(data: bytes, kind: str) -> bytes:
    match kind:
        case "truncated":
            return data[: len(data) // 2]
        case "altered":
            return data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
        case "noise":
            return RNG.bytes(10 << 20)
    return b""


@pytest.mark.parametrize("command", ["run", "inspect"])
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("truncated", "is truncated"),
        ("altered", "has been altered"),
        ("noise", "is not a module"),
        ("empty", "is not a module"),
    ],
)
def test_bad_modules_are_refused_on_one_line(files, tmp_path, command, kind, message):
    (tmp_path / "bad.vdla").write_bytes(broken_module((files / "net.vdla").read_bytes(), kind))
    said = refused(
        command, tmp_path / "bad.vdla", *(["--output", tmp_path / "out.npz"] if command == "run" else [])
    )
    assert said.startswith(f"{tmp_path}/bad.vdla {message}")
    assert "\n" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["bad.vdla"]


ODD = {
    "shape": (lambda: {"x": IMAGE[0]}, "input x is float32[1, 8, 8], not float32[1, 1, 8, 8]"),
    "type": (
        lambda: {"x": IMAGE.astype(np.float64)},
        "input x is float64[1, 1, 8, 8], not float32[1, 1, 8, 8]",
    ),
    "name": (lambda: {"image": IMAGE}, "the network takes x: float32[1, 1, 8, 8]; it was given image"),
    "none": (dict, "the network takes x: float32[1, 1, 8, 8]; it was given nothing"),
    "NaN": (lambda: {"x": IMAGE * np.float32("nan")}, "input x holds 64 values that are not finite"),
}


@pytest.mark.parametrize("title", ODD)
def test_inputs_that_the_network_does_not_take_are_refused(files, tmp_path, title):
    make, message = ODD[title]
    np.savez(tmp_path / "in.npz", **make())
    assert (
        refused("run", files / "net.vdla", "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz")
        == message
    )
    assert [path.name for path in tmp_path.iterdir()] == ["in.npz"]


def npy() -> bytes:
    written = io.BytesIO()
    np.save(written, IMAGE)
    return written.getvalue()


@pytest.mark.parametrize(
    "data",
    [b"", RNG.bytes(1000), npy(), b"PK\x03\x04" + RNG.bytes(50), npy()[:20]],
    ids=["empty", "noise", "npy", "zip", "half"],
)
@pytest.mark.parametrize(
    "arguments", [("run", "net.vdla", "--input"), ("compile", "float.onnx", "-o", "x.vdla", "--calibrate")]
)
def test_arrays_that_cannot_be_read_are_refused(files, tmp_path, data, arguments):
    (tmp_path / "in.npz").write_bytes(data)
    command, name, *options = arguments
    options = [tmp_path / option if option == "x.vdla" else option for option in options]
    said = refused(command, files / name, *options, tmp_path / "in.npz")
    assert said == f"{tmp_path}/in.npz is not an .npz file of arrays; numpy.savez writes one"
    assert [path.name for path in tmp_path.iterdir()] == ["in.npz"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {},
            "arrays have no samples; give each input the same number, at least 1, along the first dimension",
        ),
        ({"x": np.float32(1)}, "arrays have x: 0 samples"),
        (
            {"x": np.zeros((2, 3), np.float32), "y": np.zeros((1, 3), np.float32)},
            "arrays have x: 2, y: 1 samples",
        ),
        ({"x": IMAGE}, "input x is float32[1, 8, 8], not float32[1, 1, 8, 8]"),
        ({"x": np.zeros((2, 0), np.float32)}, "input x is float32[0], not float32[1, 1, 8, 8]"),
        ({"z": IMAGE[None]}, "needs inputs x; it was given z"),
        ({"x": IMAGE[None] * np.float32("inf")}, "value 'x' is not finite on a sample"),
    ],
)
def test_samples_that_do_not_fit_are_refused(files, tmp_path, arrays, message):
    np.savez(tmp_path / "s.npz", **arrays)
    assert message in refused(
        "compile", files / "float.onnx", "-o", tmp_path / "x.vdla", "--calibrate", tmp_path / "s.npz"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["s.npz"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--config", "small"),
            "is compiled already, so --config cannot change it; run the model, or compile it again",
        ),
        (
            ("--set", "batch=2", "--percentile", "99"),
            "is compiled already, so --set and --percentile cannot change it",
        ),
    ],
)
def test_a_module_takes_no_options_of_compiling(files, options, message):
    assert message in refused("run", files / "net.vdla", *options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--config", "none"), "none is neither a preset"),
        (("--config", "tiny", "--set", "batch=3"), "batch = 3 is not a power of two"),
    ],
)
def test_configurations_that_are_none_are_refused(files, tmp_path, arguments, message):
    assert refused("compile", files / "net.onnx", "-o", tmp_path / "x.vdla", *arguments).startswith(message)
    assert not list(tmp_path.iterdir())


def test_a_network_that_cannot_be_offloaded_stays_on_the_host(files, tmp_path):
    printed = done("compile", files / "net.onnx", "-o", tmp_path / "x.vdla", "--config", "vta").stdout
    assert "0.0 M, 0.0% of them on the accelerator\n" in printed
    assert "accelerator  nothing runs there\n" in printed
    assert "2  Int8Conv needs the extensions requantise and pad_minimum (2 Int8Conv)\n" in printed
    assert (
        "on the host: Int8Conv C: configuration vta with the extensions requantise and pad_minimum switched "
        "off; Int8Conv needs the extensions requantise and pad_minimum\n"
    ) in done("inspect", tmp_path / "x.vdla").stdout
    done("run", tmp_path / "x.vdla", "--input", files / "in.npz", "--output", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_array_equal(found["y"], expected())


@pytest.mark.parametrize(
    "arguments",
    [
        ("compile", "net.onnx", "-o"),
        ("run", "net.vdla", "--output"),
        ("run", "net.vdla", "--device", "cycle", "--trace"),
    ],
)
def test_an_output_that_cannot_be_written_is_found_before_any_work(files, monkeypatch, arguments):
    command, name, *options = arguments
    monkeypatch.setattr("vdla.api.Module.run", lambda *_, **__: pytest.fail("it ran"))
    monkeypatch.setattr(
        "vdla.compiler.network.compile.compile_network", lambda *_, **__: pytest.fail("it compiled")
    )
    before = set(files.iterdir())
    said = refused(command, files / name, *options, files / "in.npz" / "x")
    assert said == f"{files / 'in.npz' / 'x'} cannot be written: {files / 'in.npz'} is not a folder; {ADVICE}"
    assert set(files.iterdir()) == before


def test_a_trace_needs_a_device_with_time(files, tmp_path):
    result = invoke("run", files / "net.vdla", "--trace", tmp_path / "t.json")
    assert result.exit_code == 2
    assert "--trace needs --device cycle" in result.stderr
    assert not list(tmp_path.iterdir())
