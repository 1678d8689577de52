"""Expansion of ONNX's recurrent operators, LSTM, GRU and RNN, into the operators of each step of a sequence.

A product of the whole sequence with the weights `W` gives the input's term of a gate for all steps. Each
step adds a product of the hidden state with the weights `R` to its rows of this term. A gate has separate
products, so it has a separate scale when it is quantised, and no gate is cut from a wider matrix.

Nodes of a step are named after the node, the direction, the operation and the step, as in
`lstm.reverse.forget.3`. Each has the name of its operation, here `lstm.reverse.forget`, in `Node.step_of`.
The quantiser gives all steps of an operation the same scale.

Source: ONNX, Operators.md (LSTM, GRU, RNN). The order in which activations take `activation_alpha` and
`activation_beta`: onnxruntime, `core/providers/cpu/rnn/rnn_helpers.cc`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vdla.compiler.graph.onnx.call import ForeignNode, ForeignOperator, RefusalError
from vdla.compiler.graph.onnx.contributed import ACTIVATIONS

MOST_STEPS = 512  # every step becomes operators, and each of them takes time to compile
PARAMETERS = ("alpha", "beta")
KNOWN = {op: names for op, names in ACTIVATIONS.items() if set(names) <= {*PARAMETERS}}
DIRECTIONS = {"forward": ("forward",), "reverse": ("reverse",), "bidirectional": ("forward", "reverse")}
BIAS, LENGTHS, HIDDEN, CELL, PEEPHOLES = range(3, 8)  # places of inputs


class Activation(NamedTuple):
    """An activation: an operator of ONNX, and its attributes."""

    op: str
    attributes: Mapping[str, float]


class Extents(NamedTuple):
    """Extents of a recurrent node: steps of the sequence, sequences in the batch, units of a state."""

    steps: int
    batch: int
    units: int


class State(NamedTuple):
    """Names of the values between steps, float32[batch, units]; "" for zeros."""

    hidden: str
    cell: str = ""


@dataclass(frozen=True, slots=True)
class Direction:
    """A direction of a recurrent node.

    Attributes:
        node: the node, to which steps are added.
        name: the first part of the names of operations, which no other node has.
        reverse: whether the last step of the sequence comes first.
        extents: of the node.
        terms: names of the input's terms of all steps, float32[steps * batch, units], by gate.
        weights: names of the transposed weights of the hidden state, float32[units, units], by gate.
        reset_bias: float32[units], the bias that the reset gate of a GRU multiplies.
        activations: in the order of the attribute `activations`.
    """

    node: ForeignNode
    name: str
    reverse: bool
    extents: Extents
    terms: Mapping[str, str]
    weights: Mapping[str, str]
    reset_bias: np.ndarray
    activations: Sequence[Activation]

    @property
    def steps(self) -> range:
        """The steps in the order of computation."""
        steps = range(self.extents.steps)
        return steps[::-1] if self.reverse else steps

    def add(
        self, op: str, step: int, role: str, *operands: str | float | np.ndarray, **attributes: Any
    ) -> str:
        """Add an operator of a step; return the name of its result."""
        operation = f"{self.name}.{role}"
        out = self.node.taken.free(f"{operation}.{step}")
        return self.node.add(op, *operands, out=out, step_of=operation, **attributes)

    def term(self, gate: str, step: int) -> str:
        """Add the rows of a step in the input's term of a gate."""
        term, batch = self.terms[gate], self.extents.batch
        if self.extents.steps == 1:
            return term
        out = self.node.taken.free(f"{term}.{step}")
        return self.node.sliced(term, 0, step * batch, (step + 1) * batch, out)

    def gate(self, gate: str, step: int, hidden: str, kind: Activation) -> str:
        """Add a gate: the activation of the input's term and of a product of `hidden`, if that is not ""."""
        total = self.term(gate, step)
        if hidden:
            product = self.add("MatMul", step, f"{gate}_product", hidden, self.weights[gate])
            total = self.add("Add", step, f"{gate}_sum", total, product)
        return self.add(kind.op, step, gate, total, **kind.attributes)


