"""The script that trains a language model: it writes the model and samples, and nothing if it is interrupted."""

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

pytest.importorskip("onnxruntime")


@pytest.fixture
def training(script, monkeypatch):
    """Return the script, with short pages."""
    module = script("train_language_model")
    from accuracy import pages

    texts = tuple(pages.numbers("a kit's pages, " * count, module.ALPHABET) for count in (40, 4))
    monkeypatch.setattr(pages, "split", lambda alphabet: texts)
    return module


def test_the_model_and_samples_are_written(training, tmp_path):
    path = tmp_path / "folder" / "model.onnx"
    result = CliRunner().invoke(training.main, ["--steps", "2", "--output", str(path)])
    assert result.exit_code == 0, result.output
    assert "perplexity on 60 characters of unseen pages" in result.output
    inputs = {each.name for each in onnx.load(path).graph.input}
    with np.load(path.with_name("model_samples.npz")) as samples:
        assert samples.keys() == inputs
        assert {len(samples[name]) for name in inputs} == {training.SAMPLES}
        assert samples["token"].shape == (training.SAMPLES, 1, 1)


def test_an_interrupted_training_writes_nothing(training, tmp_path, monkeypatch):
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "trained", interrupted)
    result = CliRunner().invoke(training.main, ["--output", str(tmp_path / "model.onnx")])
    assert result.exit_code == 1
    assert not list(tmp_path.iterdir())
