"""A language model of characters that is trained here, with NumPy, on the pages of `docs`."""

from collections.abc import Callable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from accuracy import pages
from accuracy.decoder import Sizes
from accuracy.training import Network, Schedule, train

ALPHABET = pages.ALPHABET + "-'"
SIZES = Sizes(
    symbols=len(ALPHABET),
    width=256,
    blocks=3,
    query_heads=4,
    heads=2,
    head_size=32,
    hidden=704,
    context=64,
    positions=512,
)
WINDOW = 2 * SIZES.context  # characters of a window: rows of its second half attend to whole contexts
STEPS = 700


def schedule(steps: int = STEPS) -> Schedule:
    """Return how the model is trained in so many steps."""
    return Schedule(steps, batch=16, rate=3e-3, warm_up=min(50, steps // 2), decay=2.0)


def trained(text: np.ndarray, how: Schedule, report: Callable[[float], None] = lambda loss: None) -> Network:
    """Return a decoder that predicts the next characters of a text.

    Args:
        text: numbers of characters in `ALPHABET`, int64[length].
        how: it is trained.
        report: gets the loss of each step.
    """
    windows = sliding_window_view(text, WINDOW + 1)
    return train(SIZES.layers(), windows[:, :-1], windows[:, 1:], how, report)


def counted(training: np.ndarray, text: np.ndarray, length: int) -> float:
    """Return the perplexity of a text by counts of characters in a row. Each count starts at 1.

    Args:
        training, text: numbers of characters in `ALPHABET`, int64[...].
        length: characters in a row; 1 for a unigram model, 2 for a bigram model.
    """
    counts = np.ones((len(ALPHABET),) * length)
    np.add.at(counts, tuple(sliding_window_view(training, length).T), 1)
    shares = counts / counts.sum(-1, keepdims=True)
    return float(np.exp(-np.log(shares[tuple(sliding_window_view(text, length).T)]).mean()))