# Steps


def _lstm(at: Direction, step: int, before: State) -> State:
    """Add a step of an LSTM; return the next state."""
    f, g, h = at.activations
    candidate = at.gate("candidate", step, before.hidden, g)
    cell = at.add("Mul", step, "added", at.gate("input", step, before.hidden, f), candidate)
    if before.cell:
        forget = at.gate("forget", step, before.hidden, f)
        cell = at.add("Add", step, "cell", cell, at.add("Mul", step, "kept", forget, before.cell))
    shown = at.add(h.op, step, "shown", cell, **h.attributes)
    return State(at.add("Mul", step, "hidden", at.gate("output", step, before.hidden, f), shown), cell)


def _gru(at: Direction, step: int, before: State) -> State:
    """Add a step of a GRU; return the next state: `(1 - update) * candidate + update * hidden`."""
    f, g = at.activations
    update = at.gate("update", step, before.hidden, f)
    if at.node.integer("linear_before_reset", 0):
        candidate = _linear_candidate(at, step, before.hidden)
    else:
        reset = before.hidden and at.gate("reset", step, before.hidden, f)
        shown = reset and at.add("Mul", step, "shown", reset, before.hidden)
        candidate = at.gate("candidate", step, shown, g)
    rest = at.add("Sub", step, "rest", 1.0, update)
    hidden = at.add("Mul", step, "added", rest, candidate)
    if before.hidden:
        hidden = at.add("Add", step, "hidden", hidden, at.add("Mul", step, "kept", update, before.hidden))
    return State(hidden)


def _linear_candidate(at: Direction, step: int, hidden: str) -> str:
    """Add the candidate of a GRU whose reset gate multiplies the product of the hidden state and its bias.

    Without a hidden state, the gate multiplies the bias alone. Factors of the columns of a matrix have no
    integer form, so this is a product with a diagonal matrix.
    """
    f, g = at.activations
    total, scaled = at.term("candidate", step), ""
    if hidden:
        product = at.add("Gemm", step, "product", hidden, at.weights["candidate"], at.reset_bias)
        scaled = at.add("Mul", step, "scaled", at.gate("reset", step, hidden, f), product)
    elif at.reset_bias.any():
        scaled = at.add("MatMul", step, "scaled", at.gate("reset", step, "", f), np.diag(at.reset_bias))
    total = at.add("Add", step, "candidate_sum", total, scaled) if scaled else total
    return at.add(g.op, step, "candidate", total, **g.attributes)


def _rnn(at: Direction, step: int, before: State) -> State:
    """Add a step of an RNN; return the next state."""
    return State(at.gate("hidden", step, before.hidden, at.activations[0]))


class Cell(NamedTuple):
    """A recurrent operator.

    Attributes:
        gates: in the order of their weights.
        activations: the default activations of a direction.
        step: adds a step.
    """

    gates: tuple[str, ...]
    activations: tuple[str, ...]
    step: Callable[[Direction, int, State], State]


CELLS = {
    "GRU": Cell(("update", "reset", "candidate"), ("Sigmoid", "Tanh"), _gru),
    "LSTM": Cell(("input", "output", "forget", "candidate"), ("Sigmoid", "Tanh", "Tanh"), _lstm),
    "RNN": Cell(("hidden",), ("Tanh",), _rnn),
}


# Parameters


def _check(node: ForeignNode) -> None:
    """Refuse options of a node that have no expansion."""
    node.require("input_forget", 0)
    node.require("layout", 0, 1)
    node.require("direction", *DIRECTIONS)
    if "clip" in node.attributes:
        raise RefusalError(f"attribute clip = {node.attributes['clip']!r} is not supported; leave it out")
    if node.input(PEEPHOLES) and node.known(PEEPHOLES, "P").any():
        raise RefusalError(f"its peepholes P ({node.input(PEEPHOLES)!r}) are not supported; leave them out")
    if len(node.shape) != 3 or 0 in node.shape:
        raise RefusalError(
            f"its sequence is {node.input_type(0)}; it must have elements and three dimensions"
        )
    for place in (0, 1, 2, BIAS, HIDDEN, CELL):
        if node.input(place) and node.input_type(place).dtype != "float32":
            raise RefusalError(f"its input {place} is {node.input_type(place)}; it must be of float32")
    if not any(node.proto.output):
        raise RefusalError("it has no outputs")


