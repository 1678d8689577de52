"""A small convolutional network in NumPy, forward and backward: two times 3x3 convolution, ReLU and 2x2
max-pool, then a dense layer."""

from typing import NamedTuple

import numpy as np

Parameters = dict[str, np.ndarray]
CHANNELS = (1, 16, 32)
FEATURES, CLASSES = 32 * 2 * 2, 10


def initial_parameters(random: np.random.Generator) -> Parameters:
    """Return weights after He and biases of zero, float32."""
    shapes = {
        "conv1": (CHANNELS[1], CHANNELS[0], 3, 3),
        "conv2": (CHANNELS[2], CHANNELS[1], 3, 3),
        "dense": (CLASSES, FEATURES),
    }
    weights = {
        f"{name}_weight": random.standard_normal(shape, np.float32)
        * np.float32(np.sqrt(2 / np.prod(shape[1:])))
        for name, shape in shapes.items()
    }
    return weights | {f"{name}_bias": np.zeros(shape[0], np.float32) for name, shape in shapes.items()}


class Activations(NamedTuple):
    """What a run of the network computed; the backward run needs it.

    Attributes:
        images: [n, 1, 8, 8]; rectified1: [n, 16, 8, 8]; pooled1: [n, 16, 4, 4]; rectified2: [n, 32, 4, 4];
            pooled2: [n, 32, 2, 2].
        scores: [n, 10], a score for each digit.
    """

    images: np.ndarray
    rectified1: np.ndarray
    pooled1: np.ndarray
    rectified2: np.ndarray
    pooled2: np.ndarray
    scores: np.ndarray


def forward(parameters: Parameters, images: np.ndarray) -> Activations:
    """Run the network on [n, 1, 8, 8]."""
    rectified1 = np.maximum(convolve(images, parameters["conv1_weight"], parameters["conv1_bias"]), 0)
    pooled1 = max_pool(rectified1)
    rectified2 = np.maximum(convolve(pooled1, parameters["conv2_weight"], parameters["conv2_bias"]), 0)
    pooled2 = max_pool(rectified2)
    scores = pooled2.reshape(len(images), -1) @ parameters["dense_weight"].T + parameters["dense_bias"]
    return Activations(images, rectified1, pooled1, rectified2, pooled2, scores)


def loss_and_gradients(
    parameters: Parameters, images: np.ndarray, labels: np.ndarray
) -> tuple[float, Parameters]:
    """Return the mean cross-entropy of the softmax of the scores, and its gradient by every parameter."""
    run = forward(parameters, images)
    loss, by_scores = cross_entropy(run.scores, labels)
    by_pooled2 = (by_scores @ parameters["dense_weight"]).reshape(run.pooled2.shape)
    by_conv2 = max_pool_gradient(run.rectified2, run.pooled2, by_pooled2) * (run.rectified2 > 0)
    by_pooled1 = convolve(by_conv2, _turned(parameters["conv2_weight"]))
    by_conv1 = max_pool_gradient(run.rectified1, run.pooled1, by_pooled1) * (run.rectified1 > 0)
    return loss, {
        "conv1_weight": convolve_gradient(run.images, by_conv1),
        "conv1_bias": by_conv1.sum((0, 2, 3)),
        "conv2_weight": convolve_gradient(run.pooled1, by_conv2),
        "conv2_bias": by_conv2.sum((0, 2, 3)),
        "dense_weight": by_scores.T @ run.pooled2.reshape(len(images), -1),
        "dense_bias": by_scores.sum(0),
    }


def accuracy(parameters: Parameters, images: np.ndarray, labels: np.ndarray) -> float:
    """Return the fraction of images whose digit has the highest score."""
    return float(np.mean(forward(parameters, images).scores.argmax(1) == labels))


def cross_entropy(scores: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the mean cross-entropy of softmax(scores), and its gradient by the scores [n, classes]."""
    shifted = scores - scores.max(1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    chosen = (np.arange(len(labels)), labels)
    gradient = np.exp(logarithms)
    gradient[chosen] -= 1
    return float(-logarithms[chosen].mean()), gradient / len(labels)


def windows(images: np.ndarray) -> np.ndarray:
    """Return the 3x3 surroundings of every pixel, [n, c, h, w, 3, 3]; zeros beyond the border."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))


def convolve(images: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """Return the convolution [n, o, h, w] of [n, c, h, w] with [o, c, 3, 3]."""
    total = np.tensordot(windows(images), weight, ((1, 4, 5), (1, 2, 3)))
    return (total if bias is None else total + bias).transpose(0, 3, 1, 2)


def convolve_gradient(images: np.ndarray, by_output: np.ndarray) -> np.ndarray:
    """Return the gradient by the weights, [o, c, 3, 3]."""
    return np.tensordot(by_output, windows(images), ((0, 2, 3), (0, 2, 3)))


def _turned(weight: np.ndarray) -> np.ndarray:
    """Return the weights [c, o, 3, 3] whose convolution takes gradients back from outputs to inputs."""
    return weight.swapaxes(0, 1)[:, :, ::-1, ::-1]


def max_pool(images: np.ndarray) -> np.ndarray:
    """Return the maximum of every 2x2 pixels, [n, c, h / 2, w / 2]."""
    return _quads(images).max((3, 5))


def max_pool_gradient(images: np.ndarray, pooled: np.ndarray, by_output: np.ndarray) -> np.ndarray:
    """Return the gradient by the input [n, c, h, w]; equal maxima share it."""
    largest = _quads(images) == pooled[:, :, :, None, :, None]
    shares = largest / largest.sum((3, 5), keepdims=True, dtype=images.dtype)
    return (shares * by_output[:, :, :, None, :, None]).reshape(images.shape)


def _quads(images: np.ndarray) -> np.ndarray:
    """Return [n, c, h, w] as [n, c, h / 2, 2, w / 2, 2]."""
    n, c, h, w = images.shape
    return images.reshape(n, c, h // 2, 2, w // 2, 2)
