"""Trying files as a newcomer does: samples that are made up, and what a line says."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

pytest.importorskip("onnxruntime")
import try_files
from try_files import COMPILED, FAILED, REFUSED

from vdla.hw.spec.children import Finished

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


def open_model(folder: Path, least: int) -> Path:
    """Return a file with an open extent, which must be `least`: it multiplies by a constant."""
    constant = helper.make_tensor("c", TensorProto.FLOAT, (least, 1), np.ones(least))
    given, result = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ("n", "m")) for name in ("x", "y")
    )
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "c"], ["y"])], "g", [given], [result], [constant]
    )
    opset = helper.make_opsetid("", 17)
    save(helper.make_model(graph, ir_version=9, opset_imports=[opset]), folder / "open.onnx")
    return folder / "open.onnx"


def test_open_extents_are_the_least_that_onnxruntime_runs(tmp_path):
    (samples,) = try_files.random_samples(open_model(tmp_path, 48)).values()
    assert samples.shape == (try_files.COUNT, 1, 48)
    assert try_files.random_samples(open_model(tmp_path, 7)) is None


def test_a_compiled_file_is_a_line_with_its_share_and_launches(tmp_path):
    samples = try_files.samples_of(DIGITS, None, tmp_path)
    attempt = try_files.tried(DIGITS, "digits.onnx", samples, tmp_path, 300, "--config", "tiny")
    assert attempt.state == COMPILED, attempt.text
    words = str(attempt).split()
    assert words[:2] == ["digits.onnx", "compiled"]
    assert words[4:7] == ["100.0%", "1", "launches"]


def test_a_refused_file_is_shown_with_its_message(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    attempt = try_files.tried(tmp_path / "bad.onnx", "bad.onnx", None, tmp_path, 300)
    assert attempt.state == REFUSED
    assert "this is not an ONNX model" in str(attempt).splitlines()[1]


@pytest.mark.parametrize(
    ("status", "errors", "state"),
    [
        (0, "", COMPILED),
        (2, "error: x", REFUSED),
        (2, "Traceback ...", FAILED),
        (1, "", FAILED),
        (-9, "", FAILED),
    ],
)
def test_whatever_is_no_refusal_in_words_is_a_failure(status, errors, state):
    assert try_files.state_of(Finished(status, "", errors)) == state


def test_the_signal_to_noise_is_that_of_the_outputs():
    text = """net on tiny
  accuracy     y    17.1 dB
               z    LOST: the same on all samples, and not in float
               w     3.5 dB  LOST: below 6 dB
               in float for 6 dB, -2.0 dB without: conv"""
    assert try_files.WORST.findall(text) == ["17.1", "3.5"]