def _extents(node: ForeignNode, weights: np.ndarray) -> Extents:
    """Return the extents of a node.

    Raises:
        RefusalError: the sequence is too long, or sequences of the batch have other lengths.
    """
    steps, batch = node.shape[:2] if node.integer("layout", 0) == 0 else node.shape[1::-1]
    if steps > MOST_STEPS:
        raise RefusalError(f"it has {steps} steps; at most {MOST_STEPS} become operators of the kit")
    lengths = node.known(LENGTHS, "sequence_lens") if node.input(LENGTHS) else np.array(steps)
    if (lengths != steps).any():
        raise RefusalError(f"sequence_lens is {lengths.ravel().tolist()}; all must be {steps}")
    return Extents(steps, batch, weights.shape[-1])


def _activations(node: ForeignNode, defaults: Sequence[str], directions: int) -> Iterator[list[Activation]]:
    """Yield the activations of each direction; parameters that are left out have ONNX's defaults.

    Raises:
        RefusalError: an activation is not supported, or their number is wrong.
    """
    names = node.attribute("activations", np.ndarray, np.array([*defaults] * directions)).tolist()
    if len(names) != len(defaults) * directions:
        raise RefusalError(f"it has {len(names)} activations; it takes {len(defaults) * directions}")
    given = {name: iter(node.attribute(f"activation_{name}", tuple, ())) for name in PARAMETERS}
    spelled = {op.lower(): op for op in KNOWN}
    kinds = []
    for name in names:
        op = spelled.get(name.lower())
        if op is None:
            raise RefusalError(f"activation {name} is not supported; {', '.join(sorted(KNOWN))} are")
        values = ((parameter, next(given[parameter], None)) for parameter in KNOWN[op])
        kinds.append(Activation(op, {name: value for name, value in values if value is not None}))
    count = len(defaults)
    yield from (kinds[begin : begin + count] for begin in range(0, len(kinds), count))


