"""Recurrent cells: what a step of an LSTM and of a GRU computes.

Source: ONNX, Operators.md (LSTM, GRU with linear_before_reset = 1), also for the order of the gates.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from accuracy.differentiation import Variable, sigmoid, tanh

State = tuple[Variable, ...]
"""Hidden state, and of an LSTM the cell state: float[batch, units]."""


class Cell(NamedTuple):
    """A recurrent operator of ONNX.

    Attributes:
        biases: initial bias of each gate, in the order of their weights.
        states: how many arrays a state has.
        attributes: of the ONNX operator.
        step: returns the next state from the input's term and the hidden state's term of all gates,
            float[batch, gates * units], each with its bias, and the state.
    """

    biases: tuple[float, ...]
    states: int
    attributes: Mapping[str, int]
    step: Callable[[Variable, Variable, State], State]


def _lstm(from_input: Variable, from_hidden: Variable, before: State) -> State:
    total = from_input + from_hidden
    units = total.value.shape[1] // 4
    opened, shown, kept = _gates(sigmoid(total[:, : 3 * units]), 3)
    cell = kept * before[1] + opened * tanh(total[:, 3 * units :])
    return shown * tanh(cell), cell


def _gru(from_input: Variable, from_hidden: Variable, before: State) -> State:
    units = from_input.value.shape[1] // 3
    update, reset = _gates(sigmoid(from_input[:, : 2 * units] + from_hidden[:, : 2 * units]), 2)
    candidate = tanh(from_input[:, 2 * units :] + reset * from_hidden[:, 2 * units :])
    return (candidate + update * (before[0] - candidate),)


def _gates(joined: Variable, count: int) -> list[Variable]:
    """Return the gates that lie side by side in an array."""
    units = joined.value.shape[1] // count
    return [joined[:, gate * units : (gate + 1) * units] for gate in range(count)]


CELLS = {
    "LSTM": Cell((0, 0, 1, 0), 2, {}, _lstm),  # a forget gate that is open at first
    "GRU": Cell((0, 0, 0), 1, {"linear_before_reset": 1}, _gru),
}
