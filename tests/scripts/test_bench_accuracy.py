"""The benchmark of accuracy: trained networks stay as accurate, and its networks are what they should be."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("sklearn")

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_a_trained_network_keeps_its_accuracy():
    done = subprocess.run(
        [sys.executable, SCRIPTS / "bench_accuracy.py", "--only", "digits"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok     digits: within 0.5 points of float" in done.stdout
    assert "float                                       98.33 %" in done.stdout


def test_networks_have_heavy_tails(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    from accuracy.tails import images, vision_transformer

    model = vision_transformer(0)
    sample = images(np.random.default_rng(0))
    assert sample["image"].shape == (1, 3, 64, 64)
    sizes = [
        np.abs(each).max() / each.std() for each in map(_array, model.graph.initializer) if each.size > 1000
    ]
    assert max(sizes) > 20


def _array(tensor) -> np.ndarray:
    from onnx import numpy_helper

    return numpy_helper.to_array(tensor)
