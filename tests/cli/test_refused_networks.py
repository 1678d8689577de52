"""`vdla compile`, `run` and `inspect`: what they refuse, and what they say then."""

import io
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from tests.cli.commands import invoke, refused
from tests.cli.models import CONSTANTS, FLOAT_NODES, QUANTISED, model, node
from tests.cli.networks import IMAGE, RNG, made_in
from vdla.hw.spec.writing import ADVICE
from vdla.runtime.host import onnx_runtime
from vdla.runtime.samples.files import KINDS


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Return a folder with models, inputs, samples and a module."""
    return made_in(tmp_path_factory.mktemp("networks"))


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


TAKES = "the network takes x: float32[1, 1, 8, 8]; it was given"
ODD = {
    "shape": (
        lambda: {"x": np.zeros((1, 1, 9, 8), np.float32)},
        "input x is float32[1, 1, 9, 8], not float32[1, 1, 8, 8], nor a stack of such arrays",
    ),
    "type": (lambda: {"x": IMAGE * np.complex64(1j)}, "input x is of complex64, not float32"),
    "name": (lambda: {"image": IMAGE}, f"{TAKES} image"),
    "none": (dict, f"{TAKES} nothing"),
}


@pytest.mark.parametrize("title", ODD)
def test_inputs_that_the_network_does_not_take_are_refused(files, tmp_path, title):
    make, message = ODD[title]
    np.savez(tmp_path / "in.npz", **make())
    said = refused(
        "run", files / "net.vdla", "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz"
    )
    assert said == f"{tmp_path}/in.npz: {message}"
    assert [path.name for path in tmp_path.iterdir()] == ["in.npz"]


def test_inputs_that_are_not_finite_are_refused(files, tmp_path):
    np.savez(tmp_path / "in.npz", x=IMAGE * np.float32("nan"))
    said = refused(
        "run", files / "net.vdla", "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz"
    )
    assert said == "input x holds 64 values that are not finite"
    assert [path.name for path in tmp_path.iterdir()] == ["in.npz"]


def npy() -> bytes:
    written = io.BytesIO()
    np.save(written, IMAGE)
    return written.getvalue()


UNREAD = {
    "empty": (b"", f"holds no arrays, no image and no sound; {KINDS} are read"),
    "noise": (b"noise" + RNG.bytes(1000), f"holds no arrays, no image and no sound; {KINDS} are read"),
    "half": (npy()[:20], "cannot be read as .npy; it is truncated or altered: "),
    "zip": (b"PK\x03\x04" + RNG.bytes(50), "cannot be read as .npz; it is truncated or altered: "),
}


@pytest.mark.parametrize("title", UNREAD)
@pytest.mark.parametrize(
    "arguments", [("run", "net.vdla", "--input"), ("compile", "float.onnx", "-o", "x.vdla", "--calibrate")]
)
def test_arrays_that_cannot_be_read_are_refused(files, tmp_path, title, arguments):
    data, message = UNREAD[title]
    (tmp_path / "in.npz").write_bytes(data)
    command, name, *options = arguments
    options = [tmp_path / option if option == "x.vdla" else option for option in options]
    said = refused(command, files / name, *options, tmp_path / "in.npz")
    assert said.startswith(f"{tmp_path}/in.npz {message}")
    assert [path.name for path in tmp_path.iterdir()] == ["in.npz"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, f"{TAKES} nothing"),
        ({"x": np.float32(1)}, "input x is float32[], not float32[1, 1, 8, 8], nor a stack of such arrays"),
        (
            {"x": np.zeros((0, 1, 1, 8, 8), np.float32)},
            "arrays have x: 0 samples; give each input the same number",
        ),
        (
            {"x": np.zeros((2, 0), np.float32)},
            "input x is float32[2, 0], not float32[1, 1, 8, 8], nor a stack",
        ),
        ({"z": IMAGE[None]}, f"{TAKES} z"),
        ({"x": IMAGE[None] * np.float32("inf")}, "value 'x' is not finite on sample 0"),
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
