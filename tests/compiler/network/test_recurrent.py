"""Recurrent networks on devices: all products on the accelerator, and results equal to the interpreter's."""

import re
from functools import cache

import numpy as np
import pytest

from tests.compiler.graph.onnx.networks import model, node
from tests.compiler.network.compiled import plan_of
from tests.compiler.network.test_networks import check
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.onnx.recurrent import CELLS
from vdla.compiler.network.compile import integer_graph
from vdla.hw.spec import isa
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.plan import Plan
from vdla.sim.decoded import decode_stream
from vdla.sim.rows import dram_rows

STEPS, INPUTS, UNITS = 3, 8, 8
NETWORKS = {
    "LSTM": ("LSTM", {}),
    "LSTM in both directions": ("LSTM", {"direction": "bidirectional"}),
    "GRU": ("GRU", {}),
    "GRU with a reset gate after the product": ("GRU", {"linear_before_reset": 1}),
    "RNN backwards": ("RNN", {"direction": "reverse", "activations": ["Relu"]}),
}
RNG = np.random.default_rng(0)
SAMPLES = [{"x": RNG.normal(size=(STEPS, 1, INPUTS)).astype(np.float32)} for _ in range(2)]
DEVICES = {"functional": FunctionalDevice, "cycle": CycleDevice}


def weights(*shape: int) -> np.ndarray:
    return RNG.normal(0, 0.4, shape).astype(np.float32)


@cache
def float_graph(name: str) -> Graph:
    """Return a recurrent layer, and a dense layer of its states at all steps."""
    op, attributes = NETWORKS[name]
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    rows, states = len(CELLS[op].gates) * UNITS, directions * UNITS
    nodes = [
        node(op, "x w r b", "h last", hidden_size=UNITS, **attributes),
        node("Transpose", "h", "t", perm=[0, 2, 1, 3]),
        node("Reshape", "t all", "s"),
        node("MatMul", "s v", "y"),
    ]
    constants = {
        "w": weights(directions, rows, INPUTS),
        "r": weights(directions, rows, UNITS),
        "b": weights(directions, 2 * rows),
        "all": np.array([STEPS, states]),
        "v": weights(states, 5),
    }
    return load(model(nodes, {"x": (STEPS, 1, INPUTS)}, ["y"], constants))


@cache
def compiled(name: str, config=TINY) -> tuple[Graph, Plan]:
    graph = integer_graph(float_graph(name), SAMPLES)
    return graph, plan_of(graph, config)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_recurrent_network_is_what_its_graph_means(name, device):
    graph, plan = compiled(name)
    check(graph, plan, DEVICES[device](TINY, plan.dram_bytes))


@pytest.mark.parametrize("config", [TINY, DEFAULT], ids=["tiny", "default"])
@pytest.mark.parametrize("name", NETWORKS)
def test_all_products_run_on_the_accelerator(name, config):
    _, plan = compiled(name, config)
    assert plan.launches
    assert sum(step.macs for step in plan.host_steps) == 0
    assert "OnnxRuntime" not in [step.op for step in plan.host_steps]


@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_near_to_those_in_float(name):
    graph, _ = compiled(name)
    for sample in SAMPLES:
        expected = interpret(float_graph(name), sample)["y"]
        result = interpret(graph, sample)["y"]
        assert np.abs(result - expected).max() < 0.06 * np.abs(expected).max()


