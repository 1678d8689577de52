"""QONNX operators compute exactly their definitions."""

import numpy as np
import pytest
from onnx import ModelProto

from tests.compiler.graph.onnx.networks import model, node
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.onnx.qonnx import DOMAINS
from vdla.compiler.network.compile import integer_graph

RNG = np.random.default_rng(0)
GENERAL = DOMAINS[0]
STEPS = np.arange(-60, 60, dtype=np.float32).reshape(4, 5, 6) / 4  # many of them ties
X = np.concatenate([STEPS, RNG.normal(scale=3, size=(4, 5, 6)).astype(np.float32)], -1)
ROUND = {
    "CEIL": np.ceil,
    "DOWN": np.trunc,
    "FLOOR": np.floor,
    "HALF_DOWN": lambda x: np.sign(x) * np.ceil(np.abs(x) - 0.5),
    "HALF_UP": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "ROUND": np.rint,
    "UP": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "half_even": np.rint,
}


def quant(x, scale, zero, bits, signed, narrow, mode):
    """The definition: docs/qonnx-custom-ops/quant_op.md."""
    wide = x / scale + zero
    if bits == 1 and signed:
        whole = np.where(wide >= 0, 1, -1)
    else:
        low = -(2 ** (bits - 1)) + narrow if signed else 0
        high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1 - narrow
        whole = ROUND[mode](np.clip(wide, low, high))
    return ((whole - zero) * scale).astype(np.float32)


def one_node(op, inputs, constants, domain=GENERAL, fed=X, **attributes) -> ModelProto:
    proto = model([node(op, inputs, "y", domain=domain, **attributes)], {"x": fed.shape}, ["y"], constants)
    proto.opset_import.add(domain=domain, version=1)
    return proto


def result_of(proto: ModelProto, x=X) -> np.ndarray:
    return interpret(load(proto), {"x": x})["y"]


CASES = [
    (bits, signed, narrow, mode, zero)
    for bits, modes in ((1, ["ROUND"]), (3, ROUND), (8, ["ROUND", "FLOOR"]), (9, ["ROUND", "UP"]))
    for signed, narrow in ((0, 0), (0, 1), (1, 0), (1, 1))
    for mode in modes
    for zero in ((0, 2, 1.5) if mode == "ROUND" else (0,))
]


