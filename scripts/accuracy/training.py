"""Training of a network on one core: Adam, with a learning rate that falls to zero.

Source: Kingma and Ba, Adam: A method for stochastic optimization, ICLR 2015, algorithm 1; Pascanu et al., On
the difficulty of training recurrent neural networks, ICML 2013, section 3.2 (clipping of gradients).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from models.graph import GraphBuilder
from onnx import ModelProto

from accuracy.differentiation import Variable, cross_entropy, gradients
from accuracy.layers import Layer, Trainable, Weights

DECAY, DECAY_OF_SQUARES, SMALLEST = 0.9, 0.99, 1e-8
LONGEST = 1.0  # length of the gradient by all weights, above which it is scaled down


@dataclass(frozen=True)
class Schedule:
    """How a network is trained.

    Attributes:
        steps: of Adam.
        batch: samples of a step, drawn at random.
        rate: greatest learning rate.
        seed: of the initial weights and the batches.
        warm_up: steps in which the rate rises linearly; after them it falls linearly.
        decay: share of a matrix that a step with a rate of 1 takes away.
    """

    steps: int
    batch: int = 64
    rate: float = 5e-3
    seed: int = 1
    warm_up: int = 0
    decay: float = 0.0

    def rate_of(self, step: int) -> float:
        """Return the learning rate of a step."""
        if step < self.warm_up:
            return self.rate * (step + 1) / self.warm_up
        return self.rate * (1 - (step - self.warm_up) / (self.steps - self.warm_up))


@dataclass(frozen=True)
class Network:
    """Layers, each of which takes the result of the layer before, and their weights."""

    layers: tuple[Layer, ...]
    weights: tuple[Weights, ...]

    def scores(self, data: np.ndarray) -> np.ndarray:
        """Return the scores of a batch, float32[rows, classes]."""
        return forward(self.layers, [tuple(map(Variable, each)) for each in self.weights], data).value

    def model(self, name: str, **inputs: tuple[int, ...]) -> ModelProto:
        """Return the ONNX model for a single sample. Its output is `scores`, float32[rows, classes].

        Args:
            name: of the graph.
            inputs: name and shape of the input, float32.
        """
        graph = GraphBuilder(name, 0)
        ((title, shape),) = inputs.items()
        value = graph.input(title, *shape)
        for layer, weights in zip(self.layers, self.weights, strict=True):
            value = layer.add(graph, weights, value)
        return graph.finish(scores=value)


def forward(layers: Sequence[Trainable], weights: Sequence[Sequence[Variable]], data: np.ndarray) -> Variable:
    """Return the scores of a batch, float[rows, classes]."""
    value: Any = data if data.dtype.kind == "i" else Variable(data)
    for layer, parameters in zip(layers, weights, strict=True):
        value = layer.apply(parameters, value)
    assert isinstance(value, Variable), "the last layer returns scores"
    return value


def train(
    layers: tuple[Trainable, ...],
    data: np.ndarray,
    labels: np.ndarray,
    schedule: Schedule,
    report: Callable[[float], None] = lambda loss: None,
) -> Network:
    """Return the network that minimises the cross-entropy of its scores.

    Args:
        data: training samples along the first dimension.
        labels: the right classes, int[samples], or int[samples, steps] if each step has a class.
        report: gets the loss of each step.
    """
    random = np.random.default_rng(schedule.seed)
    weights = tuple(layer.initial(random) for layer in layers)
    flat = [part for each in weights for part in each]
    means, squares = ([np.zeros_like(part) for part in flat] for _ in range(2))
    for step in range(schedule.steps):
        chosen = random.integers(0, len(data), schedule.batch)
        loss, slopes = _slopes(layers, weights, data[chosen], labels[chosen].T.reshape(-1))
        report(loss)
        rate = schedule.rate_of(step)
        for part, mean, square, slope in zip(flat, means, squares, _clipped(slopes), strict=True):
            mean += (1 - DECAY) * (slope - mean)
            square += (1 - DECAY_OF_SQUARES) * (slope * slope - square)
            unbiased = mean / (1 - DECAY ** (step + 1))
            deviation = np.sqrt(square / (1 - DECAY_OF_SQUARES ** (step + 1)))
            if schedule.decay and part.ndim > 1:
                part *= np.float32(1 - rate * schedule.decay)
            part -= np.float32(rate) * unbiased / (deviation + SMALLEST)
    return Network(layers, weights)


def _slopes(
    layers: Sequence[Trainable], weights: Sequence[Weights], data: np.ndarray, labels: np.ndarray
) -> tuple[float, list[np.ndarray]]:
    """Return the loss of a batch, and its gradients by all weights."""
    parameters = [tuple(map(Variable, each)) for each in weights]
    loss = cross_entropy(forward(layers, parameters, data), labels)
    return float(loss.value), gradients(loss, [part for each in parameters for part in each])


def _clipped(slopes: list[np.ndarray]) -> list[np.ndarray]:
    """Return gradients, scaled down together if they are longer than `LONGEST`."""
    length = np.sqrt(sum(float(np.vdot(slope, slope)) for slope in slopes))
    factor = np.float32(min(1.0, LONGEST / (length + SMALLEST)))
    return [slope * factor for slope in slopes]
