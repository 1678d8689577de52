"""The benchmark of the language model: its table, and a result that differs from the graph's."""

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension

pytest.importorskip("onnxruntime")


@pytest.fixture
def measuring(script, monkeypatch, tmp_path):
    """Return the script for a small accelerator, and arguments that name a model of a few weights."""
    module = script("bench_language_model")
    from accuracy import pages
    from accuracy.decoder import Sizes
    from accuracy.decoder_step import step_model
    from accuracy.stepping import recorded

    sizes = Sizes(len(module.ALPHABET), 16, 1, 2, 1, 8, 16, 4, module.SIZES.positions)
    random = np.random.default_rng(0)
    model = step_model(sizes, [layer.initial(random) for layer in sizes.layers()])
    text = pages.numbers("a kit's pages, ", module.ALPHABET)
    inputs = recorded(model, np.tile(text, 4), 4, 8)
    onnx.save(model, tmp_path / "model.onnx")
    np.savez(
        tmp_path / "model_samples.npz",
        **{name: np.stack([each[name] for each in inputs]) for name in inputs[0]},
    )
    monkeypatch.setattr(pages, "split", lambda alphabet: (text, text))
    monkeypatch.setattr(module, "TARGET", Target(TINY.with_changes(extensions=tuple(Extension))))
    monkeypatch.setattr(module, "TIMED", ("cycle",))
    monkeypatch.setattr(module, "LENGTH", 3)
    return module, ["--model", str(tmp_path / "model.onnx"), "--tokens", "6", "--bits", "8", "--bits", "4"]


def test_the_table_has_a_line_for_each_number_of_bits(measuring):
    script, arguments = measuring
    result = CliRunner().invoke(script.main, arguments)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("float: perplexity ")
    assert [line.split()[0] for line in lines[4:6]] == ["8", "4"]
    assert all(line.endswith("equal for 6 tokens") for line in lines[4:6])
    assert float(lines[4].split()[6]) == 1.0 < float(lines[5].split()[6])
    assert lines[-1].startswith(script.BEGIN)
    assert len(lines[-1]) == len(script.BEGIN) + 3


def test_a_result_that_differs_is_told_and_fails(measuring, monkeypatch):
    script, arguments = measuring

    class Wrong(script.Interpreted):
        def __call__(self, token, position):
            return super().__call__(token, position) + 1

    monkeypatch.setattr(script, "Interpreted", Wrong)
    result = CliRunner().invoke(script.main, arguments)
    assert result.exit_code == 1
    assert "DIFFER" in result.stdout


def test_a_model_that_is_missing_is_asked_for(script, tmp_path):
    result = CliRunner().invoke(script("bench_language_model").main, ["--model", str(tmp_path / "none.onnx")])
    assert result.exit_code == 2
    assert "is missing; write it with scripts/train_language_model.py" in result.output
