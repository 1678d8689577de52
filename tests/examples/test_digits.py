"""The trained network for digits reaches its accuracy, and the training is right: gradients, steps,
export."""

import importlib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits"
DIGITS = EXAMPLE / "digits.onnx"
STATED_CORRECT, STATED_TESTS = 353, 359
ENTRIES, OFFSET = 12, 1e-6


@pytest.fixture(scope="module")
def example():
    """Return the modules of the example by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE)
        yield {name: importlib.import_module(name) for name in ("samples", "network", "train")}


def scores_of(model: bytes, images: np.ndarray) -> np.ndarray:
    """Return float32[n, 10] of float32[n, 1, 8, 8], one image at a time."""
    session = onnxruntime.InferenceSession(model)
    return np.concatenate([session.run(["scores"], {"image": image[None]})[0] for image in images])


def wide_problem(example, seed: int = 0):
    """Return parameters and a batch in double precision, away from the corners of ReLU and max-pool."""
    random = np.random.default_rng(seed)
    parameters = {
        name: values + 0.1 * random.standard_normal(values.shape)
        for name, values in example["network"].initial_parameters(random).items()
    }
    return parameters, random.standard_normal((4, 1, 8, 8)), random.integers(0, 10, 4)


def test_the_committed_network_is_as_accurate_as_stated(example):
    _, test = example["samples"].split()
    correct = np.count_nonzero(scores_of(DIGITS.read_bytes(), test.images).argmax(1) == test.labels)
    assert (correct, len(test)) == (STATED_CORRECT, STATED_TESTS)
    assert correct / len(test) >= 0.975


def test_the_committed_network_has_the_stated_inputs_and_outputs():
    model = onnx.load(DIGITS)
    onnx.checker.check_model(model, full_check=True)
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    assert shapes == {"image": [1, 1, 8, 8], "scores": [1, 10]}
    assert DIGITS.stat().st_size < 1 << 20


def test_the_split_holds_every_sample_once(example):
    from sklearn.datasets import load_digits

    train, test = example["samples"].split()
    images = np.concatenate([train.images, test.images])[:, 0] * 16
    assert sorted(image.tobytes() for image in images) == sorted(
        image.astype(np.float32).tobytes() for image in load_digits().images
    )
    assert images.dtype == np.float32
    assert (images.min(), images.max()) == (0, 16)
    assert np.array_equal(test.images, example["samples"].split()[1].images)


@pytest.mark.parametrize(
    "name", [f"{layer}_{kind}" for layer in ("conv1", "conv2", "dense") for kind in ("weight", "bias")]
)
def test_gradients_agree_with_finite_differences(example, name):
    parameters, images, labels = wide_problem(example)
    loss_and_gradients = example["network"].loss_and_gradients
    gradient = loss_and_gradients(parameters, images, labels)[1][name]
    assert gradient.shape == parameters[name].shape
    for entry in np.random.default_rng(1).choice(gradient.size, min(ENTRIES, gradient.size), replace=False):
        losses = [
            loss_and_gradients(parameters | {name: moved(parameters[name], entry, offset)}, images, labels)[0]
            for offset in (OFFSET, -OFFSET)
        ]
        assert gradient.flat[entry] == pytest.approx(
            (losses[0] - losses[1]) / (2 * OFFSET), rel=1e-5, abs=1e-8
        )


def moved(values: np.ndarray, entry: int, offset: float) -> np.ndarray:
    """Return the values with one entry moved."""
    result = values.copy()
    result.flat[entry] += offset
    return result


def test_equal_maxima_share_the_gradient(example):
    images = np.array([[1, 1, 5, 2], [1, 1, 0, 5]], float)[None, None]
    pooled = example["network"].max_pool(images)
    assert pooled.tolist() == [[[[1, 5]]]]
    gradient = example["network"].max_pool_gradient(images, pooled, np.array([[[[4.0, 8.0]]]]))
    assert gradient.tolist() == [[[[1, 1, 4, 0], [1, 1, 0, 4]]]]


def test_training_is_deterministic(example):
    train, _ = example["samples"].split()
    few = example["samples"].Samples(train.images[:32], train.labels[:32])
    (first, losses), (second, again) = (example["train"].train(few, epochs=2) for _ in range(2))
    assert losses == again
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert example["train"].train(few, epochs=2, seed=1)[1] != losses


def test_training_lowers_the_loss(example):
    train, _ = example["samples"].split()
    few = example["samples"].Samples(train.images[:256], train.labels[:256])
    _, losses = example["train"].train(few, epochs=20)
    assert losses[-1] < np.log(10) / 2 < losses[0]  # who knows nothing loses log(10)


def test_the_exported_network_computes_what_numpy_computes(example):
    parameters = example["network"].initial_parameters(np.random.default_rng(3))
    for name in ("conv1_bias", "conv2_bias", "dense_bias"):
        parameters[name] += np.linspace(-1, 1, parameters[name].size, dtype=np.float32)
    _, test = example["samples"].split()
    scores = scores_of(example["train"].to_onnx(parameters).SerializeToString(), test.images[:20])
    np.testing.assert_allclose(
        scores, example["network"].forward(parameters, test.images[:20]).scores, rtol=1e-4, atol=1e-5
    )
