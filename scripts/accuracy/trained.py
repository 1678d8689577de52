"""Trained networks with the data that come with scikit-learn."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from models.graph import GraphBuilder
from models.run import Tensors

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
CALIBRATION = 64
HIDDEN, SEED, STEPS = (64, 32), 0, 400


@dataclass(frozen=True)
class Trained:
    """A trained network.

    Attributes:
        name: of the network.
        model: in float.
        calibration: samples to quantise it with.
        test: samples it has not seen.
        score: percent of what it is to say of `test` that its outputs say.
    """

    name: str
    model: onnx.ModelProto
    calibration: list[Tensors]
    test: list[Tensors]
    score: Callable[[list[Tensors]], float]


def digits() -> Trained:
    """Return the convolutional network of `examples/digits`."""
    training, test = digit_images()
    return Trained(
        "digits",
        onnx.load(DIGITS / "digits.onnx"),
        samples("image", training.images[:CALIBRATION]),
        samples("image", test.images),
        classifying(test.labels),
    )


def digit_images() -> tuple[Any, Any]:
    """Return the training and the test samples of `examples/digits`: each has `images`, float32[n, 1, 8, 8],
    and `labels`, int64[n]."""
    sys.path.insert(0, str(DIGITS))
    from samples import split

    training, test = split()
    return training, test


def samples(name: str, rows: np.ndarray, batch: int = 1) -> list[Tensors]:
    """Return inputs of this name with `batch` rows of an array each; the batch divides the rows."""
    return [{name: part} for part in rows.reshape(-1, batch, *rows.shape[1:])]


def cancer() -> Trained:
    """Return a dense network for scikit-learn's measurements of breast tumours, trained here. Its inputs are
    scaled in the network, in float; their sizes differ by a factor of 100,000."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import StandardScaler

    data = load_breast_cancer()
    order = np.random.default_rng(SEED).permutation(len(data.target))
    test, training = np.split(order, [len(order) // 2])
    scaler = StandardScaler().fit(data.data[training])
    network = MLPClassifier(HIDDEN, max_iter=STEPS, random_state=SEED)
    network.fit(scaler.transform(data.data[training]), data.target[training])
    graph = GraphBuilder("cancer", SEED)
    value = graph.input("measurements", 1, data.data.shape[1])
    value = graph.node("Sub", value, graph.constant(scaler.mean_.astype(np.float32)))
    value = graph.node("Div", value, graph.constant(scaler.scale_.astype(np.float32)))
    for place, (weights, bias) in enumerate(zip(network.coefs_, network.intercepts_, strict=True)):
        value = graph.relu(value) if place else value
        constants = (graph.constant(part.astype(np.float32)) for part in (weights, bias))
        value = graph.node("Gemm", value, *constants)
    rows = data.data.astype(np.float32)
    return Trained(
        "cancer",
        graph.finish(score=value),
        samples("measurements", rows[training][:CALIBRATION]),
        samples("measurements", rows[test]),
        classifying(data.target[test]),
    )


def classifying(labels: np.ndarray) -> Callable[[list[Tensors]], float]:
    """Return the score of a classifier: percent of the rows of outputs that say the right class."""
    return lambda outputs: 100 * float(np.mean(classes(outputs) == labels))


def classes(outputs: list[Tensors]) -> np.ndarray:
    """Return the class that each row of the outputs says, float32[rows, classes]: the largest score, or the
    sign of a single score."""
    scores = np.concatenate([next(iter(each.values())) for each in outputs])
    return scores.argmax(1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(int)
