"""`--quality`: what quantisation costs is always told, and layers stay in float for it."""

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import vdla
from tests.cli.commands import done, refused
from tests.cli.networks import made_in

CONSTANTS = {
    "first": np.array([[0, 1, 1, 0], [1, 0, 0, 1]], np.float32),
    "second": np.eye(4, dtype=np.float32),
    "third": np.array([[1], [0], [0], [0]], np.float32),
}
SAMPLES = np.array([[[900, each]] for each in np.linspace(0, 1.5, 16)], np.float32)


def detector() -> bytes:
    """Return a network whose output follows the smaller of its two inputs alone, which int8 does not hold
    beside the larger."""
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "second"], ["b"]),
        helper.make_node("MatMul", ["b", "third"], ["c"]),
        helper.make_node("Sigmoid", ["c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])],
        [numpy_helper.from_array(array, name) for name, array in CONSTANTS.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Return a folder with the detector and its samples."""
    folder = tmp_path_factory.mktemp("quality")
    (folder / "detector.onnx").write_bytes(detector())
    np.savez(folder / "samples.npz", x=SAMPLES)
    return folder


def compiled(files: Path, *options: str) -> list[str]:
    """Return the lines that compiling the detector prints."""
    arguments = ("compile", files / "detector.onnx", "--calibrate", files / "samples.npz", "--config", "tiny")
    return done(*arguments, "-o", files / "detector.vdla", *options).stdout.splitlines()


def row(lines: list[str], text: str) -> str:
    """Return the only line with a text."""
    (match,) = (line for line in lines if text in line)
    return match


def test_an_output_that_lost_its_meaning_is_told_by_compile_and_run(files):
    lines = compiled(files, "--quality", "fast")
    assert row(lines, " accuracy ").endswith("dB  LOST: the same on all samples, and not in float")
    assert "cost most; a higher --quality keeps such layers in float" in row(lines, "--quality")
    assert row(lines, "LOST") in done("run", files / "detector.vdla").stdout.splitlines()


def test_layers_stay_in_float_by_default_and_the_module_says_which(files):
    lines = compiled(files)
    assert "LOST" not in "".join(lines)
    assert " in float for 10 dB, " in row(lines, "in float for")
    fidelity = json.loads(done("run", files / "detector.vdla", "--json").stdout)["summary"]["fidelity"]
    assert fidelity["kept"]
    assert fidelity["outputs"][0]["decibels"] is None or fidelity["outputs"][0]["decibels"] >= 10


def test_python_tells_the_same(files):
    samples = [{"x": x} for x in SAMPLES]
    lost, kept = (
        vdla.compile(detector(), "tiny", samples=samples, quality=quality) for quality in ("fast", 25)
    )
    assert lost.summary().fidelity.outputs[0].is_lost
    assert kept.summary().fidelity.outputs[0].reaches(25)
    outputs = [float(kept.run({"x": x}).outputs["y"][0, 0]) for x in SAMPLES]
    wanted = 1 / (1 + np.exp(-SAMPLES[:, 0, 1]))
    np.testing.assert_allclose(outputs, wanted, atol=0.02)


def test_a_network_that_came_quantised_is_not_judged_and_says_so(tmp_path):
    files = made_in(tmp_path)
    lines = done("run", files / "net.vdla").stdout.splitlines()
    assert "not judged: the file is quantised already" in row(lines, " accuracy ")


def test_another_quality_is_refused_in_one_line(files):
    arguments = ("compile", files / "detector.onnx", "-o", files / "no.vdla", "--quality", "best")
    assert refused(*arguments).endswith(
        "quality best is none of fast, balanced, exact, and no number of decibels from 0 to 100"
    )
    assert "--quality" in refused("run", files / "detector.vdla", "--quality", "exact")