@pytest.mark.parametrize("name", NETWORKS)
def test_all_steps_but_the_first_use_the_same_tables(name):
    """Steps of an operation have one scale, so their functions are the same tables; the first has no sum."""
    graph, _ = compiled(name)
    tables: dict[str, set[bytes]] = {}
    for each in graph.nodes:
        if each.op == "Int8Lookup":
            operation = each.result.rsplit(".", 1)[0]
            tables.setdefault(operation, set()).add(graph.constants[each.inputs[1]].tobytes())
    assert all(len(table) <= 2 for table in tables.values())


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_the_steps_load_their_weights_once(name, monkeypatch):
    monkeypatch.setattr("vdla.compiler.network.build.LEAST_LASTING", 0)  # these weights are a single element
    plan = plan_of(compiled(name)[0], DEFAULT)
    (stream,) = plan.streams.values()
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), DEFAULT)
    rows = dram_rows(program, isa.Load)
    loaded = {
        tensor: int((rows.width * rows.count)[np.isin(rows.index, numbers)].sum())
        for tensor, numbers in stream.tensors.items()
        if re.search(r"_(sum|term)\b.*\.W$", tensor)  # of products
    }
    assert loaded
    assert loaded == {tensor: plan.weights[tensor].nbytes for tensor in loaded}


CHANNELS, HEIGHT, WIDTH = 5, 4, 3  # of an image whose lines are the steps of a sequence
LINES = {
    "rows, as torch writes them": (
        [("Transpose", {"perm": [0, 2, 1, 3]}), "Reshape", ("Transpose", {"perm": [1, 0, 2]})],
        HEIGHT,
    ),
    "rows": ([("Transpose", {"perm": [2, 0, 1, 3]}), "Reshape"], HEIGHT),
    "rows with channels last": ([("Transpose", {"perm": [2, 0, 3, 1]}), "Reshape"], HEIGHT),
    "columns": ([("Transpose", {"perm": [3, 0, 1, 2]}), "Reshape"], WIDTH),
    "columns behind their features": (["Reshape", ("Transpose", {"perm": [2, 0, 1]})], WIDTH),
}


def spotter(title: str) -> Graph:
    """Return a convolution and a GRU whose steps are lines of the convolution's image."""
    moves, steps = LINES[title]
    features = CHANNELS * HEIGHT * WIDTH // steps
    begins = moves[0] == "Reshape"
    reshaped = (
        [1, features, steps] if begins else [1, steps, features] if len(moves) == 3 else [steps, 1, features]
    )
    nodes, name = [node("Conv", "x k", "image")], "image"
    for number, move in enumerate(moves):
        op, attributes = move if isinstance(move, tuple) else (move, {})
        inputs = f"{name} reshaped" if op == "Reshape" else name
        name = f"moved{number}"
        nodes.append(node(op, inputs, name, **attributes))
    nodes.append(node("GRU", f"{name} w r b", "h last", hidden_size=UNITS, linear_before_reset=1))
    nodes += [node("Squeeze", "last axis", "state"), node("MatMul", "state v", "y")]
    constants = {
        "k": weights(CHANNELS, 1, 1, 1),
        "reshaped": np.array(reshaped),
        "w": weights(1, 3 * UNITS, features),
        "r": weights(1, 3 * UNITS, UNITS),
        "b": weights(1, 6 * UNITS),
        "axis": np.array([0]),
        "v": weights(UNITS, 5),
    }
    return load(model(nodes, {"x": (1, 1, HEIGHT, WIDTH)}, ["y"], constants))


@pytest.mark.parametrize("title", LINES)
def test_a_sequence_of_the_lines_of_an_image_is_one_launch(title):
    """The host does not move the lines: each product of the steps' inputs is a convolution over a line."""
    samples = [{"x": RNG.normal(size=(1, 1, HEIGHT, WIDTH)).astype(np.float32)} for _ in range(2)]
    in_float = spotter(title)
    graph = integer_graph(in_float, samples)
    plan = plan_of(graph, DEFAULT)
    assert [step.op for step in plan.host_steps] == ["QuantizeLinear", "DequantizeLinear"]
    assert len(plan.launches) == 1
    check(graph, plan, FunctionalDevice(DEFAULT, plan.dram_bytes))
    result, reference = (interpret(each, samples[0])["y"] for each in (graph, in_float))
    assert np.abs(result - reference).max() < 0.06 * np.abs(reference).max()
