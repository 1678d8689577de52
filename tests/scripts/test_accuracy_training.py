"""Training of recurrent networks: gradients are finite differences, ONNX models are the forward pass, and training
lowers the loss."""

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

SYMBOLS, CLASSES, BATCH, HEIGHT, WIDTH = 6, 4, 3, 5, 4
STEP = 1e-5  # of finite differences


@pytest.fixture(autouse=True)
def scripts(script) -> None:
    """Put the scripts on the path."""
    script("accuracy")


def networks() -> dict[str, tuple]:
    """Return small networks; all but the first take images float[batch, 1, HEIGHT, WIDTH]."""
    from accuracy.layers import Conv, Dense, Embedding, Lines, Recurrent, Rows

    return {
        "text": (Embedding(SYMBOLS, 3), Recurrent("LSTM", 3, 5), Rows(5), Dense(5, CLASSES)),
        "spotter": (
            Conv(1, 2, kernel=3, stride=2),
            Conv(2, 3, kernel=3, stride=1),
            Lines(),
            Recurrent("GRU", 6, 5, last=True),
            Dense(5, CLASSES),
        ),
        "stacked": (
            Lines(),
            Recurrent("LSTM", WIDTH, 3, directions=2),
            Recurrent("LSTM", 6, 3, directions=2, last=True),
            Dense(6, CLASSES),
        ),
        "both directions of a GRU": (
            Lines(),
            Recurrent("GRU", WIDTH, 3, directions=2),
            Rows(6),
            Dense(6, CLASSES),
        ),
    }


TITLES = ["text", "spotter", "stacked", "both directions of a GRU"]


def weights_of(layers: tuple, random: np.random.Generator) -> tuple:
    """Return weights of which none is zero."""
    initial = [layer.initial(random) for layer in layers]
    return tuple(tuple(part + random.normal(0, 0.2, part.shape) for part in each) for each in initial)


def data_of(title: str, random: np.random.Generator, batch: int) -> np.ndarray:
    """Return a batch: symbols, int64[batch, HEIGHT], or images."""
    if title == "text":
        return random.integers(0, SYMBOLS, (batch, HEIGHT))
    return random.normal(size=(batch, 1, HEIGHT, WIDTH))


@pytest.mark.parametrize("title", TITLES)
def test_gradients_are_finite_differences(title):
    from accuracy.differentiation import Variable, cross_entropy, gradients
    from accuracy.training import forward

    random, layers = np.random.default_rng(0), networks()[title]
    weights, data = weights_of(layers, random), data_of(title, random, BATCH)
    parameters = [tuple(map(Variable, each)) for each in weights]
    scores = forward(layers, parameters, data)
    labels = random.integers(0, CLASSES, len(scores.value))
    flat = [part for each in parameters for part in each]
    slopes = gradients(cross_entropy(scores, labels), flat)

    def loss() -> float:
        return float(cross_entropy(forward(layers, parameters, data), labels).value)

    for parameter, slope in zip(flat, slopes, strict=True):
        assert slope.shape == parameter.value.shape
        for place in random.integers(0, slope.size, 4):
            expected = difference(loss, parameter.value.reshape(-1), place)
            assert slope.reshape(-1)[place] == pytest.approx(expected, rel=1e-5, abs=1e-8)


def difference(loss: Callable[[], float], values: np.ndarray, place: int) -> float:
    """Return the central difference quotient of a loss by an element; `values` is a view."""
    kept, losses = values[place], []
    for step in (STEP, -STEP):
        values[place] = kept + step
        losses.append(loss())
    values[place] = kept
    return (losses[0] - losses[1]) / (2 * STEP)


@pytest.mark.parametrize("title", TITLES)
def test_the_onnx_model_is_the_forward_pass(title):
    from accuracy.training import Network
    from models.run import run, session_of

    random, layers = np.random.default_rng(1), networks()[title]
    weights = weights_of(layers, random)
    network = Network(layers, tuple(tuple(part.astype(np.float32) for part in each) for each in weights))
    data = data_of(title, random, 1)
    data = data if title == "text" else data.astype(np.float32)
    feed = data.T.astype(np.float32) if title == "text" else data
    session = session_of(network.model("network", data=feed.shape))
    np.testing.assert_allclose(run(session, {"data": feed})["scores"], network.scores(data), atol=1e-6)


def test_several_windows_are_predicted_at_once():
    from accuracy.training import Network
    from models.run import run, session_of

    random, layers = np.random.default_rng(2), networks()["text"]
    network = Network(layers, tuple(layer.initial(random) for layer in layers))
    data = data_of("text", random, BATCH)
    session = session_of(network.model("network", data=(HEIGHT, BATCH)))
    scores = run(session, {"data": data.T.astype(np.float32)})["scores"]
    assert scores.shape == (HEIGHT * BATCH, CLASSES)
    np.testing.assert_allclose(scores, network.scores(data), atol=1e-6)


def test_training_learns_and_is_repeatable():
    from accuracy.training import Schedule, train

    random, layers = np.random.default_rng(3), networks()["stacked"]
    images = random.normal(size=(200, 1, HEIGHT, WIDTH)).astype(np.float32)
    labels = random.integers(0, CLASSES, 200)
    images[range(200), 0, labels] += 2  # the row of that number is bright
    schedules = [Schedule(steps, rate=2e-2) for steps in (0, 100, 100)]
    untrained, trained, again = (train(layers, images, labels, schedule) for schedule in schedules)
    right = [(network.scores(images).argmax(1) == labels).mean() for network in (untrained, trained)]
    assert right[0] < 0.5
    assert right[1] > 0.8
    for parts, repeated in zip(trained.weights, again.weights, strict=True):
        for part, other in zip(parts, repeated, strict=True):
            np.testing.assert_array_equal(part, other)


def test_pages_are_sentences_without_listings_and_tables():
    from accuracy import pages

    page = "# A Title\nText of `code`: two.\n```\nlisting\n```\n| a | table |\nEnd, 3 times.\n"
    assert pages.plain(page) == "a title text of code : two. end, times."
    assert "".join(pages.ALPHABET[number] for number in pages.numbers("end, here.")) == "end, here."
    training, test = pages.split()
    assert len(training) > 2 * len(test) > 20_000


def test_digits_are_moved_by_up_to_a_pixel():
    from accuracy.recurrent import MOVES, moved

    images = np.arange(1, 25, dtype=np.float32).reshape(2, 1, 3, 4)
    result = moved(images)
    assert result.shape == (2 * MOVES, 1, 3, 4)
    np.testing.assert_array_equal(result[:2, :, 1:, 1:], images[:, :, :-1, :-1])
    np.testing.assert_array_equal(result[8:10], images)
    assert not result[:2, :, 0].any()


def test_words_are_the_same_at_each_call_and_differ_from_each_other():
    from accuracy import words

    (first, labels), (second, _) = words.samples(4, seed=1), words.samples(4, seed=1)
    assert first.shape == (4, 1, words.FRAMES, words.BANDS)
    np.testing.assert_array_equal(first, second)
    assert labels.max() < len(words.WORDS) == len(set(words.WORDS))
    assert not np.array_equal(first, words.samples(4, seed=2)[0])
