"""The example that writes: what it draws, and what it refuses."""

from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from tests.loading import load_file


@pytest.fixture
def writing():
    return load_file("examples/language_model/write.py")


class Next:
    """A module that scores the character after the last in the alphabet highest."""

    def __init__(self) -> None:
        self.positions: list[int] = []

    def reset(self) -> None:
        self.positions.clear()

    def run(self, *, token, position, device):
        self.positions.append(position[0][0])
        logits = np.zeros((1, 1, 32), np.float32)
        logits[..., (token[0][0] + 1) % 32] = 1
        return SimpleNamespace(outputs={"logits": logits})


def test_characters_follow_until_the_positions_end(writing):
    module = Next()
    written = "".join(writing.characters(module, "cycle", "ab", 0, seed=1))
    assert written.startswith("cdefgh")
    assert module.positions == list(range(writing.SIZES.positions))
    assert len(written) == writing.SIZES.positions - 1


def test_other_characters_are_refused(writing, tmp_path, monkeypatch):
    for name in ("MODEL", "SAMPLES"):
        (tmp_path / name).touch()
        monkeypatch.setattr(writing, name, tmp_path / name)
    result = CliRunner().invoke(writing.main, ["The page"])
    assert result.exit_code == 2
    assert "'The page' has ['T']; the alphabet is" in " ".join(result.output.split())


def test_a_model_that_is_missing_is_asked_for(writing, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "MODEL", tmp_path / "none.onnx")
    result = CliRunner().invoke(writing.main, [])
    assert result.exit_code == 2
    assert "is missing; write it with scripts/train_language_model.py" in " ".join(result.output.split())
