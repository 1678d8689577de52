"""Reverse-mode differentiation on NumPy arrays.

A variable keeps the variables that it was computed from. Each of them comes with a pullback: a function that
turns the gradient of a loss by the result into the gradient of the loss by the source.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Pullback = Callable[[np.ndarray], np.ndarray]
LEAST_EXPONENT = -80.0  # exp(80) is finite in float32


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """An array in a computation.

    Attributes:
        value: the array, float32 or float64.
        sources: the variables that it was computed from, each with its pullback; none for a parameter.
    """

    value: np.ndarray
    sources: tuple[tuple["Variable", Pullback], ...] = ()

    def __add__(self, other: "Variable") -> "Variable":
        """Return the sum; `other` has the same shape or lacks leading dimensions."""
        leading = tuple(range(self.value.ndim - other.value.ndim))
        return Variable(
            self.value + other.value,
            ((self, lambda gradient: gradient), (other, lambda gradient: gradient.sum(leading))),
        )

    def __sub__(self, other: "Variable") -> "Variable":
        """Return the difference of two arrays of the same shape."""
        return Variable(
            self.value - other.value, ((self, lambda gradient: gradient), (other, lambda gradient: -gradient))
        )

    def __mul__(self, other: "Variable") -> "Variable":
        """Return the product of the elements of two arrays of the same shape."""
        return Variable(
            self.value * other.value,
            (
                (self, lambda gradient: gradient * other.value),
                (other, lambda gradient: gradient * self.value),
            ),
        )

    def __matmul__(self, other: "Variable") -> "Variable":
        """Return the product of float[..., k] and a matrix float[k, n]."""

        def by_matrix(gradient: np.ndarray) -> np.ndarray:
            rows, outputs = (each.reshape(-1, each.shape[-1]) for each in (self.value, gradient))
            return np.asarray(rows.T @ outputs)

        return Variable(
            self.value @ other.value, ((self, lambda gradient: gradient @ other.value.T), (other, by_matrix))
        )

    def __getitem__(self, index: Any) -> "Variable":
        """Return a part; the index consists of slices and numbers."""

        def padded(gradient: np.ndarray) -> np.ndarray:
            whole = np.zeros_like(self.value)
            whole[index] = gradient
            return whole

        return Variable(self.value[index], ((self, padded),))


def sigmoid(data: Variable) -> Variable:
    """Return 1 / (1 + exp(-data)), computed without overflow."""
    value = 0.5 * np.tanh(0.5 * data.value) + 0.5
    return Variable(value, ((data, lambda gradient: gradient * value * (1 - value)),))


def tanh(data: Variable) -> Variable:
    """Return the hyperbolic tangent."""
    value = np.tanh(data.value)
    return Variable(value, ((data, lambda gradient: gradient * (1 - value * value)),))


def relu(data: Variable) -> Variable:
    """Return the positive part."""
    return Variable(np.maximum(data.value, 0), ((data, lambda gradient: gradient * (data.value > 0)),))


def silu(data: Variable) -> Variable:
    """Return data / (1 + exp(-data)), the activation of SwiGLU.

    Source: Shazeer, GLU variants improve transformer, arXiv:2002.05202.
    """
    gate = 1 / (1 + np.exp(-np.maximum(data.value, LEAST_EXPONENT)))
    value = data.value * gate
    return Variable(value, ((data, lambda gradient: gradient * (gate + value * (1 - gate))),))


def softmax(data: Variable, factor: float, mask: np.ndarray) -> Variable:
    """Return the softmax of factor * data + mask along the last dimension.

    Args:
        data: float[..., rows, columns].
        factor: of all elements.
        mask: float[rows, columns].
    """
    scores = data.value * factor + mask
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    value = powers / powers.sum(-1, keepdims=True)

    def pullback(gradient: np.ndarray) -> np.ndarray:
        weighted = gradient * value
        return np.asarray((weighted - value * weighted.sum(-1, keepdims=True)) * factor)

    return Variable(value, ((data, pullback),))


def products(left: Variable, right: Variable) -> Variable:
    """Return the products of matrices float[..., m, k] and float[..., k, n]; leading dimensions are equal."""
    return Variable(
        left.value @ right.value,
        (
            (left, lambda gradient: gradient @ right.value.swapaxes(-1, -2)),
            (right, lambda gradient: left.value.swapaxes(-1, -2) @ gradient),
        ),
    )


def normalised(data: Variable, scale: Variable, epsilon: float) -> Variable:
    """Return RMSNorm: rows over the root of their mean square, times a scale.

    Args:
        data: float[rows, width].
        scale: float[width].
        epsilon: added to the mean square.

    Source: Zhang and Sennrich, Root mean square layer normalization, NeurIPS 2019, equation 4.
    """
    factors = 1 / np.sqrt(np.square(data.value).mean(-1, keepdims=True) + epsilon)
    units = data.value * factors

    def by_data(gradient: np.ndarray) -> np.ndarray:
        scaled = gradient * scale.value
        return np.asarray(factors * (scaled - units * (scaled * units).mean(-1, keepdims=True)))

    return Variable(
        units * scale.value, ((data, by_data), (scale, lambda gradient: (gradient * units).sum(0)))
    )


def rotated(data: Variable, cosines: np.ndarray, sines: np.ndarray) -> Variable:
    """Return rotary position embeddings: element i and element i + size / 2 are turned by an angle.

    Args:
        data: float[..., positions, size].
        cosines, sines: of the angles, float[positions, size]; both halves are the same.

    Source: Su et al., RoFormer: Enhanced transformer with rotary position embedding, arXiv:2104.09864,
    section 3.4.2. Llama pairs elements of the two halves, not neighbours.
    """
    value = data.value * cosines + _turned(data.value) * sines
    return Variable(value, ((data, lambda gradient: gradient * cosines - _turned(gradient * sines)),))


def _turned(data: np.ndarray) -> np.ndarray:
    """Return the last dimension turned by a right angle: the negative upper half, then the lower half."""
    half = data.shape[-1] // 2
    return np.concatenate((-data[..., half:], data[..., :half]), -1)


def transpose(data: Variable, order: Sequence[int]) -> Variable:
    """Return the array with its dimensions in another order."""
    back = np.argsort(order)
    return Variable(data.value.transpose(order), ((data, lambda gradient: gradient.transpose(back)),))


def reshape(data: Variable, *shape: int) -> Variable:
    """Return the array in another shape."""
    return Variable(data.value.reshape(shape), ((data, lambda gradient: gradient.reshape(data.value.shape)),))


def concatenate(parts: Sequence[Variable], axis: int) -> Variable:
    """Return the arrays joined along an axis."""
    ends = np.cumsum([part.value.shape[axis] for part in parts])

    def pullback(number: int) -> Pullback:
        begin, end = ends[number] - parts[number].value.shape[axis], ends[number]
        return lambda gradient: gradient.take(range(begin, end), axis)

    sources = tuple((part, pullback(number)) for number, part in enumerate(parts))
    return Variable(np.concatenate([part.value for part in parts], axis), sources)


def take(table: Variable, rows: np.ndarray) -> Variable:
    """Return rows of a table float[rows, width]; a row may be taken several times."""

    def scattered(gradient: np.ndarray) -> np.ndarray:
        whole = np.zeros_like(table.value)
        np.add.at(whole, rows, gradient)
        return whole

    return Variable(table.value[rows], ((table, scattered),))


def windows(image: Variable, kernel: int, stride: int) -> Variable:
    """Return the windows of a convolution with a square kernel, padded with kernel // 2 zeros on each side.

    Args:
        image: float[batch, channels, height, width].

    Returns:
        float[batch, rows, columns, channels * kernel * kernel].
    """
    padding = kernel // 2
    border = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    padded = np.pad(image.value, border)
    views = sliding_window_view(padded, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]
    batch, channels, rows, columns = views.shape[:4]
    inside = (slice(None), slice(None), *(slice(padding, size - padding) for size in padded.shape[2:]))

    def scattered(gradient: np.ndarray) -> np.ndarray:
        parts = gradient.reshape(batch, rows, columns, channels, kernel, kernel).transpose(4, 5, 0, 3, 1, 2)
        whole = np.zeros_like(padded)
        for y, x in np.ndindex(kernel, kernel):
            whole[:, :, y : y + stride * rows : stride, x : x + stride * columns : stride] += parts[y, x]
        return whole[inside]

    value = views.transpose(0, 2, 3, 1, 4, 5).reshape(batch, rows, columns, -1)
    return Variable(value, ((image, scattered),))


def cross_entropy(scores: Variable, labels: np.ndarray) -> Variable:
    """Return the mean cross-entropy, float[], of the softmax of scores float[rows, classes] with the right
    classes, int[rows]."""
    rows = np.arange(len(labels))
    shifted = scores.value - scores.value.max(1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))

    def pullback(gradient: np.ndarray) -> np.ndarray:
        excess = np.exp(logarithms)
        excess[rows, labels] -= 1
        return np.asarray(gradient * excess / len(labels))

    return Variable(-logarithms[rows, labels].mean(), ((scores, pullback),))


def gradients(loss: Variable, parameters: Sequence[Variable]) -> list[np.ndarray]:
    """Return the gradients of a loss, float[], by the parameters that it depends on."""
    totals = {loss: np.ones_like(loss.value)}
    for variable in reversed(_in_order(loss)):
        for source, pullback in variable.sources:
            part = pullback(totals[variable])
            totals[source] = totals[source] + part if source in totals else part
    return [totals[parameter] for parameter in parameters]


def _in_order(result: Variable) -> list[Variable]:
    """Return the variables of a computation; each comes after its sources."""
    order: list[Variable] = []
    visited: set[Variable] = set()
    stack = [(result, False)]
    while stack:
        variable, complete = stack.pop()
        if complete:
            order.append(variable)
        elif variable not in visited:
            visited.add(variable)
            stack.append((variable, True))
            stack.extend((source, False) for source, _ in variable.sources)
    return order
