"""A decoder: gradients are finite differences, and its ONNX model, step by step, gives the scores of windows."""

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

BATCH, LENGTH = 2, 13
STEP = 1e-5  # of finite differences


@pytest.fixture(autouse=True)
def scripts(script) -> None:
    """Put the scripts on the path."""
    script("accuracy")


def sizes():
    """Return the sizes of a tiny decoder; windows are longer than its context."""
    from accuracy.decoder import Sizes

    return Sizes(
        symbols=7,
        width=8,
        blocks=2,
        query_heads=4,
        heads=2,
        head_size=4,
        hidden=12,
        context=5,
        positions=16,
    )


def network(seed: int, element: type = np.float32):
    """Return an untrained network; no weight is zero or one."""
    from accuracy.training import Network

    random, layers = np.random.default_rng(seed), sizes().layers()
    weights = [layer.initial(random) for layer in layers]
    return Network(
        layers,
        tuple(
            tuple((part + random.normal(0, 0.2, part.shape)).astype(element) for part in each)
            for each in weights
        ),
    )


def text_of(seed: int, *shape: int) -> np.ndarray:
    """Return random symbols."""
    return np.random.default_rng(seed).integers(0, sizes().symbols, shape)


def test_gradients_are_finite_differences():
    from accuracy.differentiation import Variable, cross_entropy, gradients
    from accuracy.training import forward

    layers, weights = network(0, np.float64).layers, network(0, np.float64).weights
    data, labels = text_of(1, BATCH, LENGTH), text_of(2, BATCH * LENGTH)
    parameters = [tuple(map(Variable, each)) for each in weights]
    flat = [part for each in parameters for part in each]

    def loss() -> Variable:
        return cross_entropy(forward(layers, parameters, data), labels)

    for parameter, slope in zip(flat, gradients(loss(), flat), strict=True):
        assert slope.shape == parameter.value.shape
        values, losses = parameter.value.reshape(-1), []
        for place in np.random.default_rng(3).integers(0, values.size, 3):
            kept = values[place]
            losses = []
            for moved in (kept + STEP, kept - STEP):
                values[place] = moved
                losses.append(float(loss().value))
            values[place] = kept
            expected = (losses[0] - losses[1]) / (2 * STEP)
            assert slope.reshape(-1)[place] == pytest.approx(expected, rel=1e-4, abs=1e-8)


def test_steps_give_the_scores_of_a_window():
    from accuracy.decoder_step import step_model
    from accuracy.stepping import Stepper, logits

    decoder, text = network(4), text_of(5, LENGTH)
    step = Stepper(step_model(sizes(), decoder.weights))
    by_step = np.array(list(logits(step, text, LENGTH)))
    np.testing.assert_allclose(by_step, decoder.scores(text[None]), atol=1e-5)


def test_scores_are_those_of_the_context_and_depend_on_distances_only():
    from accuracy.decoder import causal
    from accuracy.differentiation import Variable, products, rotated

    assert (causal(8, 3) == 0).sum(1).tolist() == [1, 2, 3, 3, 3, 3, 3, 3]
    random, (cosines, sines) = np.random.default_rng(6), sizes().angles()
    query, key = (np.tile(random.normal(size=4), (16, 1)) for _ in range(2))
    turned = [rotated(Variable(each), cosines, sines).value for each in (query, key)]
    scores = products(Variable(turned[0]), Variable(turned[1].T)).value
    np.testing.assert_allclose(np.diagonal(scores, -3), scores[3, 0], rtol=1e-5)
    assert not np.isclose(scores[3, 0], scores[4, 0])


def test_position_0_ignores_the_state():
    from accuracy.decoder_step import step_model
    from accuracy.stepping import Stepper, logits

    text = text_of(7, 6)
    step = Stepper(step_model(sizes(), network(8).weights))
    twice = np.array(list(logits(step, np.tile(text, 2), len(text))))
    np.testing.assert_array_equal(twice[: len(text)], twice[len(text) :])


def test_widths_and_names_of_the_model():
    from accuracy.decoder_step import step_model

    graph = step_model(sizes(), network(9).weights).graph
    shapes = {
        each.name: [extent.dim_value for extent in each.type.tensor_type.shape.dim]
        for each in (*graph.input, *graph.output)
    }
    state = {
        f"{when}_{part}_{block}"
        for when in ("past", "present")
        for part in ("key", "value")
        for block in (0, 1)
    }
    assert shapes.keys() == state | {"token", "position", "logits"}
    assert all(shapes[name] == [1, 2, 5, 4] for name in state)
    assert shapes["token"] == shapes["position"] == [1, 1]
    assert shapes["logits"] == [1, 1, 7]


def test_perplexity_is_that_of_the_scores():
    from accuracy.stepping import perplexity

    text, seen = np.array([0, 1, 2, 1]), []

    def step(token: np.ndarray, position: np.ndarray) -> np.ndarray:
        assert token.shape == position.shape == (1, 1)
        seen.append((int(token[0, 0]), int(position[0, 0])))
        return np.log(np.array([[[0.25, 0.5, 0.25]]]))

    assert perplexity(step, text, 2) == pytest.approx((2 * 4 * 2) ** (1 / 3))
    assert seen == [(0, 0), (1, 1), (2, 0)]


def test_recorded_inputs_are_those_of_steps_on_a_text():
    from accuracy.decoder_step import step_model
    from accuracy.stepping import recorded

    samples = recorded(step_model(sizes(), network(10).weights), text_of(11, 40), 6, 9)
    positions = [int(each["position"][0, 0]) for each in samples]
    assert len(set(positions)) > 1
    assert max(positions) < 9
    for sample, position in zip(samples, positions, strict=True):
        filled = sample["past_key_1"].any((0, 1, 3))
        assert filled.sum() == min(position, 5)
        assert not position or filled[-1]


def test_a_text_is_continued_with_likely_symbols():
    from accuracy.stepping import written

    def next_symbol(token: np.ndarray, position: np.ndarray) -> np.ndarray:
        return np.eye(5)[(token + 1) % 5]

    assert written(next_symbol, np.array([2, 3]), 4, 0).tolist() == [4, 0, 1, 2]
    drawn = [written(next_symbol, np.array([2, 3]), 12, 1, seed).tolist() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_counts_of_pairs_predict_a_text_of_pairs():
    from accuracy.language import ALPHABET, counted

    text = np.tile([1, 2, 3, 4], 1000)
    assert counted(text, text, 1) == pytest.approx(4, rel=0.05)
    assert counted(text, text, 2) == pytest.approx(1, abs=0.05)
    assert counted(text, np.arange(len(ALPHABET)), 2) > 16


def test_the_rate_rises_then_falls():
    from accuracy.training import Schedule

    schedule = Schedule(10, rate=1.0, warm_up=4)
    rates = [schedule.rate_of(step) for step in range(10)]
    np.testing.assert_allclose(rates, [0.25, 0.5, 0.75, 1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])
    assert Schedule(10, rate=1.0).rate_of(0) == 1
