"""Running a language model step by step: its perplexity, samples of its inputs, and the text that it writes.

A step is a function of a token and a position. Whoever provides it carries the state from call to call. It
may thus be a float model under onnxruntime, or a compiled module.
"""

from collections.abc import Callable, Iterator

import numpy as np
from models.run import Tensors, run, session_of
from onnx import ModelProto

Step = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Takes `token` and `position`, int64[1, 1], and returns `logits`, float32[1, 1, symbols]."""


class Stepper:
    """Steps of a float model under onnxruntime.

    Args:
        model: as `accuracy.decoder_step.step_model` returns it.

    Attributes:
        feeds: all inputs of the last step, and before the first step a state of zeros.
    """

    def __init__(self, model: ModelProto) -> None:
        self._session = session_of(model)
        self._state: Tensors = {
            each.name: np.zeros(each.shape, np.float32)
            for each in self._session.get_inputs()
            if each.name.startswith("past_")
        }
        self.feeds = self._state

    def __call__(self, token: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return the logits, float32[1, 1, symbols], and keep the state."""
        self.feeds = {"token": token, "position": position, **self._state}
        outputs = run(self._session, self.feeds)
        logits = outputs.pop("logits")
        self._state = {name.replace("present", "past"): values for name, values in outputs.items()}
        return logits


def logits(step: Step, text: np.ndarray, positions: int) -> Iterator[np.ndarray]:
    """Return the logits after each symbol of a text, float32[symbols].

    Args:
        step: of the model.
        text: int64[length].
        positions: of the model. After so many symbols, positions start from 0 again, without a context.
    """
    for place, symbol in enumerate(text):
        yield step(_number(symbol), _number(place % positions)).reshape(-1)


def perplexity(step: Step, text: np.ndarray, positions: int) -> float:
    """Return the perplexity of a text: exp of the mean cross-entropy of each symbol but the first.

    Args:
        step, text, positions: as for `logits`.
    """
    scores = np.array(list(logits(step, text[:-1], positions)), np.float64)
    scores -= scores.max(1, keepdims=True)
    right = scores[np.arange(len(scores)), text[1:]] - np.log(np.exp(scores).sum(1))
    return float(np.exp(-right.mean()))


def recorded(model: ModelProto, text: np.ndarray, count: int, longest: int, seed: int = 1) -> list[Tensors]:
    """Return inputs of a model to quantise it with: each is that of the last step of a random part of a text.

    Args:
        model: as for `Stepper`.
        text: int64[length].
        count: of samples.
        longest: greatest number of steps of a part, at most the positions of the model.
        seed: of the parts.
    """
    random, samples = np.random.default_rng(seed), []
    for _ in range(count):
        length = random.integers(1, longest + 1)
        begin = random.integers(0, len(text) - length)
        step = Stepper(model)
        for place in range(length):
            step(_number(text[begin + place]), _number(place))
        samples.append(step.feeds)
    return samples


def written(step: Step, begin: np.ndarray, length: int, temperature: float, seed: int = 1) -> np.ndarray:
    """Return the symbols that a model appends to a text, int64[length].

    Args:
        step: of the model.
        begin: the text, int64[n].
        length: begin and result together have at most the positions of the model.
        temperature: divides the logits before a symbol is drawn; at 0 it is the likeliest.
        seed: of the draws.
    """
    random, text = np.random.default_rng(seed), list(begin)
    for place in range(len(begin) + length - 1):
        scores = step(_number(text[place]), _number(place)).reshape(-1).astype(np.float64)
        if place + 1 == len(text):
            text.append(drawn(scores, temperature, random))
    return np.array(text[len(begin) :])


def drawn(scores: np.ndarray, temperature: float, random: np.random.Generator) -> int:
    """Return a symbol drawn by its scores, float64[symbols]; at a temperature of 0, the likeliest."""
    if not temperature:
        return int(scores.argmax())
    powers = np.exp((scores - scores.max()) / temperature)
    return int(random.choice(len(scores), p=powers / powers.sum()))


def _number(value: int) -> np.ndarray:
    """Return a number as int64[1, 1]."""
    return np.array([[value]], np.int64)