def _parameters(node: ForeignNode, gates: int, directions: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `W`, `R` and both biases by gate.

    Returns:
        float32[directions, gates, units, inputs], float32[directions, gates, units, units] and
        float32[directions, 2, gates, units].

    Raises:
        RefusalError: they are not constant, or do not fit each other.
    """
    w, r = node.known(1, "W"), node.known(2, "R")
    units = r.shape[-1] if r.ndim else 0
    if not units:
        raise RefusalError(f"its R has the shape {r.shape}; it must have three dimensions, and units")
    rows = gates * units
    bias = node.known(BIAS, "B") if node.input(BIAS) else np.zeros((directions, 2 * rows), np.float32)
    expected = ((directions, rows, node.shape[-1]), (directions, rows, units), (directions, 2 * rows))
    for name, array, shape in zip("WRB", (w, r, bias), expected, strict=True):
        if array.shape != shape:
            raise RefusalError(f"its {name} has the shape {array.shape}; {shape} is expected")
    apart = (directions, gates, units)
    return w.reshape(*apart, -1), r.reshape(*apart, -1), bias.reshape(directions, 2, gates, units)


def _state(node: ForeignNode, place: int, direction: int, directions: int, extents: Extents) -> str:
    """Add an initial state of a direction; return its name, "" if it is left out or zero."""
    name = node.input(place)
    if not name or (node.values[place] is not None and not node.known(place, "initial state").any()):
        return ""
    if directions > 1:
        name = node.sliced(name, node.integer("layout", 0), direction, direction + 1)
    return node.shaped(name, extents.batch, extents.units)


# Expansion


def _rows(node: ForeignNode, extents: Extents) -> str:
    """Add the sequence as a matrix with the rows of each step together: float32[steps * batch, inputs]."""
    name = node.input(0)
    if node.integer("layout", 0) and extents.batch > 1:
        name = node.add("Transpose", name, perm=(1, 0, 2))
    return node.shaped(name, extents.steps * extents.batch, node.shape[-1])


def _directions(node: ForeignNode, cell: Cell) -> Iterator[Direction]:
    """Add the input's terms of each direction, and yield it.

    Raises:
        RefusalError: a parameter is not supported.
    """
    names, stem = DIRECTIONS[node.attribute("direction", str, "forward")], node.unique_name
    w, r, bias = _parameters(node, len(cell.gates), len(names))
    extents = _extents(node, r)
    kinds = list(_activations(node, cell.activations, len(names)))
    x = _rows(node, extents)
    for place, name in enumerate(names):
        from_input, from_hidden = bias[place]
        added = from_input + from_hidden
        if node.integer("linear_before_reset", 0):
            added[-1] = from_input[-1]
        terms = {}
        for gate, matrix, row in zip(cell.gates, w[place], added, strict=True):
            term = f"{stem}.{name}.{gate}_term"
            out = node.taken.free(term)
            terms[gate] = node.add("Gemm", x, matrix.copy(), row.copy(), out=out, step_of=term, transB=1)
        matrices = zip(cell.gates, r[place], strict=True)
        weights = {gate: node.constant(matrix.T.copy()) for gate, matrix in matrices}
        last = from_hidden[-1].copy()
        yield Direction(
            node, f"{stem}.{name}", name == "reverse", extents, terms, weights, last, kinds[place]
        )


def _joined(node: ForeignNode, parts: Sequence[str], axis: int) -> str:
    """Add the concatenation of values, if there are several."""
    return node.add("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


def _add_last(node: ForeignNode, states: Sequence[str], out: str, extents: Extents) -> None:
    """Add the output of the last states of all directions, named `out`; nothing if that is ""."""
    if out:
        layout, count = node.integer("layout", 0), len(states)
        shape = (extents.batch, count) if layout else (count, extents.batch)
        node.shaped(_joined(node, states, layout), *shape, extents.units, out=out)


def _add_all(node: ForeignNode, hidden: Sequence[Sequence[str]], extents: Extents) -> None:
    """Add the first output from the hidden states of all steps, in the order of time, by direction."""
    rows = _joined(node, [_joined(node, steps, 0) for steps in hidden], 1)
    whole = node.shaped(rows, extents.steps, extents.batch, len(hidden), extents.units)
    node.add("Transpose", whole, perm=(1, 0, 2, 3) if node.integer("layout", 0) else (0, 2, 1, 3))


def _expand(node: ForeignNode) -> None:
    """Expand a recurrent node."""
    _check(node)
    cell = CELLS[node.op]
    hidden, last = [], []
    directions = list(_directions(node, cell))
    for place, at in enumerate(directions):
        state = State(*(_state(node, each, place, len(directions), at.extents) for each in (HIDDEN, CELL)))
        results = {}
        for step in at.steps:
            state = cell.step(at, step, state)
            results[step] = state.hidden
        hidden.append([results[step] for step in sorted(results)])
        last.append(state)
    extents = directions[0].extents
    _add_last(node, [state.hidden for state in last], node.output(1), extents)
    _add_last(node, [state.cell for state in last], node.output(2), extents)
    if node.output(0):
        _add_all(node, hidden, extents)


COMMON = {
    "activation_alpha": "FLOATS",
    "activation_beta": "FLOATS",
    "activations": "STRINGS",
    "clip": "FLOAT",
    "direction": "STRING",
    "hidden_size": "INT",
    "layout": "INT",
}
RECURRENT: Mapping[str, ForeignOperator] = {
    "GRU": ForeignOperator((3, 6), {**COMMON, "linear_before_reset": "INT"}, _expand, "Gemm"),
    "LSTM": ForeignOperator((3, 8), {**COMMON, "input_forget": "INT"}, _expand, "Gemm"),
    "RNN": ForeignOperator((3, 6), COMMON, _expand, "Gemm"),
}
"""The recurrent operators of ONNX."""
