"""Layers that are trained here: initial weights, the forward pass, and the ONNX operators of each.

The forward pass takes a batch; a sequence is a list with float[batch, features] for each step. The ONNX
operators take a single sample. A sequence is float32[steps, 1, features] there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from models.graph import GraphBuilder
from onnx import TensorProto

from accuracy.cells import CELLS
from accuracy.differentiation import Variable, concatenate, relu, reshape, take, transpose, windows

Weights = tuple[np.ndarray, ...]
Steps = list[Variable]
PARTS = 4  # of the weights of a direction


class Trainable(Protocol):
    """A layer of a network that can be trained."""

    def initial(self, random: np.random.Generator) -> Weights:
        """Return random weights, float32."""
        ...

    def apply(self, weights: Sequence[Variable], data: Any) -> Any:
        """Return the result for a batch."""
        ...


class Layer(Trainable, Protocol):
    """A layer that also has operators of its own in ONNX."""

    def add(self, graph: GraphBuilder, weights: Weights, data: str) -> str:
        """Add the operators for a single sample; return the name of the result."""
        ...


@dataclass(frozen=True)
class Embedding:
    """A vector for each symbol: whole numbers of symbols, int[batch, steps], to a sequence.

    In ONNX the numbers are float32[steps, 1], and become int64 before the Gather.
    """

    symbols: int
    width: int

    def initial(self, random: np.random.Generator) -> Weights:
        """Return the table, float32[symbols, width]."""
        return (normal(random, self.symbols, self.width, deviation=1),)

    def apply(self, weights: Sequence[Variable], data: np.ndarray) -> Steps:
        """Return the vectors of the symbols, a step for each column."""
        return [take(weights[0], column) for column in data.T]

    def add(self, graph: GraphBuilder, weights: Weights, data: str) -> str:
        """Add Cast and Gather."""
        numbers = graph.node("Cast", data, to=TensorProto.INT64)
        return graph.node("Gather", graph.constant(weights[0]), numbers, axis=0)


@dataclass(frozen=True)
class Conv:
    """A convolution with a square kernel, padded by kernel // 2, and ReLU: images float[batch, channels,
    height, width]."""

    channels: int
    outputs: int
    kernel: int
    stride: int

    def initial(self, random: np.random.Generator) -> Weights:
        """Return weights, float32[channels * kernel * kernel, outputs], and a bias, float32[outputs]."""
        size = self.channels * self.kernel**2
        weight = normal(random, size, self.outputs, deviation=np.sqrt(2 / size))
        return weight, np.zeros(self.outputs, np.float32)

    def apply(self, weights: Sequence[Variable], data: Variable) -> Variable:
        """Return the convolved images."""
        weight, bias = weights
        return relu(transpose(windows(data, self.kernel, self.stride) @ weight + bias, (0, 3, 1, 2)))

    def add(self, graph: GraphBuilder, weights: Weights, data: str) -> str:
        """Add Conv and Relu."""
        weight, bias = weights
        kernels = weight.T.reshape(self.outputs, self.channels, self.kernel, self.kernel)
        convolved = graph.node(
            "Conv",
            data,
            *map(graph.constant, (kernels, bias)),
            kernel_shape=[self.kernel] * 2,
            strides=[self.stride] * 2,
            pads=[self.kernel // 2] * 4,
        )
        return graph.relu(convolved)


class _Unweighted:
    """A layer without weights."""

    def initial(self, random: np.random.Generator) -> Weights:
        """Return no weights."""
        return ()


class Lines(_Unweighted):
    """The rows of images, float[batch, channels, height, width], as the steps of a sequence."""

    def apply(self, weights: Sequence[Variable], data: Variable) -> Steps:
        """Return a step of channels * width features for each row."""
        batch, _, height, _ = data.value.shape
        return [reshape(data[:, :, row], batch, -1) for row in range(height)]

    def add(self, graph: GraphBuilder, weights: Weights, data: str) -> str:
        """Add what torch exports for such a sequence: Transpose, Reshape, Transpose."""
        rows = graph.node("Transpose", data, perm=[0, 2, 1, 3])
        return graph.node("Transpose", graph.node("Reshape", rows, graph.integers(0, 0, -1)), perm=[1, 0, 2])


@dataclass(frozen=True)
class Rows(_Unweighted):
    """The steps of a sequence as the rows of a matrix, float[steps * batch, features]."""

    features: int

    def apply(self, weights: Sequence[Variable], data: Steps) -> Variable:
        """Return the steps, one below the other."""
        return concatenate(data, 0)

    def add(self, graph: GraphBuilder, weights: Weights, data: str) -> str:
        """Add Reshape."""
        return graph.node("Reshape", data, graph.integers(-1, self.features))


@dataclass(frozen=True)
class Dense:
    """A dense layer: float[rows, inputs] to float[rows, outputs]."""

    inputs: int
    outputs: int

    def initial(self, random: np.random.Generator) -> Weights:
        """Return the weights, float32[inputs, outputs], and the bias, float32[outputs]."""
        weight = normal(random, self.inputs, self.outputs, deviation=self.inputs**-0.5)
        return weight, np.zeros(self.outputs, np.float32)

    def apply(self, weights: Sequence[Variable], data: Variable) -> Variable:
        """Return the product with the weights, and the bias."""
        return data @ weights[0] + weights[1]

    def add(self, graph: GraphBuilder, weights: Weights, data: str) -> str:
        """Add Gemm."""
        return graph.node("Gemm", data, *map(graph.constant, weights))


@dataclass(frozen=True)
class Recurrent:
    """A layer of recurrent cells: a sequence to the states of its steps.

    Attributes:
        operator: LSTM or GRU.
        inputs: features of a step.
        units: of a state.
        directions: 1, or 2 for both.
        last: whether the result is the last state of each direction, float[batch, directions * units], in
            place of a sequence of states.
    """

    operator: str
    inputs: int
    units: int
    directions: int = 1
    last: bool = False

    def initial(self, random: np.random.Generator) -> Weights:
        """Return for each direction the weights of inputs, float32[inputs, gates * units], and of the hidden
        state, float32[units, gates * units], and their biases, float32[gates * units]."""
        biases = np.array(CELLS[self.operator].biases, np.float32).repeat(self.units)
        parts: list[np.ndarray] = []
        for _ in range(self.directions):
            parts += [
                normal(random, size, biases.size, deviation=(self.inputs + self.units) ** -0.5)
                for size in (self.inputs, self.units)
            ]
            parts += [biases, np.zeros_like(biases)]
        return tuple(parts)

    def apply(self, weights: Sequence[Variable], data: Steps) -> Steps | Variable:
        """Return the states; states of both directions are side by side."""
        forward = self._states(data, *weights[:PARTS])
        if self.directions == 1:
            return forward[-1] if self.last else forward
        backward = self._states(data[::-1], *weights[PARTS:])[::-1]
        if self.last:
            return concatenate((forward[-1], backward[0]), 1)
        return [concatenate(pair, 1) for pair in zip(forward, backward, strict=True)]

    def _states(
        self,
        data: Steps,
        by_input: Variable,
        by_hidden: Variable,
        input_bias: Variable,
        hidden_bias: Variable,
    ) -> Steps:
        """Return the hidden states of all steps, in the order of the steps."""
        cell = CELLS[self.operator]
        zeros = np.zeros((len(data[0].value), self.units), by_hidden.value.dtype)
        state = (Variable(zeros),) * cell.states
        states = []
        for step in data:
            state = cell.step(step @ by_input + input_bias, state[0] @ by_hidden + hidden_bias, state)
            states.append(state[0])
        return states

    def add(self, graph: GraphBuilder, weights: Weights, data: str) -> str:
        """Add the recurrent operator, and what puts states of both directions side by side."""
        directions = [weights[:PARTS], weights[PARTS:]][: self.directions]
        operands = (
            np.stack([by_input.T for by_input, *_ in directions]),
            np.stack([by_hidden.T for _, by_hidden, *_ in directions]),
            np.stack([np.concatenate(biases) for _, _, *biases in directions]),
        )
        states, last = graph.nodes(
            self.operator,
            2,
            data,
            *map(graph.constant, operands),
            hidden_size=self.units,
            direction="bidirectional" if self.directions == 2 else "forward",
            **CELLS[self.operator].attributes,
        )
        if self.last:
            return _side_by_side(graph, last, self.directions)
        by_step = graph.node("Transpose", states, perm=[0, 2, 1, 3])
        return graph.node("Reshape", by_step, graph.integers(0, 0, -1))


def _side_by_side(graph: GraphBuilder, last: str, directions: int) -> str:
    """Add the last states of the directions, side by side: float32[batch, directions * units]."""
    states = [
        graph.node("Gather", last, graph.constant(np.array(direction, np.int64)), axis=0)
        for direction in range(directions)
    ]
    return graph.node("Concat", *states, axis=1) if directions > 1 else states[0]


def normal(random: np.random.Generator, *shape: int, deviation: float) -> np.ndarray:
    """Return normally distributed weights, float32[shape]."""
    return (random.standard_normal(shape) * deviation).astype(np.float32)
