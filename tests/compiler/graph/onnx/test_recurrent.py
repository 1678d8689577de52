"""LSTM, GRU and RNN as operators of each step, compared with onnxruntime; what is not expanded, and why."""

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper

from tests.compiler.graph.onnx.networks import model, node
from tests.compiler.graph.onnx.onnxruntime_results import check
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.onnx.recurrent import CELLS, MOST_STEPS
from vdla.runtime.host.onnx_runtime import PART

STEPS, BATCH, INPUTS, UNITS = 4, 2, 3, 5
OPTIONAL = ("B", "sequence_lens", "initial_h", "initial_c", "P")
OUTPUTS = ("y", "y_h", "y_c")


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def recurrent(
    op: str,
    given: str = "B",
    outputs: str = "y y_h",
    shape: tuple[int, int] = (STEPS, BATCH),
    constants: dict[str, np.ndarray] | None = None,
    **attributes,
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """Return a model of one operator, and its inputs.

    Args:
        op: the operator.
        given: its optional inputs; initial states are inputs of the model.
        outputs: its outputs; the others are left out.
        shape: steps and sequences.
        constants: replace the model's constants of the same names.
    """
    steps, batch = shape
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    rows, has_layout = len(CELLS[op].gates) * UNITS, attributes.get("layout", 0)
    state = (batch, directions, UNITS) if has_layout else (directions, batch, UNITS)
    fed = {"x": normal(*((batch, steps) if has_layout else (steps, batch)), INPUTS)}
    fed |= {name: normal(*state) for name in ("initial_h", "initial_c") if name in given.split()}
    weights = {
        "w": normal(directions, rows, INPUTS),
        "r": normal(directions, rows, UNITS),
        "B": normal(directions, 2 * rows),
        "sequence_lens": np.full(batch, steps, np.int32),
        "P": np.zeros((directions, 3 * UNITS), np.float32),
    } | (constants or {})
    fed = {name: array for name, array in fed.items() if name not in weights}
    optional = OPTIONAL[: 5 if op == "LSTM" else 3]
    inputs = ["x w r", *(name if name in given.split() else "-" for name in optional)]
    kept = {name: array for name, array in weights.items() if name in f"w r {given}".split()}
    shapes = {name: array.shape for name, array in fed.items()}
    each = node(op, " ".join(inputs), "y", hidden_size=UNITS, **attributes)
    each.output[:] = [name if name in outputs.split() else "" for name in OUTPUTS[: 3 if op == "LSTM" else 2]]
    proto = model([each], shapes, outputs.split(), kept, opset=14)
    proto.ir_version = 8
    return proto, fed


FORMS = {
    "without options": {},
    "backwards": {"direction": "reverse"},
    "in both directions": {"direction": "bidirectional"},
    "without a bias": {"given": ""},
    "from a state": {"given": "B initial_h"},
    "from states in both directions": {"given": "B initial_h", "direction": "bidirectional"},
    "from zeros": {
        "given": "B initial_h",
        "constants": {"initial_h": np.zeros((1, BATCH, UNITS), np.float32)},
    },
    "of known lengths": {"given": "B sequence_lens"},
    "of one step": {"shape": (1, BATCH)},
    "of one sequence": {"shape": (STEPS, 1), "direction": "bidirectional"},
    "with its last state only": {"outputs": "y_h"},
    "with all states only": {"outputs": "y"},
    "bounded below": {"activations": ["Relu"]},
    "by other functions": {
        "activations": ["LeakyRelu", "HardSigmoid"],
        "activation_alpha": [0.3, 0.4],
        "activation_beta": [0.6],
        "direction": "bidirectional",
    },
    "by functions of default parameters": {"activations": ["HardSigmoid"]},
}
LONGER = {  # activations of a direction, from an RNN's activations
    "RNN": lambda names: names,
    "GRU": lambda names: [each for name in names for each in ("Sigmoid", name)],
    "LSTM": lambda names: [each for name in names for each in ("Sigmoid", name, "Softsign")],
}


def attributes_for(op: str, form: str) -> dict:
    """Return the options of a form for an operator."""
    options = dict(FORMS[form])
    if "activations" in options:
        options["activations"] = LONGER[op](options["activations"])
    return options


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("op", CELLS)
def test_steps_compute_what_the_operator_does(op, form):
    check(*recurrent(op, **attributes_for(op, form)))


def test_functions_may_be_spelled_in_any_case():
    check(*recurrent("LSTM", activations=["hardsigmoid", "TANH", "softSign"]))


STATES = {
    "a cell": "B initial_c",
    "a cell and a hidden state": "B initial_h initial_c",
    "peepholes of zeros": "B P",
}


@pytest.mark.parametrize("outputs", ["y y_h y_c", "y_c", "y y_c"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("states", STATES)
def test_an_lstm_has_cells(states, direction, outputs):
    zeros = {"P": np.zeros((2 if direction == "bidirectional" else 1, 3 * UNITS), np.float32)}
    check(*recurrent("LSTM", STATES[states], outputs, constants=zeros, direction=direction))


@pytest.mark.parametrize("given", ["", "B", "initial_h", "B initial_h"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_a_reset_gate_multiplies_a_product_and_its_bias(direction, given):
    check(*recurrent("GRU", given, linear_before_reset=1, direction=direction))


@pytest.mark.parametrize("shape", [(STEPS, BATCH), (STEPS, 1), (1, BATCH)])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("op", CELLS)
def test_sequences_may_come_first(op, direction, shape):
    """onnxruntime has no layout 1: the result of layout 0 is what it must be, transposed."""
    outputs = "y y_h y_c" if op == "LSTM" else "y y_h"
    plain, fed = recurrent(op, "B initial_h", outputs, shape, direction=direction)
    batch_first, _ = recurrent(op, "B initial_h", outputs, shape, direction=direction, layout=1)
    check(plain, fed)
    expected = interpret(load(plain), fed)
    results = interpret(load(batch_first), {name: array.swapaxes(0, 1).copy() for name, array in fed.items()})
    orders = {"y": (2, 0, 1, 3), "y_h": (1, 0, 2), "y_c": (1, 0, 2)}
    for name, array in expected.items():
        np.testing.assert_allclose(results[name], array.transpose(orders[name]), rtol=1e-5, atol=1e-6)


def test_steps_are_named_after_the_node_and_its_operations():
    proto, _ = recurrent("GRU", direction="bidirectional")
    graph = load(proto)
    steps = {each.name: each.step_of for each in graph.nodes if each.step_of}
    assert steps["the_GRU.reverse.update.2"] == "the_GRU.reverse.update"
    assert steps["the_GRU.forward.update.2"] == "the_GRU.forward.update"
    assert {each.name for each in graph.nodes if not each.step_of} == {"the_GRU"}
    assert len(steps) == len([each for each in graph.nodes if each.step_of])


def test_nodes_of_one_name_share_no_operation():
    proto, fed = recurrent("RNN", outputs="y")
    second = node("RNN", "z w2 r B", "y2", hidden_size=UNITS)
    rows = node("Squeeze", "y one", "z")
    proto.graph.node.extend([rows, second])
    constants = {"w2": normal(1, UNITS, UNITS), "one": np.array([1])}
    whole = model(
        proto.graph.node,
        {"x": fed["x"].shape},
        ["y2"],
        {**constants, "w": normal(1, UNITS, INPUTS), "r": normal(1, UNITS, UNITS), "B": normal(1, 2 * UNITS)},
    )
    operations = [each.step_of for each in load(whole).nodes if each.step_of.endswith("hidden")]
    assert sorted(set(operations)) == ["the_RNN.forward.hidden", "the_RNN_1.forward.hidden"]


REFUSED = {
    "peepholes": (
        ("LSTM", "B P"),
        {"constants": {"P": normal(1, 3 * UNITS)}},
        "its peepholes P ('P') are not supported; leave them out",
    ),
    "a bound of gates": (("LSTM",), {"clip": 3.0}, "attribute clip = 3.0 is not supported; leave it out"),
    "coupled gates": (
        ("LSTM",),
        {"input_forget": 1},
        "attribute input_forget = 1 is not supported; it may be 0",
    ),
    "sequences of other lengths": (
        ("GRU", "B sequence_lens"),
        {"constants": {"sequence_lens": np.array([STEPS, 2], np.int32)}},
        "sequence_lens is [4, 2]; all must be 4",
    ),
    "many steps": (
        ("RNN",),
        {"shape": (MOST_STEPS + 1, 1)},
        "it has 513 steps; at most 512 become operators of the kit",
    ),
    "an activation of another kind": (
        ("RNN",),
        {"activations": ["Affine"], "activation_alpha": [1.0], "activation_beta": [0.0]},
        "activation Affine is not supported; Elu, HardSigmoid, LeakyRelu, Relu, Sigmoid, Softplus, Softsign, "
        "Tanh are",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_onnxruntime_runs_says_why(case):
    arguments, options, reason = REFUSED[case]
    proto, _ = recurrent(*arguments, **options)
    (part,) = (each for each in load(proto).nodes if each.op == PART)
    assert part.reason == f"onnxruntime runs it: {reason.replace(';', ',')}"


def in_quantised_file() -> ModelProto:
    """Return a model whose input is quantised, so that its recurrent operator stays in float."""
    proto, fed = recurrent("LSTM", outputs="y")
    (layer,) = proto.graph.node
    layer.input[0] = "d"
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"), layer]
    tensors = {each.name: numpy_helper.to_array(each) for each in proto.graph.initializer}
    return model(nodes, {"x": fed["x"].shape}, ["y"], {**tensors, "s": np.float32(0.1), "z": np.int8(0)})


def test_onnxruntime_runs_what_a_quantised_file_has_in_float():
    (part,) = (each for each in load(in_quantised_file()).nodes if each.op == PART)
    assert part.reason.endswith("the file is quantised already, compile its float original with --calibrate")


def test_a_quantised_file_is_unrolled_without_onnxruntime(without_onnxruntime):
    assert any(each.step_of for each in load(in_quantised_file()).nodes)


@pytest.mark.parametrize("name", ["w", "r", "B"])
def test_weights_must_be_constant(name, without_onnxruntime):
    proto, _ = recurrent("LSTM")
    (tensor,) = (each for each in proto.graph.initializer if each.name == name)
    proto.graph.input.extend(model([], {name: tensor.dims}, []).graph.input)
    proto.graph.initializer.remove(tensor)
    with pytest.raises(GraphError, match=rf"{name.upper()} \('{name}'\) is computed while the network runs"):
        load(proto)


MISFITS = {
    "W": ({"w": normal(1, 2 * UNITS, INPUTS)}, r"its W has the shape \(1, 10, 3\); \(1, 5, 3\) is expected"),
    "R": ({"r": normal(1, UNITS, 0)}, r"its R has the shape \(1, 5, 0\); it must have three dimensions"),
    "a number": ({"r": np.float32(1)}, r"its R has the shape \(\); it must have three dimensions, and units"),
    "B": ({"B": normal(1, UNITS)}, r"its B has the shape \(1, 5\); \(1, 10\) is expected"),
    "type": ({"B": np.zeros((1, 2 * UNITS))}, r"its input 3 is float64\[1, 10\]; it must be of float32"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_parameters_must_fit_each_other(name, without_onnxruntime):
    constants, message = MISFITS[name]
    with pytest.raises(GraphError, match=message):
        load(recurrent("RNN", constants=constants)[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"direction": "sideways"},
            "attribute direction = 'sideways' is not supported; it may be 'forward' or",
        ),
        (
            {"shape": (0, 1)},
            r"its sequence is float32\[0, 1, 3\]; it must have elements and three dimensions",
        ),
    ],
)
def test_other_directions_and_empty_sequences_are_refused(options, message, without_onnxruntime):
    with pytest.raises(GraphError, match=message):
        load(recurrent("RNN", **options)[0])


def test_a_function_for_each_gate_is_needed(without_onnxruntime):
    with pytest.raises(GraphError, match="it has 1 activations; it takes 2"):
        load(recurrent("GRU", activations=["Tanh"])[0])