@pytest.mark.parametrize("along", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_quant_is_exactly_its_definition(constant, along):
    """For each number of bits, range, rounding mode and zero point."""
    scale = np.array([0.25, 0.5, 1, 2, 0.5], np.float32).reshape(1, 5, 1) if along else np.float32(0.5)
    for bits, signed, narrow, mode, zero in CASES:
        constants = {"s": scale, "z": np.float32(zero), "b": np.float32(bits)}
        attributes = {"signed": signed, "narrow": narrow, "rounding_mode": mode}
        expected = quant(X, scale, np.float32(zero), bits, signed, narrow, mode)
        if constant:
            weights = one_node("Quant", "w s z b", {**constants, "w": X}, **attributes)
            weights.graph.node[0].output[0] = "q"
            weights.graph.node.append(node("Add", "q x", "y"))
            result = result_of(weights, np.zeros_like(X))
        else:
            result = result_of(one_node("Quant", "x s z b", constants, **attributes))
        np.testing.assert_array_equal(result, expected, f"{bits} {signed} {narrow} {mode} {zero}")


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("op", ["Quant", "IntQuant"])
def test_quant_has_several_domains_and_a_new_name(op, domain):
    constants = {"s": np.float32(0.5), "z": np.float32(0), "b": np.float32(4)}
    result = result_of(one_node(op, "x s z b", constants, domain, signed=1, narrow=0))
    np.testing.assert_array_equal(result, quant(X, np.float32(0.5), 0, 4, 1, 0, "ROUND"))


@pytest.mark.parametrize("scale", [np.float32(0.5), np.full((1, 5, 1), 0.25, np.float32)])
def test_a_bipolar_quant_takes_the_sign(scale):
    expected = np.where(X >= 0, 1, -1).astype(np.float32) * scale
    np.testing.assert_array_equal(result_of(one_node("BipolarQuant", "x s", {"s": scale})), expected)
    weights = one_node("BipolarQuant", "w s", {"s": scale, "w": X})
    weights.graph.node[0].output[0] = "q"
    weights.graph.node.append(node("Add", "q x", "y"))
    np.testing.assert_array_equal(result_of(weights, np.zeros_like(X)), expected)


@pytest.mark.parametrize("mode", ["FLOOR", "ROUND"])
def test_a_trunc_drops_the_lowest_bits(mode):
    constants = {"s": np.float32(0.25), "z": np.float32(0), "i": np.float32(8), "o": np.float32(5)}
    expected = ROUND[mode](np.rint(X / 0.25) / 8).astype(np.float32) * np.float32(0.25)
    result = result_of(one_node("Trunc", "x s z i o", constants, rounding_mode=mode))
    np.testing.assert_array_equal(result, expected)


def refused(proto: ModelProto) -> str:
    with pytest.raises(GraphError) as error:
        load(proto)
    return str(error.value).partition("1 problem:\n  ")[2]


QUANTISED = {"s": np.float32(0.5), "z": np.float32(0), "b": np.float32(4)}
REFUSED = {
    "operator MultiThreshold of qonnx.custom_op.general is not supported; BipolarQuant, IntQuant, Quant, "
    "Trunc are: export the network with these, or as QDQ": one_node("MultiThreshold", "x s", QUANTISED),
    "attribute rounding_mode = 'ODD' is not supported; it may be CEIL, DOWN, FLOOR, HALF_DOWN, HALF_EVEN, "
    "HALF_UP, ROUND, UP": one_node("Quant", "x s z b", QUANTISED, rounding_mode="ODD"),
    "bitwidth 2.5 is not supported; it may be one whole number in 1..32": one_node(
        "Quant", "x s z b", QUANTISED | {"b": np.float32(2.5)}
    ),
    "bitwidth 32 of values that are not constant is not supported; 1 to 24 are": one_node(
        "Quant", "x s z b", QUANTISED | {"b": np.float32(32)}
    ),
    "bitwidth ('x') is computed while the network runs; it must be a constant": one_node(
        "Quant", "x s z x", QUANTISED
    ),
    "it has 6 inputs; Trunc takes 5 to 5": one_node("Trunc", "x s z b s b", QUANTISED),
}


@pytest.mark.parametrize("said", REFUSED)
def test_other_operators_and_parameters_are_refused_in_one_line(said):
    message = refused(REFUSED[said])
    assert message.endswith(said)
    assert "\n" not in message


def test_constants_whose_shapes_do_not_match_are_refused():
    constants = {"w": X, "s": np.ones(7, np.float32), "z": np.float32(0), "b": np.float32(4)}
    proto = one_node("Quant", "w s z b", constants)
    proto.graph.node[0].output[0] = "q"
    proto.graph.node.append(node("Add", "q x", "y"))
    assert "could not be broadcast together" in refused(proto)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("signed", [0, 1])
def test_a_network_of_few_bits_has_integer_products(bits, signed):
    """Weights of a scale for each channel, activations behind Relu, as Brevitas exports them."""
    constants = {
        "w": RNG.normal(size=(8, 4, 3, 3)).astype(np.float32),
        "ws": np.full((8, 1, 1, 1), 0.5 / bits, np.float32),
        "z": np.float32(0),
        "b": np.float32(bits),
        "s": np.float32(4 / 2**bits),
        "eight": np.float32(8),
    }
    nodes = [
        node("Quant", "x s z eight", "xq", domain=GENERAL, signed=1, narrow=0),
        node("Quant", "w ws z b", "wq", domain=GENERAL, signed=1, narrow=1),
        node("Conv", "xq wq", "c"),
        node("Relu", "c", "r"),
        node("Quant", "r s z b", "y", domain=GENERAL, signed=signed, narrow=0),
    ]
    proto = model(nodes, {"x": [1, 4, 9, 9]}, ["y"], constants)
    proto.opset_import.add(domain=GENERAL, version=1)
    graph = integer_graph(load(proto))
    assert "Int8Conv" in [graph_node.op for graph_node in graph.nodes]
    x = RNG.normal(size=(1, 4, 9, 9)).astype(np.float32)
    result, expected = (interpret(variant, {"x": x})["y"] for variant in (graph, load(proto)))
    assert np.abs(result - expected).max() <= constants["s"] * 1.01
    assert len(np.unique(result)) > 1
