"""Recurrent networks that are trained here, with NumPy, in less than a minute each.

A sample is a batch of inputs: the interpreter then needs less time for each input.

Sources: Karpathy et al., Visualizing and understanding recurrent networks, arXiv:1506.02078 (text model);
Arik et al., Convolutional recurrent neural networks for small-footprint keyword spotting, Interspeech 2017;
Schuster and Paliwal, Bidirectional recurrent neural networks, IEEE Transactions on Signal Processing, 1997.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from accuracy import pages, words
from accuracy.layers import Conv, Dense, Embedding, Layer, Lines, Recurrent, Rows
from accuracy.trained import Trained, classifying, digit_images, samples
from accuracy.training import Schedule, train

BATCH, CALIBRATION = 32, 256  # inputs of a sample, inputs to quantise with
WINDOW, TEST_WINDOWS = 24, 1600  # characters of a window
EMBEDDING, TEXT_UNITS, TEXT_STEPS = 24, 96, 800
TRAINING_WORDS, TEST_WORDS = 2000, 3200
CHANNELS, WORD_UNITS, WORD_STEPS = 8, 32, 800
SIDE, DIGITS, TEST_DIGITS = 8, 10, 896
DIGIT_UNITS, DIGIT_STEPS, MOVES = 32, 1000, 9

SYMBOLS = len(pages.ALPHABET)
TEXT_MODEL: tuple[Layer, ...] = (
    Embedding(SYMBOLS, EMBEDDING),
    Recurrent("LSTM", EMBEDDING, TEXT_UNITS),
    Rows(TEXT_UNITS),
    Dense(TEXT_UNITS, SYMBOLS),
)
KEYWORD_SPOTTER: tuple[Layer, ...] = (
    Conv(1, CHANNELS, kernel=3, stride=2),
    Conv(CHANNELS, CHANNELS, kernel=3, stride=2),
    Lines(),
    Recurrent("GRU", CHANNELS * words.BANDS // 4, WORD_UNITS, last=True),
    Dense(WORD_UNITS, len(words.WORDS)),
)
BIDIRECTIONAL_LSTMS: tuple[Layer, ...] = (
    Lines(),
    Recurrent("LSTM", SIDE, DIGIT_UNITS, directions=2),
    Recurrent("LSTM", 2 * DIGIT_UNITS, DIGIT_UNITS, directions=2, last=True),
    Dense(2 * DIGIT_UNITS, DIGITS),
)


def text_model() -> Trained:
    """Return an LSTM that predicts the next characters of windows, on pages of `docs` it has not seen.

    Its input is the numbers of the characters in the alphabet, float32[WINDOW, BATCH]. Its output is the
    scores of the character after each of them, float32[WINDOW * BATCH, symbols].
    """
    training, test = (sliding_window_view(text, WINDOW + 1) for text in pages.split())
    network = train(TEXT_MODEL, training[:, :-1], training[:, 1:], Schedule(TEXT_STEPS))
    calibration, unseen = _spread(training, CALIBRATION), _spread(test, TEST_WINDOWS)
    return Trained(
        "text model",
        network.model("text_model", characters=(WINDOW, BATCH)),
        [{"characters": each[:-1].astype(np.float32)} for each in calibration],
        [{"characters": each[:-1].astype(np.float32)} for each in unseen],
        classifying(unseen[:, 1:].reshape(-1)),
    )


def _spread(windows: np.ndarray, count: int) -> np.ndarray:
    """Return windows at equal distances, side by side in samples: int64[count / BATCH, WINDOW + 1, BATCH]."""
    chosen = np.linspace(0, len(windows) - 1, count).astype(int)
    return np.stack([windows[rows].T for rows in chosen.reshape(-1, BATCH)])


def synthetic_keywords() -> Trained:
    """Return two convolutions and a GRU that classify synthetic words; no speech is involved.

    The input is spectrogram, float32[BATCH, 1, frames, bands]. The output is scores, float32[BATCH, words].
    """
    training, labels = words.samples(TRAINING_WORDS, seed=1)
    test, test_labels = words.samples(TEST_WORDS, seed=2)
    network = train(KEYWORD_SPOTTER, training, labels, Schedule(WORD_STEPS))
    return Trained(
        "synthetic keywords",
        network.model("synthetic_keywords", spectrogram=(BATCH, *test.shape[1:])),
        samples("spectrogram", training[:CALIBRATION], BATCH),
        samples("spectrogram", test, BATCH),
        classifying(test_labels),
    )


def bidirectional_lstms() -> Trained:
    """Return two stacked bidirectional LSTMs that read scikit-learn's digits row by row.

    Half of the digits are for the test. All digits are moved by up to a pixel: changes of 0.5 points do not
    show on the few test digits as they are.

    The input is image, float32[BATCH, 1, 8, 8]. The output is scores, float32[BATCH, 10].
    """
    images, labels = (
        np.concatenate([getattr(part, name) for part in digit_images()]) for name in ("images", "labels")
    )
    test, training = (moved(part) for part in np.split(images, [TEST_DIGITS]))
    test_labels, training_labels = (np.tile(part, MOVES) for part in np.split(labels, [TEST_DIGITS]))
    network = train(BIDIRECTIONAL_LSTMS, training, training_labels, Schedule(DIGIT_STEPS))
    return Trained(
        "bidirectional LSTMs",
        network.model("bidirectional_lstms", image=(BATCH, 1, SIDE, SIDE)),
        samples("image", training[:: len(training) // CALIBRATION][:CALIBRATION], BATCH),
        samples("image", test, BATCH),
        classifying(test_labels),
    )


def moved(images: np.ndarray) -> np.ndarray:
    """Return images float32[n, 1, height, width] moved by up to a pixel in each direction: float32[MOVES * n,
    1, height, width]."""
    height, width = images.shape[2:]
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.concatenate([padded[:, :, y : y + height, x : x + width] for y, x in np.ndindex(3, 3)])
