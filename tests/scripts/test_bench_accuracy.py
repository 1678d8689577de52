"""The benchmark of accuracy: trained networks stay as accurate, and its networks are what they should be."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

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


def test_lines_of_text_are_drawn_and_judged_by_edits(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    from accuracy.text import edits, line, read

    image, text = line(np.random.default_rng(0))
    assert image.shape == (1, 3, 48, 320)
    assert image.min() >= -1
    assert image[:, :, :, :100].std() > 0.2  # there is ink
    assert 2 <= len(text.split()) <= 3
    assert [edits(text, text), edits("valve", "value"), edits("", "fox"), edits("over", "lover")] == [
        0,
        1,
        3,
        1,
    ]
    scores = np.eye(3, dtype=np.float32)[None, [0, 1, 1, 0, 1, 2, 2]]
    assert read({"y": scores}, ["", "a", "b"]) == "aab"


def test_a_recogniser_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import bench_accuracy

    monkeypatch.setattr(bench_accuracy, "place", lambda: None)
    done = CliRunner().invoke(bench_accuracy.main, ["--only", "text lines"])
    assert done.exit_code == 2
    assert "the recogniser of text lines is not installed: pip install" in done.output
